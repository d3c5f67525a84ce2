"""`lyaplock` minimises its objective at every call, and its penalty grows while outputs on text drift too far."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
import torch
from world.small_models import changed, small_model, weights

from kgedit.editing import make_editor
from kgedit.errors import SpecError
from kgedit.llm.contexts import read_context
from kgedit.progress import ignore
from kgedit.records.cases import Case
from kgedit.timesteps.timestep import Timestep

BARE = read_context("question_only")
SMALL = {"tokens": 600, "length": 32, "prefix_tokens": 4, "prompts": 2, "steps": 4, "layers": "1", "enough": 0}
LAMBDA, DAMPING = 20.0, 1e-3


@pytest.fixture(autouse=True)
def _own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGEDIT_HOME", str(tmp_path_factory.getbasetemp() / "lyaplock-home"))


@dataclass
class Call:
    """One call: q, keys, desired outputs, and the matrix after it."""

    queue: float
    keys: torch.Tensor
    values: torch.Tensor
    after: torch.Tensor


def prepared(timestep: Timestep, **given: object) -> Any:
    model = small_model()
    model.module.double()
    settings = {**SMALL, "preserve": LAMBDA, "damping": DAMPING, **given}
    editor = make_editor("lyaplock", model, settings, contexts=(BARE,), seed=7)
    editor.prepare(timestep.known_facts(), advance=ignore)
    return editor


def matrix(editor: Any) -> torch.Tensor:
    """The edited down-projection, outputs x inputs."""
    weight: torch.Tensor = editor.model.blocks[1].down.layer.weight.detach().clone()
    return weight


def edited(editor: Any, cases: list[Case], monkeypatch: pytest.MonkeyPatch) -> list[Call]:
    """Edit the cases one by one, and record each call."""
    calls: list[Call] = []
    own = editor.change

    def change(layer: int, residuals: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        before = matrix(editor)
        found: torch.Tensor = own(layer, residuals, keys)
        calls.append(Call(editor.queue(layer), keys, before @ keys + residuals, before + found))
        return found

    monkeypatch.setattr(editor, "change", change)
    for case in cases:
        editor.apply([case])
    return calls


def minimum(editor: Any, original: torch.Tensor, call: Call, past: list[Call]) -> torch.Tensor:
    """The matrix that minimises the objective, by least squares over stacked rows and not by its equations."""
    moment = editor.second_moment(1).matrix
    moment = moment + DAMPING * moment.trace() / len(moment) * torch.eye(len(moment), dtype=torch.float64)
    root = torch.linalg.cholesky(call.queue * LAMBDA * moment).T
    rows = torch.cat([call.keys.T, *(one.keys.T for one in past), root])
    wanted = torch.cat([call.values.T, *((one.after @ one.keys).T for one in past), root @ original.T])
    found: torch.Tensor = torch.linalg.lstsq(rows, wanted).solution.T
    return found


def test_each_call_is_the_minimum_over_new_edits_past_edits_and_drift(
    cases: list[Case], timestep: Timestep, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor = prepared(timestep, alpha=0.5)
    original = matrix(editor)
    calls = edited(editor, cases[:4], monkeypatch)
    assert calls[-1].queue > 1.5, "the bound is passed, so that the penalty is not that of MEMIT"
    for number, call in enumerate(calls):
        assert torch.allclose(call.after, minimum(editor, original, call, calls[:number]), atol=1e-7)
        assert not torch.allclose(call.after, original, atol=1e-4)
    unweighted = [Call(1.0, call.keys, call.values, call.after) for call in calls]
    assert not torch.allclose(calls[-1].after, minimum(editor, original, unweighted[-1], calls[:-1]), atol=1e-6)


def test_the_queue_adds_the_excess_of_the_drift_over_the_bound(
    cases: list[Case], timestep: Timestep, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor = prepared(timestep, alpha=0.5)
    original, moment = matrix(editor), editor.second_moment(1).matrix
    calls = edited(editor, cases[:4], monkeypatch)
    drifts = [float(((one.after - original) @ moment @ (one.after - original).T).trace()) for one in calls]
    assert calls[0].queue == 1
    for (one, drift), (after, _) in pairwise(zip(calls, drifts, strict=True)):
        assert after.queue == pytest.approx(max(one.queue + drift / (0.5 * drifts[0]) - 1, 1.0))


def test_below_the_bound_the_penalty_is_that_of_memit_and_above_it_the_drift_is_smaller(
    cases: list[Case], timestep: Timestep, monkeypatch: pytest.MonkeyPatch
) -> None:
    free, bound = prepared(timestep, alpha=1e9), prepared(timestep, alpha=0.1)
    assert {call.queue for call in edited(free, cases[:4], monkeypatch)} == {1.0}
    edited(bound, cases[:4], monkeypatch)
    assert bound.drift(1) < 0.9 * free.drift(1)


def test_a_resumed_sequence_goes_on_with_its_queue(cases: list[Case], timestep: Timestep) -> None:
    whole, first, second = (prepared(timestep, alpha=0.5) for _ in range(3))
    for case in cases[:4]:
        whole.apply([case])
    for case in cases[:2]:
        first.apply([case])
    second.load_state(first.state())
    assert second.queue(1) == first.queue(1) > 1
    for case in cases[2:4]:
        second.apply([case])
    assert changed(weights(whole.model), second.model) == []


def test_restored_it_has_neither_edits_nor_drift_and_withdraws_none(cases: list[Case], timestep: Timestep) -> None:
    editor = prepared(timestep, alpha=0.5)
    unedited = weights(editor.model)
    editor.apply(cases[:2])
    with pytest.raises(SpecError, match="lyaplock cannot withdraw single edits"):
        editor.withdraw([cases[0].case_id])
    editor.restore()
    assert changed(unedited, editor.model) == []
    assert (editor.queue(1), editor.drift(1)) == (1.0, 0.0)
