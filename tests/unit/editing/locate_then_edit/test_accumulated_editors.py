"""MEMIT with history, ENCORE, RLSEdit and AlphaEdit are one accumulated solve, out of which edits can be withdrawn."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from world.small_models import changed, save, small_model, weights

import kgedit
from kgedit import editing
from kgedit.editing import make_editor
from kgedit.editing.locate_then_edit.second_moments import null_space
from kgedit.errors import SpecError
from kgedit.llm.contexts import read_context
from kgedit.llm.language_model import LanguageModel
from kgedit.progress import ignore
from kgedit.records.cases import Case
from kgedit.runs.checkpoints import Checkpoint, Checkpoints
from kgedit.timesteps.timestep import Timestep

BARE = read_context("question_only")
SMALL = {"tokens": 600, "length": 32, "prefix_tokens": 4, "prompts": 2, "steps": 4, "withdrawable": True}
DAMPING = 1e-3

METHODS: dict[str, dict[str, Any]] = {
    "memit": {"preserve": 20, "history": True, "damping": DAMPING},
    "encore": {"preserve": 20, "penalty": 3, "damping": DAMPING},
    "rlsedit": {"preserve": 20, "keep_weights": 2, "keep_outputs": 0.5, "damping": DAMPING},
    "alphaedit": {"penalty": 0.5, "threshold": 0.3},
}


@pytest.fixture(autouse=True)
def _own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGEDIT_HOME", str(tmp_path_factory.getbasetemp() / "accumulated-home"))


def _editor(name: str, timestep: Timestep, **given: object) -> Any:
    model = small_model()
    model.module.double()
    editor = make_editor(name, model, {**SMALL, **METHODS[name], **given}, contexts=(BARE,), seed=7)
    editor.prepare(timestep.known_facts(), advance=ignore)
    return editor


def _matrix(model: LanguageModel, layer: int) -> torch.Tensor:
    """The down-projection of a Llama, outputs x inputs."""
    weight: torch.Tensor = model.blocks[layer].down.layer.weight.detach().clone()
    return weight


def _kept(editor: Any, layer: int, names: Sequence[str]) -> tuple[torch.Tensor, torch.Tensor]:
    """Keys and values with which edits were made."""
    rows = editor.state().tables["edits"]
    chosen = [rows.labels.index(name) for name in names]
    return rows.columns[f"keys.{layer}"][chosen].T, rows.columns[f"values.{layer}"][chosen].T


def _dense(editor: Any, before: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, layer: int) -> torch.Tensor:
    """The weights that the method's objective has its minimum at, from C and the objective alone."""
    moment = editor.second_moment(layer).matrix
    identity = torch.eye(len(moment), dtype=torch.float64)
    damped, missing = moment + DAMPING * moment.trace() / len(moment) * identity, values - before @ keys
    if type(editor).__name__ == "AlphaEdit":
        basis = null_space(editor.second_moment(layer), threshold=0.3, relative=True)
        projection = basis @ basis.T
        gram = projection @ keys @ keys.T + 0.5 * identity
        return before + torch.linalg.solve(gram, projection @ keys @ missing.T).T
    penalty = {
        "Memit": 20 * damped,
        "Encore": 20 * damped + 3 * identity,
        "RlsEdit": 2**2 * identity + 0.5**2 * 20 * damped,
    }[type(editor).__name__]
    return before + missing @ keys.T @ torch.linalg.inv(penalty + keys @ keys.T)


@pytest.mark.parametrize("name", METHODS)
def test_edits_in_a_row_are_one_solve_over_all_and_a_withdrawn_one_is_in_none(
    name: str, cases: list[Case], timestep: Timestep
) -> None:
    editor = _editor(name, timestep, layers="1")
    before, ids = _matrix(editor.model, 1), [case.case_id for case in cases[:6]]
    for start in (0, 2, 3):
        editor.apply(cases[start : {0: 2, 2: 3, 3: 6}[start]])

    every = _dense(editor, before, *_kept(editor, 1, ids), 1)
    assert torch.allclose(_matrix(editor.model, 1), every, atol=1e-7)
    assert (every - before).norm() > 1e-3

    others = [ids[0], ids[2], ids[3], ids[5]]
    alone = _dense(editor, before, *_kept(editor, 1, others), 1)
    editor.withdraw([ids[4], ids[1]])
    assert torch.allclose(_matrix(editor.model, 1), alone, atol=1e-7)
    assert (every - alone).norm() > 1e-3
    with pytest.raises(SpecError, match=f"no edit '{ids[1]}' to withdraw"):
        editor.withdraw([ids[0], ids[1]])
    assert torch.allclose(_matrix(editor.model, 1), alone, atol=1e-7), "all or none"


@pytest.mark.parametrize("name", METHODS)
def test_withdrawing_the_last_edit_gives_the_weights_of_before_it_in_every_layer(
    name: str, cases: list[Case], timestep: Timestep
) -> None:
    editor = _editor(name, timestep, layers="0-1")
    unedited = weights(editor.model)
    editor.apply(cases[:2])
    before = [_matrix(editor.model, layer) for layer in range(2)]
    editor.apply(cases[2:3])
    edited = [_matrix(editor.model, layer) for layer in range(2)]
    editor.withdraw([cases[2].case_id])
    for layer in range(2):
        assert torch.allclose(_matrix(editor.model, layer), before[layer], atol=1e-9)
        assert not torch.allclose(edited[layer], before[layer], atol=1e-5)

    editor.withdraw([case.case_id for case in cases[:2]])
    assert changed(unedited, editor.model) == [], "bit for bit once nothing is left"
    editor.apply(cases[:2])
    assert torch.equal(_matrix(editor.model, 0), before[0])


