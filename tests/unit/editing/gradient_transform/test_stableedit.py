"""stableedit: whitening, the closed form with its penalty, and the warm-up, against dense computations."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from world.small_models import changed, small_model, weights
from world.small_timestep import write_timestep

from kgedit.editing import make_editor
from kgedit.editing.gradient_transform.running_statistics import RunningCovariance
from kgedit.editing.gradient_transform.ultraedit import closed_form
from kgedit.llm.contexts import read_context
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.surgery.forward_above import gradient_factors
from kgedit.llm.surgery.layers import mlp_matrices
from kgedit.llm.training import encode_targets
from kgedit.progress import ignore
from kgedit.records.cases import Case
from kgedit.timesteps.timestep import Timestep

ASKED = (read_context("question_only"),)


@pytest.fixture(scope="module")
def timestep(tmp_path_factory: pytest.TempPathFactory) -> Timestep:
    return write_timestep(tmp_path_factory.mktemp("timestep"), towns=range(6))


@pytest.fixture(scope="module")
def cases(timestep: Timestep) -> list[Case]:
    return list(timestep.cases())


def _editor(model: LanguageModel, timestep: Timestep, **given: object) -> Any:
    own = {"layers": "1", "learning_rate": 0.05, **given}
    editor = make_editor("stableedit", model, own, contexts=ASKED, seed=7)
    editor.prepare(timestep.known_facts(), advance=ignore)
    return editor


def _vectors(count: int, width: int) -> torch.Tensor:
    draw = torch.Generator().manual_seed(2)
    mixed = torch.randn(width, width, generator=draw, dtype=torch.float64)
    return torch.randn(count, width, generator=draw, dtype=torch.float64) @ mixed + 3


def test_whitened_vectors_have_the_identity_as_covariance_however_they_came() -> None:
    vectors = _vectors(40, 5)
    parts = [RunningCovariance.empty(5, torch.device("cpu")) for _ in range(2)]
    parts[0].add(vectors)
    for start, stop in ((0, 1), (1, 20), (20, 40)):
        parts[1].add(vectors[start:stop])
    for running in parts:
        torch.testing.assert_close(running.scatter, torch.cov(vectors.T) * 39)
        white = running.whiten(vectors, floor=1e-12)
        torch.testing.assert_close(white.T @ white / (40 - 5 - 1), torch.eye(5, dtype=torch.float64))
        assert white.mean(0).abs().max() < 1e-12


def test_whitening_needs_more_vectors_than_features_and_divides_by_no_less_than_the_floor() -> None:
    running = RunningCovariance.empty(5, torch.device("cpu"))
    running.add(_vectors(6, 5))
    assert not running.can_whiten
    running.add(_vectors(7, 5)[6:])
    assert running.can_whiten
    flat = RunningCovariance(20, torch.zeros(2).double(), torch.zeros(2, 2).double())
    torch.testing.assert_close(flat.whiten(torch.ones(1, 2), floor=0.25), torch.full((1, 2), 2.0).double())


def test_the_closed_form_is_ridge_regression_and_vanishes_with_its_penalty() -> None:
    read, keys, slopes = _vectors(4, 6), _vectors(4, 6) - 2, _vectors(4, 3)
    values = -0.1 * torch.diag(keys @ keys.T)[:, None] * slopes
    expected = torch.linalg.inv(read.T @ read + 10 * torch.eye(6).double()) @ read.T @ values
    torch.testing.assert_close(closed_form(read, keys, slopes, learning_rate=0.1, penalty=10), expected)
    assert closed_form(read, keys, slopes, learning_rate=0.1, penalty=1e12).abs().max() < 1e-8


def _z(vectors: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
    return (vectors - seen.mean(0)) / seen.std(0)


@pytest.mark.parametrize("whitens", [True, False])
def test_an_edit_after_the_warm_up_is_whitened_by_everything_seen(
    whitens: bool, timestep: Timestep, cases: list[Case]
) -> None:
    """With fewer vectors than outputs gradients are scored element by element, as in the warm-up."""
    known, model, plain = timestep.known_facts(), small_model(), small_model()
    before = weights(model)
    editor = _editor(model, timestep, batch=4, warm_up=12 if whitens else 0, penalty=3, floor=1e-9)
    assert changed(before, model) == [], "the warm-up is applied by the first call"
    editor.apply(cases[:2])

    facts = known[: 12 if whitens else 0]
    pairs = [(fact.question, fact.answer) for fact in facts] + [(case.question, case.answer) for case in cases[:2]]
    matrix = mlp_matrices(plain, [1], "down")
    weight = plain.blocks[1].down_projection.weight
    every_input, every_slope = torch.empty(0, 48).double(), torch.empty(0, 32).double()
    for start in range(0, len(pairs), 4):
        targets = encode_targets(plain, pairs[start : start + 4], learn_end=False)
        factors = gradient_factors(plain, matrix, targets)[0][0]
        read, slopes = (own[targets.predicting].double() for own in (factors.inputs, factors.gradients))
        every_input, every_slope = torch.cat([every_input, read]), torch.cat([every_slope, slopes])
        keys, scored = _z(read, every_input), _z(slopes, every_slope)
        enough = len(every_slope) > 33
        if start + 4 >= len(pairs):
            assert enough == whitens
            if whitens:
                covariance = torch.cov(every_slope.T) * (len(every_slope) - 1) / (len(every_slope) - 33)
                values, axes = torch.linalg.eigh(covariance)
                root = axes @ torch.diag(values.clamp(min=1e-9) ** -0.5) @ axes.T
                scored = (slopes - every_slope.mean(0)) @ root
        wanted = -0.05 * keys.square().sum(1, keepdim=True) * scored
        update = torch.linalg.inv(read.T @ read + 3 * torch.eye(48).double()) @ read.T @ wanted
        weight.add_(update.T.float())
    torch.testing.assert_close(model.blocks[1].down_projection.weight, weight, rtol=1e-3, atol=1e-3)
    assert not torch.allclose(weight, before["model.layers.1.mlp.down_proj.weight"], atol=0.05)


def test_a_state_saved_before_the_first_edit_still_begins_with_the_warm_up(
    timestep: Timestep, cases: list[Case]
) -> None:
    one, other = (_editor(small_model(), timestep, warm_up=5) for _ in range(2))
    other.load_state(one.state())
    for editor in (one, other):
        editor.apply(cases[:1])
    assert changed(weights(one.model), other.model) == []
