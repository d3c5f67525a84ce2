"""ft, ft_l, ft_m and locft_bf: what is trained, how far, and when it ends."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from world.small_models import ARCHITECTURES, changed, mean_loss, small_model, weights

from kgedit.editing import make_editor
from kgedit.editing.editor import Editor, RunContext
from kgedit.editing.training import seed_for
from kgedit.errors import SpecError
from kgedit.llm.contexts import read_context
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.training import encode_targets, target_loss
from kgedit.records.cases import Case, KnownFact

ASKED = (read_context("question_only"),)


def _editor(name: str, model: LanguageModel, **given: object) -> Editor[Any]:
    return make_editor(name, model, given, contexts=ASKED, seed=7)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_ft_m_learns_the_target_and_touches_one_matrix_only(architecture: str, cases: list[Case]) -> None:
    model = small_model(architecture)
    before, loss = weights(model), mean_loss(model, cases[:1])
    editor = _editor("ft_m", model, layer=1)

    editor.apply(cases[:1])

    assert mean_loss(model, cases[:1]) < loss / 2
    names = [name for name, module in model.module.named_modules() if module is model.blocks[1].down_projection]
    assert changed(before, model) == [f"{names[0]}.weight"]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_ft_raises_every_target_token_at_the_prompts_last_place(architecture: str, cases: list[Case]) -> None:
    model = small_model(architecture)

    def first_place(case: Case) -> float:
        with torch.no_grad():
            logits = model.module(torch.tensor([model.encode(case.question)])).logits[0, -1]
        return -logits.log_softmax(-1)[model.encode_target(case.answer)].mean().item()

    editor = _editor("ft", model, layer=1, steps=1)
    expected = sum(first_place(case) for case in cases[:3]) / 3
    assert editor.apply(cases[:3]).loss == pytest.approx(expected, rel=1e-4)

    _editor("ft", model, layer=1).apply(cases[:3])
    assert sum(first_place(case) for case in cases[:3]) / 3 < expected - 0.5


def test_ft_l_is_ft_within_a_box(cases: list[Case]) -> None:
    free, boxed = small_model(), small_model()
    matrix = boxed.blocks[1].down_projection
    before = matrix.weight.detach().clone()
    _editor("ft", free, layer=1).apply(cases[:1])
    editor = _editor("ft_l", boxed, layer=1)
    editor.apply(cases[:1])
    moved = (matrix.weight - before).abs().max().item()

    assert moved == pytest.approx(editor.settings.norm, rel=1e-2)
    assert editor.settings.norm == pytest.approx(5e-4 * 6400 / 48)
    assert (free.blocks[1].down_projection.weight - before).abs().max().item() > 1.2 * moved
    wide = small_model()
    _editor("ft_l", wide, layer=1, norm=1e6).apply(cases[:1])
    assert changed(weights(free), wide) == []


def test_ft_m_moves_no_weight_further_than_its_norm(cases: list[Case]) -> None:
    model = small_model()
    matrix = model.blocks[1].down_projection
    before = matrix.weight.detach().clone()
    _editor("ft_m", model, norm="1e-3", layer=1).apply(cases[:1])

    assert (matrix.weight - before).abs().max().item() == pytest.approx(1e-3, rel=1e-3)


def test_locft_bf_is_adam_on_mini_batches_shuffled_in_each_epoch_with_the_end_of_text(cases: list[Case]) -> None:
    settings = {"layer": 1, "learning_rate": 1e-2, "batch": 2, "stop_loss": 0, "least_steps": 0}
    model, plain, chosen = small_model(), small_model(), cases[:5]
    applied = _editor("locft_bf", model, steps=3, **settings).apply(chosen)

    weight = plain.blocks[1].down_projection.weight.requires_grad_(True)
    optimizer, order = torch.optim.Adam([weight], lr=1e-2), random.Random(seed_for(7, chosen))
    pairs = [(case.question, case.answer) for case in chosen]
    for _ in range(3):
        order.shuffle(pairs)
        losses = []
        for start in (0, 2, 4):
            targets = encode_targets(plain, pairs[start : start + 2], learn_end=True).without_last()
            loss = target_loss(plain.forward(targets.ids, targets.mask, last=targets.last).logits, targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    torch.testing.assert_close(model.blocks[1].down_projection.weight, weight)
    assert applied.loss == pytest.approx(sum(losses) / 3)

    whole = small_model()
    _editor("locft_bf", whole, steps=3, **{**settings, "batch": 5}).apply(chosen)
    same = small_model()
    _editor("ft_m", same, steps=3, layer=1, learning_rate=1e-2, stop_loss=0, learn_end=True).apply(chosen)
    assert changed(weights(whole), same) == []


def test_locft_bf_can_train_every_linear_layer_of_some_blocks(cases: list[Case]) -> None:
    model, again = small_model(), small_model()
    before = weights(model)
    settings = {"layer": 1, "matrices": "all", "steps": 2, "least_steps": 0}
    editor = _editor("locft_bf", model, **settings)
    editor.apply(cases[:3])
    linear = changed(before, model)
    other = _editor("locft_bf", again, **settings)
    other.load_state(editor.state())

    of_block = [name for name in before if f".{1}." in name and "norm" not in name and name.endswith("weight")]
    assert sorted(linear) == sorted(of_block)
    assert f"{editor.details()['matrices'][0]}.weight" in linear
    assert changed(weights(model), again) == []
    editor.restore()
    assert changed(before, model) == []


@pytest.mark.parametrize("batch", [100, 2])
@pytest.mark.slow
def test_locft_bf_rehearses_known_facts_which_then_stay_likelier(cases: list[Case], batch: int) -> None:
    """The facts are other cases' targets: trained along with the edits, or not."""
    known = [KnownFact(case.fact, case.question, "", "", case.answer) for case in cases[3:6]]
    losses, edited = [], []
    for rehearse in (0, 3):
        model = small_model()
        editor = _editor("locft_bf", model, layer=1, steps=40, batch=batch, rehearse=rehearse, least_steps=0)
        editor.prepare(known, advance=lambda _done, _total: None)
        editor.apply(cases[:3])
        losses.append(mean_loss(model, cases[3:6]))
        edited.append(mean_loss(model, cases[:3]))
    assert losses[1] < losses[0] / 2
    assert edited[1] < mean_loss(small_model(), cases[:3]) / 2, "the edits are still learned"


