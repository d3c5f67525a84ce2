"""Models that do not fit: weights in main memory or on disk, loaded for each forward pass."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from world.small_models import save, small_model, weights
from world.small_timestep import write_timestep

import kgedit
from kgedit.editing import make_editor
from kgedit.llm.contexts import read_context
from kgedit.llm.generation import Question, ask
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.load_options import LoadOptions
from kgedit.llm.loading import load_model
from kgedit.llm.presets import PRESETS
from kgedit.llm.surgery.matrices import keep_loaded, layer_device, named_values

QUESTIONS = [Question("Who is the mayor of Arvika?", "Olof Gren"), Question("Who is the mayor of Mora?", "Asta Wik")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(small_model("llama_of_64"), tmp_path_factory.mktemp("offloaded") / "model")


@pytest.fixture
def offloaded(folder: Path) -> LanguageModel:
    """Of 628 kB, 300 in main memory; there is no GPU here."""
    return load_model(str(folder), device="cuda:all", dtype="float32", options=LoadOptions("cpu=300KB"))


@pytest.fixture
def whole() -> LanguageModel:
    return small_model("llama_of_64")


@pytest.mark.parametrize("preset", ["wild", "synthetic"])
def test_a_model_that_is_partly_on_disk_answers_as_a_whole_one(
    preset: str, offloaded: LanguageModel, whole: LanguageModel
) -> None:
    assert offloaded.blocks[0].down_projection.weight.device.type == "meta"
    answers, expected = (ask(model, QUESTIONS, PRESETS[preset]) for model in (offloaded, whole))
    assert [reply.text for reply in answers] == [reply.text for reply in expected]
    assert [reply.probability for reply in answers] == [reply.probability for reply in expected]
    assert offloaded.fingerprint == whole.fingerprint
    assert offloaded.device == torch.device("cpu")


def test_offloaded_values_are_those_of_the_file_and_a_layer_can_be_kept(
    offloaded: LanguageModel, whole: LanguageModel
) -> None:
    expected = weights(whole)
    values = dict(named_values(offloaded.module))
    assert values.keys() == expected.keys()
    assert all(torch.equal(values[name], expected[name]) for name in expected)
    layer = offloaded.blocks[1].down_projection
    assert (layer.weight.device.type, layer_device(layer)) == ("meta", torch.device("cpu"))
    with torch.inference_mode():
        ask(offloaded, QUESTIONS[:1], PRESETS["wild"])
    keep_loaded(layer)
    ask(offloaded, QUESTIONS[:1], PRESETS["wild"])
    assert torch.equal(layer.weight, expected["model.layers.1.mlp.down_proj.weight"])
    assert layer.weight.device.type == "cpu"
    keep_loaded(layer)


def test_an_edited_model_that_is_partly_on_disk_is_saved_whole(
    offloaded: LanguageModel, whole: LanguageModel, tmp_path: Path
) -> None:
    case = next(iter(write_timestep(tmp_path / "timestep").cases()))
    editor = make_editor("ft_m", whole, {"steps": 3}, contexts=(read_context("question_only"),), seed=0)
    editor.apply([case])
    edited = kgedit.edit(offloaded, "ft_m", cases=[case], settings={"steps": 3})
    saved = load_model(str(edited.save(tmp_path / "edited")), device="cpu", dtype="float32")
    expected = weights(whole)
    assert all(torch.equal(value, expected[name]) for name, value in weights(saved).items())
