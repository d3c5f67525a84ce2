"""galore, bitfit, ln_tuning, ewc and si: the property that defines each."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from world.small_models import changed, small_model, weights

from kgedit.editing import make_editor
from kgedit.editing.editor import Editor
from kgedit.editing.fine_tuning.selective import ProjectedAdam, lifted, projected, singular_vectors
from kgedit.errors import SpecError
from kgedit.llm.contexts import read_context
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.surgery.structure import is_linear
from kgedit.llm.training import encode_targets, target_loss
from kgedit.records.cases import Case

ASKED = (read_context("question_only"),)
EPOCHS = {"steps": 4, "batch": 2, "least_steps": 0, "stop_loss": 0, "learning_rate": 1e-2}


def _editor(name: str, model: LanguageModel, **given: object) -> Editor[Any]:
    return make_editor(name, model, {**EPOCHS, **given}, contexts=ASKED, seed=7)


def _step(model: LanguageModel, cases: list[Case], optimizer: torch.optim.Optimizer) -> None:
    """One step on all cases, with plain torch."""
    targets = encode_targets(model, [(case.question, case.answer) for case in cases], learn_end=True)
    loss = target_loss(model.forward(targets.ids, targets.mask, last=targets.last).logits, targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def _linear_weights(model: LanguageModel) -> list[torch.nn.Parameter]:
    """Weights of the linear layers of all blocks, trained by plain torch."""
    layers = [part for block in model.blocks for part in block.module.modules() if is_linear(part)]
    return [layer.weight.requires_grad_(True) for layer in layers]


@pytest.mark.parametrize("shape", [(6, 9), (9, 6), (6, 6)])
def test_a_projected_gradient_is_its_best_approximation_of_a_rank_and_itself_at_full_rank(
    shape: tuple[int, int],
) -> None:
    gradient = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    for rank in (2, 6, 50):
        basis = singular_vectors(gradient, rank)
        found = lifted(projected(gradient, basis), basis, shape)
        left, values, right = torch.linalg.svd(gradient, full_matrices=False)
        best = (left[:, :rank] * values[:rank]) @ right[:rank]
        torch.testing.assert_close(found, best)
    torch.testing.assert_close(found, gradient)


@pytest.mark.parametrize("shape", [(60, 90), (90, 60)])
def test_iterated_singular_vectors_are_those_of_a_full_decomposition(shape: tuple[int, int]) -> None:
    drawn = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    left, _, right = torch.linalg.svd(drawn, full_matrices=False)
    gradient = left * torch.logspace(0, -3, 60) @ right
    cosines = (singular_vectors(gradient, 3) * (left if shape[0] < shape[1] else right.T)[:, :3]).sum(dim=0).abs()
    torch.testing.assert_close(cosines, torch.ones(3))


def test_galore_changes_a_matrix_within_its_rank_until_the_subspace_is_chosen_again(cases: list[Case]) -> None:
    start = small_model().blocks[1].down_projection.weight
    for refresh, most in ((100, 2), (3, 4)):
        model = small_model()
        _editor("galore", model, rank=2, refresh=refresh, steps=5, batch=4).apply(cases[:4])
        change = model.blocks[1].down_projection.weight - start
        assert torch.linalg.matrix_rank(change, tol=1e-5) == most


def test_galore_is_adam_on_projected_gradients(cases: list[Case]) -> None:
    model, plain = small_model(), small_model()
    _editor("galore", model, rank=2, scale=0.5, steps=3, batch=4).apply(cases[:4])

    own = _linear_weights(plain)
    proxies = [torch.nn.Parameter(torch.zeros(2, max(weight.shape))) for weight in own]
    adam, bases = torch.optim.Adam(proxies, lr=1e-2 * 0.5), []
    starts = [weight.detach().clone() for weight in own]

    class Projecting:
        """Steps of Adam in coordinates of a basis of each first gradient."""

        def zero_grad(self) -> None:
            for weight in own:
                weight.grad = None

        def step(self) -> None:
            if not bases:
                for weight in own:
                    left, _, right = torch.linalg.svd(weight.grad, full_matrices=False)
                    bases.append(left[:, :2] if weight.shape[0] <= weight.shape[1] else right[:2].T)
            for weight, proxy, basis in zip(own, proxies, bases, strict=True):
                wide = weight.shape[0] <= weight.shape[1]
                proxy.grad = basis.T @ weight.grad if wide else (weight.grad @ basis).T
            adam.step()
            with torch.no_grad():
                for weight, start, proxy, basis in zip(own, starts, proxies, bases, strict=True):
                    wide = weight.shape[0] <= weight.shape[1]
                    weight.copy_(start + (basis @ proxy if wide else proxy.T @ basis.T))

    for _ in range(3):
        _step(plain, cases[:4], Projecting())  # type: ignore[arg-type]
    for name, found in weights(model).items():
        torch.testing.assert_close(found, weights(plain)[name], atol=2e-4, rtol=1e-3)
    assert len(changed(weights(small_model()), model)) == len(own)


def test_projected_adam_ignores_what_is_outside_of_its_subspace() -> None:
    weight = torch.nn.Parameter(torch.zeros(3, 4))
    optimizer = ProjectedAdam([weight], lr=0.1, rank=1, refresh=10)
    weight.grad = torch.diag(torch.tensor([5.0, 1.0, 0.0]))[:, [0, 1, 2, 2]]
    optimizer.step()
    assert weight[0, 0].item() == pytest.approx(-0.1)
    assert weight[1:].abs().max().item() < 1e-6


@pytest.mark.parametrize("architecture", ["gpt2", "qwen2", "falcon"])
def test_bitfit_changes_biases_and_nothing_else(architecture: str, cases: list[Case]) -> None:
    model = small_model(architecture)
    before = weights(model)
    _editor("bitfit", model).apply(cases[:4])
    moved = changed(before, model)

    assert moved
    assert all(name.endswith(".bias") for name in moved)
    assert before.keys() == weights(model).keys(), "no bias was added"


def test_bitfit_gives_a_model_without_biases_some_or_refuses_it(cases: list[Case]) -> None:
    model = small_model("llama")
    before, editor = weights(model), _editor("bitfit", model)
    untouched = editor.state()
    editor.apply(cases[:4])
    moved = changed(before, model)

    assert {name.rpartition(".")[2] for name in moved} == {"bias"}
    assert len(moved) == len(_linear_weights(small_model()))
    assert all(not tensor.any() for tensor in untouched.tensors.values())
    with pytest.raises(SpecError, match="has no biases for bitfit to train"):
        _editor("bitfit", small_model("llama"), add_biases=False)
    assert _editor("bitfit", small_model("gpt2"), add_biases=False).settings.add_biases is False


@pytest.mark.parametrize(("architecture", "expected"), [("llama", 7), ("gpt2", 14), ("qwen3", 13)])
def test_ln_tuning_changes_norms_and_nothing_else(architecture: str, expected: int, cases: list[Case]) -> None:
    model = small_model(architecture)
    before = weights(model)
    _editor("ln_tuning", model).apply(cases[:4])
    moved = changed(before, model)

    assert len(moved) == expected, "two norms a block and the final one; with biases; with norms of queries and keys"
    assert all("norm" in name or "ln_" in name for name in moved)


def test_blocks_that_are_not_named_stay_as_they_were(cases: list[Case]) -> None:
    for name in ("galore", "bitfit", "ln_tuning", "ewc", "si"):
        model = small_model("gpt2")
        before = weights(model)
        _editor(name, model, layers="1").apply(cases[:4])
        assert {key.split(".")[2] for key in changed(before, model)} == {"1"}, name


@pytest.mark.parametrize("name", ["ewc", "si"])
def test_without_a_penalty_each_call_is_plain_fine_tuning(name: str, cases: list[Case]) -> None:
    model, plain = small_model(), small_model()
    editor = _editor(name, model, penalty=0, batch=8)
    own = _linear_weights(plain)
    for batch in (cases[:3], cases[3:6]):
        editor.apply(batch)
        optimizer = torch.optim.Adam(own, lr=1e-2, fused=True)
        for _ in range(4):
            _step(plain, batch, optimizer)
    for key, found in weights(model).items():
        torch.testing.assert_close(found, weights(plain)[key], atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("name", ["ewc", "si"])
def test_a_penalty_acts_from_the_second_call_on_and_keeps_important_parameters(name: str, cases: list[Case]) -> None:
    def moved_in_second(penalty: float) -> tuple[dict[str, torch.Tensor], float]:
        model = small_model()
        editor = _editor(name, model, penalty=penalty)
        editor.apply(cases[:3])
        first = editor.state().tensors
        editor.apply(cases[3:6])
        own = editor.trained
        change = sum((own[key].value.detach() - first[key]).square().sum().item() for key in own)
        return {key: first[key] for key in own}, change

    plain, free = moved_in_second(0)
    held, kept = moved_in_second(1e4)
    assert all(torch.equal(plain[key], held[key]) for key in plain), "the first call has no penalty"
    assert kept < 0.7 * free


def test_the_importance_of_ewc_is_the_mean_squared_gradient_of_the_answers_log_likelihood(cases: list[Case]) -> None:
    model = small_model()
    editor = _editor("ewc", model)
    editor.apply(cases[:3])

    layer = model.blocks[1].down_projection
    expected = torch.zeros_like(layer.weight)
    layer.weight.requires_grad_(True)
    for case in cases[:3]:
        prompt = model.encode(case.question)
        target = [*model.encode_target(case.answer, after=case.question), *model.end_of_answer(case.question)]
        logits = model.module(torch.tensor([prompt + target])).logits[0, len(prompt) - 1 : -1]
        likelihood = logits.log_softmax(-1)[range(len(target)), target].sum()
        expected += torch.autograd.grad(likelihood, layer.weight)[0].square() / 3
    name = next(key for key, own in editor.trained.items() if own.value is layer.weight)
    torch.testing.assert_close(editor.importance[name], expected, rtol=1e-3, atol=1e-7)


def test_the_penalties_of_several_calls_are_one_quadratic_function(cases: list[Case]) -> None:
    """F1 (x - a1)^2 + F2 (x - a2)^2 has the gradient of (F1 + F2)(x - a)^2 everywhere."""
    editor = _editor("ewc", small_model())
    parts = []
    for batch in (cases[:2], cases[2:4]):
        before = {key: value.clone() for key, value in editor.importance.items()}
        editor.apply(batch)
        fisher = {key: own - before.get(key, 0) for key, own in editor.importance.items()}
        parts.append((fisher, {key: own.value.detach().clone() for key, own in editor.trained.items()}))
    for key, importance in editor.importance.items():
        anywhere = torch.randn(importance.shape, generator=torch.Generator().manual_seed(1))
        expected = sum(fisher[key] * (anywhere - anchor[key]) for fisher, anchor in parts)
        torch.testing.assert_close(importance * (anywhere - editor.anchor[key]), expected, rtol=1e-3, atol=1e-5)


def test_the_path_integral_of_si_adds_up_to_what_the_loss_fell(cases: list[Case]) -> None:
    """For small steps the sum of -gradient x change over all parameters is the fall of the loss."""
    model = small_model()
    editor = _editor("si", model, learning_rate=1e-4, steps=30, batch=8, damping=1e6)
    pairs = [(case.question, case.answer) for case in cases[:3]]
    targets = encode_targets(model, pairs, learn_end=True)

    def loss() -> float:
        with torch.no_grad():
            return target_loss(model.forward(targets.ids, targets.mask, last=targets.last).logits, targets).item()

    start = loss()
    editor.apply(cases[:3])
    # With large damping importance is the path integral over xi; the few negative ones are left out.
    earned = 1e6 * sum(importance.sum().item() for importance in editor.importance.values())
    assert start - loss() > 0.1
    assert earned == pytest.approx(start - loss(), rel=0.1)
    assert all(torch.equal(editor.anchor[key], own.value) for key, own in editor.trained.items())
