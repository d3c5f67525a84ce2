"""Models that are taught the facts of an older snapshot."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from world.small_models import changed, save, small_model, weights
from world.small_timestep import write_timestep

import kgedit
from kgedit.errors import ModelError, SpecError
from kgedit.llm.contexts import read_context
from kgedit.llm.presets import PRESETS
from kgedit.llm.teaching import Lesson, Teacher, TeachingPlan
from kgedit.timesteps.known_facts import sample_facts

SETTINGS: dict[str, Any] = {"presets": ["wild"], "goal": 1.0, "learning_rate": 3e-3, "batch": 8, "device": "cpu"}


@pytest.fixture
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Arguments of `teach_model` for a small random model."""
    monkeypatch.setenv("KGEDIT_HOME", str(tmp_path / "home"))
    write_timestep(tmp_path / "step", towns=range(3))
    model = save(small_model(), tmp_path / "model")
    return {"model": str(model), "timesteps": [str(tmp_path / "step")], "out": tmp_path / "taught", **SETTINGS}


@pytest.mark.slow
def test_a_model_is_taught_until_it_answers_the_old_facts(given: dict[str, Any]) -> None:
    taught = kgedit.teach_model(**given | {"goal": 0.9, "epochs": 60})

    assert taught.epochs[0].known == 0
    assert taught.epochs[0].loss is None
    assert taught.known >= 0.9 > taught.epochs[-2].known
    assert len(taught.epochs) < 60
    report = json.loads((taught.folder / "taught.json").read_text(encoding="utf-8"))
    assert report["known"] == taught.known
    assert report["model"] == "model"  # the folder's name without its path
    assert report["training"]["learning_rate"] == 3e-3
    assert [step["name"] for step in report["timesteps"]] == ["20200101_20210101"]


