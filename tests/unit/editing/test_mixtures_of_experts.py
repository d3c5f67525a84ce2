"""Mixtures of experts: their structure, the methods that edit them, and the reasons of those that do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from world.small_models import MIXTURES, changed, save, small_model, weights
from world.small_timestep import write_timestep

import kgedit
from kgedit.editing import make_editor
from kgedit.editing.editor import Editor
from kgedit.errors import ModelError
from kgedit.llm.contexts import read_context
from kgedit.llm.generation import Question, ask
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.presets import PRESETS
from kgedit.progress import ignore
from kgedit.records.cases import Case
from kgedit.timesteps.timestep import Timestep

BARE = read_context("question_only")
CHANGED = {
    "mixtral": "model.layers.1.self_attn.o_proj.weight",
    "qwen2_moe": "model.layers.1.mlp.shared_expert.down_proj.weight",
    "qwen3_moe": "model.layers.1.self_attn.o_proj.weight",
}
"""What is trained in block 1."""

CURVATURE = {"tokens": 200, "length": 16}
MADE: dict[str, dict[str, Any]] = {
    "ft_m": {"layer": 1, "steps": 10},
    "locft_bf": {"layer": 1, "steps": 10, "batch": 1, "least_steps": 0},
    "crispedit": {"layers": "1", "steps": 10, "least_steps": 0, **CURVATURE},
    "lora": {"epochs": 4},
    "grace": {"layer": 1, "steps": 10},
    "wise": {"layer": 1, "steps": 4},
    "ultraedit": {"layers": "1", "learning_rate": 0.05},
    "mend": {"train_steps": 2, "rank": 4, "blocks": 2},
}


@pytest.fixture(autouse=True)
def _own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGEDIT_HOME", str(tmp_path_factory.getbasetemp() / "mixtures-home"))


@pytest.fixture(scope="module")
def timestep(tmp_path_factory: pytest.TempPathFactory) -> Timestep:
    return write_timestep(tmp_path_factory.mktemp("timestep"), towns=range(3))


@pytest.fixture(scope="module")
def cases(timestep: Timestep) -> list[Case]:
    return list(timestep.cases())


def _editor(name: str, model: LanguageModel, timestep: Timestep, **given: object) -> Editor[Any]:
    editor = make_editor(name, model, {**MADE.get(name, {}), **given}, contexts=(BARE,), seed=7)
    if editor.capabilities.needs_known_facts:
        editor.prepare(timestep.known_facts(), advance=ignore)
    return editor


def test_the_layers_that_every_token_passes_are_found() -> None:
    mixtral, shared, mixed = (small_model(name).blocks for name in MIXTURES)

    assert [block.mixture for block in mixtral + shared + mixed] == [True] * 6 + [False, True, True]
    for block in (*mixtral, *mixed[1:]):
        assert (block.up, block.gate) == (None, None)
        assert block.down.name.endswith("self_attn.o_proj")
    for block in shared:
        names = [part.name.rpartition(".mlp.")[2] for part in (block.up, block.gate, block.down) if part is not None]
        assert names == ["shared_expert.up_proj", "shared_expert.gate_proj", "shared_expert.down_proj"]
    assert mixed[0].down.name == "model.layers.0.mlp.down_proj"
    assert [len(block.attention_inputs) for block in mixtral] == [3, 3, 3]


def test_experts_that_are_modules_are_told_from_a_shared_one_too() -> None:
    """As models had them before transformers 5, and as code from the hub still has."""
    model = small_model("qwen2_moe")

    class Experts(torch.nn.Module):
        def __init__(self, inner: torch.nn.Module) -> None:
            super().__init__()
            self.shared_expert = inner.shared_expert
            self.experts = torch.nn.ModuleList(torch.nn.Linear(32, 32) for _ in range(3))

        def forward(self, hidden: torch.Tensor) -> torch.Tensor:
            return self.shared_expert(hidden) + self.experts[1](hidden)  # type: ignore[no-any-return]

    for layer in model.module.model.layers:
        layer.mlp = Experts(layer.mlp)
    assert [block.mixture for block in model.blocks] == [True, True, True]
    assert model.blocks[0].down.name == "model.layers.0.mlp.shared_expert.down_proj"


@pytest.mark.parametrize("architecture", MIXTURES)
@pytest.mark.parametrize("name", MADE)
@pytest.mark.slow
def test_methods_that_assume_no_single_mlp_edit_a_mixture_and_restore_it(
    name: str, architecture: str, timestep: Timestep, cases: list[Case]
) -> None:
    model = small_model(architecture)
    before = weights(model)
    editor = _editor(name, model, timestep)
    applied = editor.apply(cases[:2])
    assert applied.loss is not None
    declared, touched = editor.capabilities, changed(before, model)
    if declared.changes_weights:
        assert CHANGED[architecture] in touched
        assert not any("mlp.experts" in path or "mlp.gate." in path for path in touched)
    brief = [Question(BARE.prompt(case.question), case.answer) for case in cases[:2]]
    ask(model, brief, PRESETS["synthetic"])
    editor.restore()
    assert changed(before, model) == []


@pytest.mark.parametrize("name", ["ft_m", "grace", "lora"])
@pytest.mark.slow
def test_an_edit_of_a_mixture_is_learned(name: str, timestep: Timestep, cases: list[Case]) -> None:
    losses = []
    for steps in (1, 40):
        given = {"epochs": steps} if name == "lora" else {"steps": steps}
        losses.append(_editor(name, small_model("mixtral"), timestep, **given).apply(cases[:1]).loss)
    assert losses[1] < losses[0] - 1.5  # type: ignore[operator]


@pytest.mark.parametrize("architecture", MIXTURES)
@pytest.mark.parametrize("name", ["rome", "r_rome", "c_rome", "memit", "encore", "rlsedit", "alphaedit"])
def test_closed_forms_refuse_blocks_with_experts_and_say_why(name: str, architecture: str) -> None:
    where = {"layer": 1} if "rome" in name else {"layers": "1"}
    with pytest.raises(ModelError, match=r"blocks 1 of .*Moe.*|blocks 1 of Mixtral") as raised:
        make_editor(name, small_model(architecture), where, contexts=(BARE,))
    assert "a router mixes several experts'" in str(raised.value)


def test_a_closed_form_edits_the_block_of_a_mixture_that_has_a_single_mlp(
    timestep: Timestep, cases: list[Case]
) -> None:
    model = small_model("qwen3_moe")
    before = weights(model)
    settings = {"layers": "0", "steps": 3, "prompts": 2, "prefix_tokens": 3, **CURVATURE}
    _editor("memit", model, timestep, **settings).apply(cases[:2])
    assert changed(before, model) == ["model.layers.0.mlp.down_proj.weight"]


def test_an_edited_mixture_is_saved_and_loaded(cases: list[Case], tmp_path: Path) -> None:
    folder = save(small_model("mixtral"), tmp_path / "model")
    edited = kgedit.edit(kgedit.load_model(str(folder)), "ft_m", cases=cases[:1], settings=MADE["ft_m"])
    loaded = kgedit.load_edited(edited.save(tmp_path / "edited"))
    assert changed(weights(edited.model), loaded.model) == []