def test_alphaedit_without_history_solves_each_call_separately(cases: list[Case], timestep: Timestep) -> None:
    remembering, forgetting = (_editor("alphaedit", timestep, layers="1", history=given) for given in (True, False))
    for editor in (remembering, forgetting):
        editor.apply(cases[:3])
    between = _matrix(forgetting.model, 1)
    assert torch.equal(between, _matrix(remembering.model, 1))
    for editor in (remembering, forgetting):
        editor.apply(cases[3:5])

    newer = _kept(remembering, 1, [case.case_id for case in cases[3:5]])
    alone = _dense(remembering, between, *newer, 1)
    assert torch.allclose(_matrix(forgetting.model, 1), alone, atol=1e-7)
    assert (_matrix(remembering.model, 1) - alone).norm() > 1e-3


def test_a_case_edited_again_has_its_last_target_alone(cases: list[Case], timestep: Timestep) -> None:
    editor = _editor("encore", timestep, layers="1")
    before, newer = _matrix(editor.model, 1), dataclasses.replace(cases[0], answer="Asta Wik")
    editor.apply(cases[:3])
    editor.apply([newer])

    ids = [case.case_id for case in (cases[1], cases[2], newer)]
    assert torch.allclose(_matrix(editor.model, 1), _dense(editor, before, *_kept(editor, 1, ids), 1), atol=1e-7)
    assert sorted(editor.state().tables["edits"].labels) == sorted(ids)


def test_a_case_with_an_id_that_another_timestep_has_too_undoes_no_edit(cases: list[Case], timestep: Timestep) -> None:
    editor = _editor("encore", timestep, layers="1")
    one = dataclasses.replace(cases[0], shares_id=True)
    other = dataclasses.replace(cases[1], case_id=one.case_id, timestep="other", shares_id=True)
    editor.apply([one])
    editor.apply([other])
    assert editor.state().tables["edits"].labels == tuple(f"{name}\t{one.case_id}" for name in (one.timestep, "other"))


def test_the_methods_that_withdraw_say_what_that_does() -> None:
    assert {name for name in editing.METHODS if editing.METHODS[name].capabilities.withdrawing} == set(METHODS)


def test_a_method_without_memory_of_its_edits_withdraws_none_and_says_how(
    cases: list[Case], timestep: Timestep
) -> None:
    for given, how in (({"history": False}, "history: true and withdrawable"), ({"withdrawable": False}, "withdrawa")):
        editor = _editor("memit", timestep, layers="1", **given)
        editor.apply(cases[:1])
        with pytest.raises(SpecError, match=how):
            editor.withdraw([cases[0].case_id])
        assert editor.state().tables == {}
    with pytest.raises(SpecError, match="cannot withdraw single edits"):
        make_editor("ft_m", small_model()).withdraw(["Q1"])


def test_checkpoints_hold_new_edits_only_and_together_all_of_them(
    cases: list[Case], timestep: Timestep, tmp_path: Path
) -> None:
    editor, checkpoints = _editor("alphaedit", timestep, layers="0-1"), Checkpoints(tmp_path)
    sizes = []
    for done in range(4):
        editor.apply(cases[done : done + 1])
        checkpoints.save(Checkpoint("t", done + 1, done + 1, editor.next_checkpoint()))
        sizes.append((tmp_path / "rows.log").stat().st_size)
    steps = [after - before for before, after in zip([0, *sizes], sizes, strict=False)]
    assert max(steps) - min(steps) < 100

    resumed = _editor("alphaedit", timestep, layers="0-1")
    found = checkpoints.newest()
    assert found is not None
    resumed.load_state(found.state)
    for one in (editor, resumed):
        one.withdraw([cases[1].case_id])
        one.apply(cases[4:5])
    assert changed(weights(editor.model), resumed.model) == []


def test_edits_are_withdrawn_from_a_model_that_was_saved_and_loaded(cases: list[Case], tmp_path: Path) -> None:
    folder = save(small_model(), tmp_path / "model")
    settings = {**{name: value for name, value in SMALL.items() if name != "withdrawable"}, "layers": "0-1"}
    edited = kgedit.edit(kgedit.load_model(str(folder)), "alphaedit", cases=cases[:2], settings=settings)
    before = weights(edited.model)
    edited.apply(cases[2:3])
    loaded = kgedit.load_edited(edited.save(tmp_path / "edited"))
    assert changed(weights(edited.model), loaded.model) == []

    for one in (edited, loaded):
        one.withdraw(cases[2].case_id)
        for key, weight in weights(one.model).items():
            torch.testing.assert_close(weight, before[key], rtol=1e-4, atol=1e-5)
    assert edited.edits == tuple(cases[:2])
    assert "with 2 edits" in repr(loaded)

    for change, left in (
        (lambda: loaded.apply(cases[3:5]), 4),
        (lambda: loaded.apply(cases[:1]), 4),
        (lambda: loaded.withdraw(cases[0].case_id, cases[1].case_id, cases[3].case_id), 1),
    ):
        change()
        assert f"with {left} edits" in repr(loaded)
    assert loaded.edits == tuple(cases[4:5])