@pytest.mark.slow
def test_an_interrupted_training_resumes_to_the_same_weights(
    given: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = kgedit.teach_model(**given | {"epochs": 4})
    store, stored = Teacher._store, 0

    def store_twice(teacher: Teacher) -> None:
        nonlocal stored
        store(teacher)
        stored += 1
        if stored == 2:
            raise KeyboardInterrupt

    again = given | {"epochs": 3, "out": tmp_path / "again"}
    with monkeypatch.context() as patch:
        patch.setattr(Teacher, "_store", store_twice)
        with pytest.raises(KeyboardInterrupt):
            kgedit.teach_model(**again)
    kept = tmp_path / ".again.teaching"
    assert sorted(path.name for path in kept.iterdir()) == ["epoch-2.safetensors", "state.json"]

    resumed = kgedit.teach_model(**again | {"epochs": 4})  # its end is not part of the resumed state

    assert resumed.epochs == whole.epochs
    weights, others = (load_file(one.folder / "model.safetensors") for one in (whole, resumed))
    assert all(weights[name].equal(others[name]) for name in weights)
    assert not kept.exists()


def _teacher(folder: Path, *, epochs: int, architecture: str = "llama") -> Teacher:
    """A teacher of a small model with a parameter that no output depends on."""
    model = small_model(architecture)
    model.module.spare = torch.nn.Linear(2, 2)
    torch.nn.init.zeros_(model.module.spare.weight)
    torch.nn.init.zeros_(model.module.spare.bias)
    preset = replace(PRESETS["wild"], max_new_tokens=1)
    lesson = Lesson(tuple(sample_facts()[:4]), (), (read_context(preset.context),))
    plan = TeachingPlan(goal=1.0, epochs=epochs, batch=2)
    return Teacher(model, lesson, plan, preset=preset, is_right=lambda answer, fact: False, folder=folder)


def _as_earlier_versions_stored_it(path: Path) -> None:
    tensors = load_file(path)
    steps = {name: int(tensors.pop(name)) for name in list(tensors) if name.startswith("step.")}
    save_file(tensors, path, {"steps": str(max(steps.values()))})


@pytest.mark.parametrize("earlier", [False, True])
def test_a_parameter_without_a_gradient_is_stored_and_resumed(earlier: bool, tmp_path: Path) -> None:
    whole, begun = _teacher(tmp_path / "whole", epochs=2), _teacher(tmp_path / "cut", epochs=1)
    whole.teach(lambda *step: None)
    begun.teach(lambda *step: None)
    if earlier:
        _as_earlier_versions_stored_it(tmp_path / "cut" / "epoch-1.safetensors")
    resumed = _teacher(tmp_path / "cut", epochs=2)

    assert resumed.teach(lambda *step: None) == whole.epochs
    assert changed(weights(whole._model), resumed._model) == []
    assert changed(weights(begun._model), resumed._model) != []


def test_dropout_is_the_same_in_a_resumed_training(tmp_path: Path) -> None:
    whole = _teacher(tmp_path / "whole", epochs=2, architecture="gpt2")
    whole.teach(lambda *step: None)
    _teacher(tmp_path / "cut", epochs=1, architecture="gpt2").teach(lambda *step: None)
    resumed = _teacher(tmp_path / "cut", epochs=2, architecture="gpt2")

    assert resumed.teach(lambda *step: None) == whole.epochs
    assert changed(weights(whole._model), resumed._model) == []


def test_a_stored_training_of_more_epochs_is_refused_and_kept(tmp_path: Path) -> None:
    stored = _teacher(tmp_path / "cut", epochs=2).teach(lambda *step: None)
    with pytest.raises(ModelError, match=r"training of 2 epochs, more than 1\. Give epochs 2 or more"):
        _teacher(tmp_path / "cut", epochs=1).teach(lambda *step: None)

    assert _teacher(tmp_path / "cut", epochs=2).teach(lambda *step: None) == stored


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("state.json", b"[]"),
        ("state.json", b'{"lesson'),
        ("epoch-1.safetensors", b"torn"),
        ("epoch-1.safetensors", None),
    ],
)
def test_a_damaged_stored_training_is_refused_and_kept(name: str, content: bytes | None, tmp_path: Path) -> None:
    folder = tmp_path / "cut"
    _teacher(folder, epochs=1).teach(lambda *step: None)
    (folder / name).write_bytes(content) if content else (folder / name).unlink()
    with pytest.raises(ModelError, match=r"cut contains .* that is damaged \(.*\)\. Delete that folder to start over"):
        _teacher(folder, epochs=2).teach(lambda *step: None)
    assert folder.is_dir()


def test_the_state_of_another_training_is_not_used(given: dict[str, Any], tmp_path: Path) -> None:
    kept = tmp_path / ".taught.teaching"
    kept.mkdir()
    (kept / "state.json").write_text(json.dumps({"lesson": "another", "epochs": [], "known": []}), encoding="utf-8")

    taught = kgedit.teach_model(**given | {"epochs": 1})

    assert len(taught.epochs) == 2
    assert not kept.exists()


def test_what_cannot_be_taught_is_refused(given: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="one must decode"):
        kgedit.teach_model(**given | {"presets": ["synthetic"]})
    with pytest.raises(SpecError, match="did you mean 'wild'"):
        kgedit.teach_model(**given | {"presets": ["wilt"]})
    (tmp_path / "taught").mkdir()
    with pytest.raises(ModelError, match="already exists"):
        kgedit.teach_model(**given)


@pytest.mark.parametrize(("asked", "taken"), [({}, "float32"), ({"dtype": "bfloat16"}, "bfloat16")])
def test_a_model_is_taught_in_float32_on_a_gpu_too(
    asked: dict[str, str], taken: str, given: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[str] = []

    def load_model(name: str, *, device: str, dtype: str) -> None:
        loaded.append(dtype)
        raise ModelError(f"{name} on {device}")

    monkeypatch.setattr("kgedit.llm.devices.resolve_device", lambda _: "cuda")
    monkeypatch.setattr("kgedit.llm.loading.load_model", load_model)
    with pytest.raises(ModelError, match="on cuda"):
        kgedit.teach_model(**given | asked)
    assert loaded == [taken]
