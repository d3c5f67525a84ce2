"""BLUE, NAS and SimIE around the closed forms, each against its own equations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from world.small_models import changed, small_model, weights

from kgedit.editing import make_editor
from kgedit.editing.editor import EditorState, RunContext
from kgedit.editing.locate_then_edit.closed_form import away_from_main_directions, main_directions, pilot_cases
from kgedit.editing.locate_then_edit.subject_prompts import outputs_at
from kgedit.errors import SpecError
from kgedit.llm.contexts import read_context
from kgedit.llm.language_model import LanguageModel
from kgedit.progress import ignore
from kgedit.records.cases import Case
from kgedit.timesteps.timestep import Timestep

BARE = read_context("question_only")
SMALL = {"tokens": 600, "length": 32, "prefix_tokens": 4, "prompts": 2, "steps": 4, "damping": 1e-3, "preserve": 20}


@pytest.fixture(autouse=True)
def _own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGEDIT_HOME", str(tmp_path_factory.getbasetemp() / "options-home"))


def _editor(timestep: Timestep, *, name: str = "memit", **given: object) -> Any:
    model = small_model()
    model.module.double()
    own = {key: value for key, value in SMALL.items() if name == "memit" or key != "preserve"}
    editor = make_editor(name, model, {**own, **given}, contexts=(BARE,), seed=7)
    editor.prepare(timestep.known_facts(), advance=ignore)
    return editor


def _matrix(model: LanguageModel, layer: int) -> torch.Tensor:
    weight: torch.Tensor = model.blocks[layer].down.layer.weight.detach().clone()
    return weight


def test_blue_solves_the_lowest_and_the_highest_layer_each_for_all_of_its_own_value(
    cases: list[Case], timestep: Timestep
) -> None:
    """Of layers 0 to 1 these are both; of 0 to 2 the one between stays as it is."""
    editor, plain = _editor(timestep, layers="0-1", blue=True), _editor(timestep, layers="0-1")
    editor.apply(cases[:3])

    requests = [plain.request_of(case) for case in cases[:3]]
    for layer in (0, 1):
        module = plain.model.blocks[layer].module
        found = plain.search(module, requests, layer=layer)
        now = outputs_at(plain.model, module, [request.prompts[0] for request in requests], layer=layer)
        keys, missing = plain.keys(requests, layer=layer), (found.before + found.added - now).T
        gram = 20 * plain.damped(layer) + keys @ keys.T
        plain.matrices[layer].add((missing @ keys.T @ torch.linalg.inv(gram)).T)
        assert missing.norm() > 1e-2
    for layer in (0, 1):
        assert torch.allclose(_matrix(editor.model, layer), _matrix(plain.model, layer), atol=1e-9)
    assert _editor(timestep, layers="0-2", blue=True).details()["layers"] == [0, 2]
    assert _editor(timestep, layers="1", blue=True).details()["layers"] == [1]


@pytest.mark.parametrize("nas", [False, True])
def test_a_call_with_blue_resumes_from_its_checkpoints_in_either_search(
    nas: bool, cases: list[Case], timestep: Timestep
) -> None:
    given: dict[str, Any] = {
        "layers": "0-2",
        "blue": True,
        "search_batch": 1,
        "nas": nas,
        "pilots": 2,
        "prompts": 1,
        "steps": 2,
    }
    whole = _editor(timestep, name="alphaedit", **given)
    kept: list[EditorState] = []

    def checkpoint(state: Callable[[], EditorState]) -> None:
        kept.append(state())

    reported: list[float] = []
    applied = whole.apply(cases[:3], RunContext(checkpoint=checkpoint, progress=reported.append))
    assert [len(state.record["earlier"]) for state in kept] == [0, 0, 1, 1]
    # 85 % for the searches, the rest for the two layers: each stage searches three edits and changes one layer.
    searched = [0.85 * step / 6 for step in range(1, 7)]
    assert reported == pytest.approx([*searched[:3], 0.5, *(share + 0.075 for share in searched[3:]), 1])
    for state in kept:
        resumed = _editor(timestep, name="alphaedit", **given)
        assert resumed.apply(cases[:3], RunContext(resume=state)) == applied
        assert changed(weights(whole.model), resumed.model) == []


def test_edits_made_with_blue_are_withdrawn_too(cases: list[Case], timestep: Timestep) -> None:
    editor = _editor(timestep, name="alphaedit", layers="0-2", blue=True, withdrawable=True)
    editor.apply(cases[:2])
    before = [_matrix(editor.model, layer) for layer in (0, 2)]
    editor.apply(cases[2:3])
    editor.withdraw([cases[2].case_id])
    for layer, weight in zip((0, 2), before, strict=True):
        assert torch.allclose(_matrix(editor.model, layer), weight, atol=1e-9)


def test_nas_gives_each_value_the_mean_norm_of_pilot_edits_of_the_unedited_model(
    cases: list[Case], timestep: Timestep
) -> None:
    editor = _editor(timestep, layers="0-1", nas=True, pilots=3)
    plain = _editor(timestep, layers="0-1")
    pilots = [plain.request_of(case) for case in plain.editable(pilot_cases(timestep.known_facts(), 3))[0]]
    down = plain.model.blocks[1].down_projection
    written = outputs_at(plain.model, down, [request.prompts[0] for request in pilots], layer=1)
    found = plain.search(plain.model.blocks[1].module, pilots, layer=1)
    norm = (written + found.added).norm(dim=1).mean().item()
    assert editor.details()["anchors"] == {"1": pytest.approx(norm)}

    editor.apply(cases[:3])
    requests = [editor.request_of(case) for case in cases[3:5]]
    found = editor.search(editor.model.blocks[1].module, requests, layer=1)
    bare = [request.prompts[0] for request in requests]
    written = outputs_at(editor.model, editor.model.blocks[1].down_projection, bare, layer=1)
    wanted, dropped = editor.wanted(found, requests, layer=1)
    assert dropped == [False, False]
    scaled = wanted - (found.before - written)
    assert torch.allclose(scaled.norm(dim=1), torch.tensor(norm, dtype=torch.float64))
    assert torch.nn.functional.cosine_similarity(scaled, written + found.added).min() > 1 - 1e-9
    assert not torch.allclose((written + found.added).norm(dim=1), scaled.norm(dim=1), rtol=1e-3)


def test_nas_drops_values_twice_as_long_as_the_anchor_and_says_so(cases: list[Case], timestep: Timestep) -> None:
    editor = _editor(timestep, layers="1", nas=True, pilots=1)
    before = weights(editor.model)
    editor._anchors = {1: 1e-3}
    applied = editor.apply(cases[:2])

    assert [failure.case_id for failure in applied.failures] == [case.case_id for case in cases[:2]]
    assert "over twice as long" in applied.failures[0].reason
    for name, tensor in weights(editor.model).items():
        assert torch.allclose(tensor, before[name], atol=1e-12)


def test_pilot_edits_ask_for_another_answer_of_the_same_relation(timestep: Timestep) -> None:
    known = timestep.known_facts()
    pilots = pilot_cases(known, 5)
    for fact, case in zip(known, pilots, strict=False):
        others = {other.answer for other in known if other.fact.property == fact.fact.property} - {fact.answer}
        assert case.question == fact.question
        assert case.answer in others
    assert len(pilots) == min(5, len(known))


def test_pilot_edits_of_relations_with_one_answer_ask_for_that_of_another(timestep: Timestep) -> None:
    """Each edit of a file is a separate relation."""
    known = [
        replace(fact, fact=replace(fact.fact, property=f"relation-{index}"))
        for index, fact in enumerate(timestep.known_facts())
    ]
    pilots = pilot_cases(known, 5)
    assert len(pilots) == min(5, len(known))
    assert all(case.answer != fact.answer for fact, case in zip(known, pilots, strict=False))
    assert pilot_cases([replace(fact, answer="Paris") for fact in known], 5) == []


def test_simie_leaves_the_weights_nearest_to_what_each_call_would_have_left(
    cases: list[Case], timestep: Timestep
) -> None:
    penalty = 3.0
    editor = _editor(timestep, layers="1", simie=penalty)
    original = _matrix(editor.model, 1)
    gram = penalty * torch.eye(original.shape[1], dtype=torch.float64)
    right = penalty * original
    for start in (0, 2):
        alone = _editor(timestep, layers="1")
        alone.matrices[1].write(_matrix(editor.model, 1))
        keys = []
        for case in cases[start : start + 2]:
            request = alone.request_of(case)
            read: list[torch.Tensor] = []
            module = alone.model.blocks[1].down_projection
            handle = module.register_forward_pre_hook(lambda _, inputs, read=read: read.append(inputs[0][0]))
            alone.model.module(torch.tensor([[*request.prompts[0].ids, *request.target]]))
            handle.remove()
            keys.append(read[0].detach())
        every = torch.cat(keys).T
        alone.apply(cases[start : start + 2])
        gram += every @ every.T
        right += _matrix(alone.model, 1) @ every @ every.T
        editor.apply(cases[start : start + 2])

        assert torch.allclose(_matrix(editor.model, 1), right @ torch.linalg.inv(gram), atol=1e-8)
        assert (_matrix(editor.model, 1) - _matrix(alone.model, 1)).norm() > 1e-3


def test_simie_remembers_its_calls_in_a_saved_state_and_withdraws_none(cases: list[Case], timestep: Timestep) -> None:
    given: dict[str, Any] = {"layers": "0-1", "simie": 3, "history": True, "withdrawable": True}
    whole, resumed = _editor(timestep, **given), _editor(timestep, **given)
    before = weights(whole.model)
    whole.apply(cases[:2])
    resumed.load_state(whole.state())
    for one in (whole, resumed):
        one.apply(cases[2:4])
    assert changed(weights(whole.model), resumed.model) == []
    with pytest.raises(SpecError, match="no simie"):
        whole.withdraw([cases[0].case_id])
    once = weights(whole.model)
    whole.restore()
    assert changed(before, whole.model) == []
    whole.apply(cases[:2])
    whole.apply(cases[2:4])
    assert changed(once, whole.model) == []


@pytest.mark.parametrize("shape", [(6, 9), (9, 6)])
def test_main_directions_are_eigenvectors_of_the_rows_second_moment(shape: tuple[int, int]) -> None:
    """Against numpy's eigenvectors of W^T W / n of the normalised rows; the next direction would pass the share."""
    weight = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    rows = weight.numpy() / np.linalg.norm(weight.numpy(), axis=1, keepdims=True)
    values, vectors = np.linalg.eigh(rows.T @ rows / len(rows))
    values, vectors = values[::-1], vectors[:, ::-1]
    assert values.sum() == pytest.approx(1)
    for share in (0.05, 0.5, 0.9, 1.0):
        main = main_directions(weight, share).numpy()
        count = next(n for n in range(1, len(values) + 1) if values[:n].sum() >= share - 1e-12)
        assert np.allclose(main @ main.T, vectors[:, :count] @ vectors[:, :count].T)