def test_a_resumed_call_of_locft_bf_rehearses_the_same_facts(cases: list[Case]) -> None:
    known = [KnownFact(case.fact, case.question, "", "", case.answer) for case in cases[3:]]
    given = {"layer": 1, "steps": 3, "batch": 2, "rehearse": 2, "least_steps": 0, "stop_loss": 0}
    states: list[Any] = []
    whole = small_model()
    editor = _editor("locft_bf", whole, **given)
    editor.prepare(known, advance=lambda _done, _total: None)
    editor.apply(cases[:3], RunContext(checkpoint=lambda state: states.append(state())))

    again = small_model()
    editor = _editor("locft_bf", again, **given)
    editor.prepare(known, advance=lambda _done, _total: None)
    editor.apply(cases[:3], RunContext(resume=states[0]))
    assert not changed(weights(whole), again)


def test_locft_bf_leaves_out_what_is_learned_and_ends_when_all_is(cases: list[Case]) -> None:
    model = small_model()
    before = weights(model)
    applied = _editor("locft_bf", model, batch=2, stop_loss=1e9).apply(cases[:4])

    assert changed(before, model) == []
    assert applied.loss > 0
    reported: list[float] = []
    editor = _editor("locft_bf", model, batch=2, steps=2, stop_loss=0, least_steps=0)
    editor.apply(cases[:4], RunContext(progress=reported.append))
    assert reported == [0, 0.25, 0.5, 0.75]


def test_ft_m_stops_at_its_loss(cases: list[Case]) -> None:
    applied = _editor("ft_m", small_model(), stop_loss=1e9).apply(cases[:1])
    model = small_model()

    assert applied.loss == pytest.approx(mean_loss(model, cases[:1]), rel=1e-5)


def test_ft_m_takes_its_layer_from_depth_and_refuses_one_that_is_not_there() -> None:
    assert _editor("ft_m", small_model()).settings.layer == 1
    assert _editor("ft_m", small_model(), depth=1).settings.layer == 2
    with pytest.raises(SpecError, match="no block 3"):
        _editor("ft_m", small_model(), layer=3)
