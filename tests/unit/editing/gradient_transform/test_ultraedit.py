"""UltraEdit: running statistics, factors of gradients, and the closed form."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from world.small_models import ARCHITECTURES, changed, small_model, weights

from kgedit.editing import METHODS, make_editor
from kgedit.editing.editor import Editor
from kgedit.editing.gradient_transform.running_statistics import RunningStatistics
from kgedit.editing.gradient_transform.ultraedit import update_of
from kgedit.editing.hparams.settings import read_settings
from kgedit.errors import SpecError
from kgedit.llm.contexts import read_context
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.surgery.forward_above import gradient_factors
from kgedit.llm.surgery.layers import mlp_matrices
from kgedit.llm.training import encode_targets, target_loss
from kgedit.records.cases import Case

ASKED = (read_context("question_only"),)


def _editor(name: str, model: LanguageModel, **given: object) -> Editor[Any]:
    return make_editor(name, model, given, contexts=ASKED, seed=7)


@given(seed=st.integers(0, 1000), sizes=st.lists(st.integers(1, 6), min_size=1, max_size=5), width=st.integers(1, 5))
@settings(max_examples=40, deadline=None)
def test_running_statistics_are_those_of_all_vectors_at_once(seed: int, sizes: list[int], width: int) -> None:
    random = torch.Generator().manual_seed(seed)
    batches = [torch.randn((size, width), generator=random) * 3 + 5 for size in sizes]
    running = RunningStatistics.empty(width, torch.device("cpu"))
    for batch in batches:
        running.add(batch)
    whole = torch.cat(batches).double()

    assert running.count == len(whole)
    torch.testing.assert_close(running.mean, whole.mean(0))
    if len(whole) > 1:
        scores = running.normalize(whole)
        spread = whole.std(0)
        torch.testing.assert_close(scores, torch.where(spread > 1e-12, (whole - whole.mean(0)) / spread, 0.0))


def test_one_vector_is_scored_by_its_own_root_mean_square() -> None:
    running = RunningStatistics.empty(3, torch.device("cpu"))
    vector = torch.tensor([[3.0, 0.0, -4.0]])
    running.add(vector)

    scores = running.normalize(vector)
    assert bool(scores.isfinite().all())
    assert scores.square().mean().item() == pytest.approx(1)
    assert (scores[0, 0] / scores[0, 2]).item() == pytest.approx(-3 / 4)
    assert not running.normalize(torch.zeros((1, 3))).any()


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_gradient_parts_multiply_to_the_gradient_of_the_weight(architecture: str, cases: list[Case]) -> None:
    model = small_model(architecture)
    targets = encode_targets(model, [(case.question, case.answer) for case in cases[:3]], learn_end=False)
    places = mlp_matrices(model, [1, 2], "up,gate,down")
    parts, loss = gradient_factors(model, places, targets)
    matrices = [place.module.weight.requires_grad_(True) for place in places]
    whole = target_loss(model.forward(targets.ids, targets.mask, last=targets.last).logits, targets)
    expected = torch.autograd.grad(whole * 3, matrices)

    assert loss == pytest.approx(whole.item(), rel=1e-5)
    for part, gradient in zip(parts, expected, strict=True):
        product = torch.einsum("rti,rto->io", part.inputs, part.gradients)
        torch.testing.assert_close(product, gradient if architecture == "gpt2" else gradient.T, atol=1e-5, rtol=1e-3)


@pytest.mark.parametrize("roles", ["down", "up, down"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_ultraedit_adds_its_closed_form_to_every_matrix(architecture: str, roles: str, cases: list[Case]) -> None:
    """Statistics are over all matrices of one shape."""
    model = small_model(architecture)
    editor = _editor("ultraedit", model, learning_rate=1e-2, first=0.4, last=1, matrices=roles)
    assert editor.details()["layers"] == [1, 2]
    targets = encode_targets(model, [(case.question, case.answer) for case in cases[:4]], learn_end=False)
    places = mlp_matrices(model, [1, 2], roles)
    parts, _ = gradient_factors(model, places, targets)
    before = weights(model)
    editor.apply(cases[:4])

    names = {module: name for name, module in model.module.named_modules()}
    edited = [f"{names[place.module]}.weight" for place in places]
    assert changed(before, model) == sorted(edited)
    read = [[own[targets.predicting].double() for own in (part.inputs, part.gradients)] for part in parts]
    for place, (keys, slopes), name in zip(places, read, edited, strict=True):
        alike = [own for other, own in zip(places, read, strict=True) if other.shape == place.shape]
        seen = [torch.cat(rows) for rows in zip(*alike, strict=True)]
        z_keys, z_slopes = (
            (rows - every.mean(0)) / every.std(0) for rows, every in zip((keys, slopes), seen, strict=True)
        )
        values = -1e-2 * z_keys.square().sum(1, keepdim=True) * z_slopes
        update = torch.linalg.solve(keys.T @ keys + torch.eye(keys.shape[1]), keys.T @ values)
        found = weights(model)[name] - before[name]
        torch.testing.assert_close(found.double(), update if architecture == "gpt2" else update.T, atol=1e-5, rtol=1e-3)


def test_ultraedit_takes_other_matrices_in_other_blocks(cases: list[Case]) -> None:
    editor = _editor("ultraedit", small_model("llama"), layers="1-2.up,0.gate,2", matrices="down")
    editor.apply(cases[:2])

    assert editor.details()["matrices"] == ["0.gate", "1.up", "2.up", "2.down"]
    assert editor.details()["layers"] == [0, 1, 2]
    with pytest.raises(SpecError, match="blocks 0 to 2, not"):
        _editor("ultraedit", small_model("llama"), layers="2-3.up")
    with pytest.raises(SpecError, match="have no gate"):
        _editor("ultraedit", small_model("gpt2"), layers="0.gate")
    for wrong in ({"layers": "2.side"}, {"layers": "b.up"}, {"matrices": "side"}):
        assert len(read_settings(METHODS["ultraedit"].settings_type, wrong, method="ultraedit")[1]) == 1


def test_ultraedit_of_one_token_is_defined_and_lowers_its_loss() -> None:
    random = torch.Generator().manual_seed(0)
    key, slope = torch.randn((1, 6), generator=random), torch.randn((1, 4), generator=random)
    running = RunningStatistics.empty(10, torch.device("cpu"))
    running.add(torch.cat([key, slope], dim=1))
    update = update_of(key, slope, running, learning_rate=1e-3)

    written = key.double() @ update
    assert bool(update.isfinite().all())
    assert (written @ slope.double().T).item() < 0, "against the gradient"


def test_ultraedit_in_two_calls_sees_the_statistics_of_both(cases: list[Case]) -> None:
    model = small_model()
    editor = _editor("ultraedit", model, warm_up=3)
    editor.apply(cases[:4])
    editor.apply(cases[4:])
    tokens = sum(len(model.encode_target(case.answer)) for case in cases)

    assert list(editor.state().record["counts"].values()) == [tokens * len(editor.details()["matrices"])]
    with pytest.raises(SpecError, match=r"settings\.last"):
        _editor("ultraedit", model, first=0.9, last=0.1)


def test_a_state_of_earlier_versions_is_refused(cases: list[Case]) -> None:
    editor = _editor("ultraedit", small_model())
    editor.apply(cases[:2])
    state = editor.state()
    (kept,) = state.record["counts"].values()
    state.record["counts"] = dict.fromkeys(editor.details()["matrices"], kept)
    with pytest.raises(SpecError, match="overwrite=True"):
        editor.load_state(state)