def test_a_change_keeps_what_is_beside_the_main_directions_and_a_share_of_the_rest() -> None:
    draw = torch.Generator().manual_seed(4)
    weight, change = (torch.randn(5, 8, dtype=torch.float64, generator=draw) for _ in range(2))
    main = main_directions(weight, 0.5)
    found = away_from_main_directions(change, weight, strength=0.3, share=0.5)
    assert 0 < main.shape[1] < 5
    assert torch.allclose(found @ main, 0.7 * change @ main)
    beside = torch.eye(8, dtype=torch.float64) - main @ main.T
    assert torch.allclose(found @ beside, change @ beside)
    whole = away_from_main_directions(change, weight, strength=1.0, share=0.5)
    assert torch.allclose(whole @ main, torch.zeros(5, main.shape[1], dtype=torch.float64), atol=1e-12)


@pytest.mark.parametrize("name", ["memit", "alphaedit"])
def test_sphere_changes_each_call_by_the_matrix_as_it_is_then(name: str, cases: list[Case], timestep: Timestep) -> None:
    """The second call's directions are those of the matrix that the first one left."""
    given: dict[str, Any] = {"layers": "1", "history": True} if name == "memit" else {"layers": "1"}
    editor, plain = _editor(timestep, name=name, sphere=0.8, **given), _editor(timestep, name=name, **given)
    for batch in (cases[:2], cases[2:4]):
        before = _matrix(plain.model, 1)
        plain.apply(batch)
        change = _matrix(plain.model, 1) - before
        plain.matrices[1].write(before + away_from_main_directions(change, before, strength=0.8, share=0.5))
        editor.apply(batch)
        assert torch.allclose(_matrix(editor.model, 1), _matrix(plain.model, 1), atol=1e-9)
        assert (_matrix(editor.model, 1) - before - change).norm() > 1e-3 * change.norm()
    with pytest.raises(SpecError, match="no sphere"):
        editor.withdraw([cases[0].case_id])
