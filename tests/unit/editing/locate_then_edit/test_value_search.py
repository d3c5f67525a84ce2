"""The search for v*."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from world.other_devices import Waits, other_devices
from world.small_models import ALL_ARCHITECTURES, changed, double_model, exactness, small_model, weights

from kgedit.editing.locate_then_edit.subject_prompts import (
    encode_with_subject,
    outputs_at,
    subject_prompt,
)
from kgedit.editing.locate_then_edit.value_search import EditRequest, ValueSearchSettings, search_values
from kgedit.llm.contexts import read_context
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.surgery.structure import hidden_of, hooks, with_hidden
from kgedit.records.cases import Case

pytestmark = pytest.mark.usefixtures("own_home")

BARE = read_context("question_only")


def _requests(model: LanguageModel, cases: list[Case]) -> list[EditRequest]:
    return [
        EditRequest(
            (subject_prompt(model, case, BARE), subject_prompt(model, case, BARE, random_prefix=(9, 8, 7))),
            encode_with_subject(model, f"{case.fact.subject_label} is a", len(case.fact.subject_label)),
            tuple(model.encode_target(case.answer)),
        )
        for case in cases
    ]


SEARCH = ValueSearchSettings(steps=8, learning_rate=0.5, weight_decay=0.1, clamp=2.0, drift_weight=0.5, stop_loss=0.05)


@pytest.mark.parametrize("architecture", ALL_ARCHITECTURES)
@pytest.mark.slow
def test_values_searched_for_together_are_those_searched_for_alone(architecture: str, cases: list[Case]) -> None:
    model = double_model(architecture)
    requests, module = _requests(model, cases[:3]), model.blocks[1].down_projection
    search = dataclasses.replace(SEARCH, stop_loss=1.0, steps=14)
    together = search_values(model, 1, module, requests, search)
    alone = [search_values(model, 1, module, [request], search) for request in requests]

    assert torch.allclose(together.before, torch.cat([one.before for one in alone]), atol=exactness(model))
    assert torch.allclose(together.added, torch.cat([one.added for one in alone]), atol=1e-2)
    assert together.losses == pytest.approx([one.losses[0] for one in alone], rel=1e-3)


def test_the_search_keeps_to_its_ball_and_lowers_the_targets_loss(cases: list[Case]) -> None:
    model = double_model()
    request, module = _requests(model, cases[:1])[0], model.blocks[1].module
    short = search_values(model, 1, module, [request], dataclasses.replace(SEARCH, steps=1))
    found = search_values(model, 1, module, [request], dataclasses.replace(SEARCH, clamp=0.5, steps=25))

    assert short.added.abs().max() == 0
    assert found.losses[0] < short.losses[0]
    assert found.added.norm() <= 0.5 * found.before.norm() + 1e-9
    assert torch.allclose(
        found.before[0], outputs_at(model, model.blocks[1].module, [request.prompts[0]], layer=1)[0], atol=1e-10
    )


def test_the_searchs_first_loss_is_the_mean_loss_of_the_prompts(cases: list[Case]) -> None:
    model = double_model()
    request = _requests(model, cases[:1])[0]
    found = search_values(model, 1, model.blocks[1].module, [request], dataclasses.replace(SEARCH, steps=1))
    expected = []
    for prompt in request.prompts:
        logits = model.module(torch.tensor([[*prompt.ids, *request.target]])).logits[0, len(prompt.ids) - 1 : -1]
        expected.append(torch.nn.functional.cross_entropy(logits, torch.tensor(request.target)).item())

    assert found.losses[0] == pytest.approx(sum(expected) / len(expected), rel=1e-5)


def _towards_the_second_likeliest(model: LanguageModel, request: EditRequest) -> EditRequest:
    """A target that a random model can be brought to say: what it nearly says behind the random prefix."""
    with torch.no_grad():
        logits = model.module(torch.tensor([request.prompts[1].ids])).logits[0, -1]
    return dataclasses.replace(request, target=(int(logits.argsort(descending=True)[1]),))


def test_the_search_ends_at_the_whole_loss_by_default_and_at_the_targets_own_on_request(cases: list[Case]) -> None:
    model = double_model()
    request = _towards_the_second_likeliest(model, _requests(model, cases[:1])[0])
    module = model.blocks[0].module
    search = dataclasses.replace(SEARCH, steps=8, learning_rate=0.1, weight_decay=5.0, clamp=99.0, stop_loss=0.0)
    eighth = search_values(model, 0, module, [request], search)
    ending = dataclasses.replace(search, steps=40, stop_loss=eighth.losses[0])

    assert torch.equal(search_values(model, 0, module, [request], ending).added, eighth.added)
    earlier = search_values(model, 0, module, [request], dataclasses.replace(ending, stop="target"))
    assert earlier.added.norm() < 0.9 * eighth.added.norm()


@pytest.mark.slow
def test_the_search_ends_so_many_steps_after_the_target_is_the_likeliest_behind_random_prefixes(
    cases: list[Case],
) -> None:
    model = double_model()
    module = model.blocks[0].module
    search = dataclasses.replace(SEARCH, clamp=99.0, weight_decay=0.0, drift_weight=0.0, stop_loss=0.0)

    def reached(request: EditRequest, added: torch.Tensor) -> bool:
        prompt = request.prompts[1]

        def shift(_: object, __: object, output: Any) -> Any:
            hidden = hidden_of(output).clone()
            hidden[0, prompt.subject] += added[0]
            return with_hidden(output, hidden)

        with torch.no_grad(), hooks(module.register_forward_hook(shift)):
            logits = model.module(torch.tensor([prompt.ids])).logits[0, -1]
        return int(logits.argmax()) == request.target[0]

    request = _towards_the_second_likeliest(model, _requests(model, cases[:1])[0])
    found = [
        search_values(model, 0, module, [request], dataclasses.replace(search, steps=steps)).added
        for steps in range(1, 20)
    ]
    first = next(index for index, added in enumerate(found) if reached(request, added))
    assert 0 < first < 17
    for patience in (0, 2):
        stopped = search_values(model, 0, module, [request], dataclasses.replace(search, steps=50, patience=patience))
        assert torch.allclose(stopped.added, found[first + patience], atol=1e-9)


def test_the_drift_is_the_divergence_of_what_is_said_after_from_what_was_said_before(cases: list[Case]) -> None:
    """KL(after | before), which is not KL(before | after); the second loss is that of the vector after one step."""
    model = double_model()
    request, module = _requests(model, cases[:1])[0], model.blocks[1].module
    weight = dataclasses.replace(SEARCH, steps=2, learning_rate=5.0, drift_weight=1.0, weight_decay=0.0, clamp=99.0)
    with_drift = search_values(model, 1, module, [request], weight)
    without = search_values(model, 1, module, [request], dataclasses.replace(weight, drift_weight=0.0))
    assert torch.allclose(with_drift.added, without.added), "the divergence has no slope where the search begins"

    def shift(_: object, __: object, output: Any) -> Any:
        hidden = hidden_of(output).clone()
        hidden[0, request.drift.subject] += with_drift.added[0]
        return with_hidden(output, hidden)

    ids = torch.tensor([request.drift.ids])
    with torch.no_grad():
        before = model.module(ids).logits[0, -1].log_softmax(-1)
        with hooks(module.register_forward_hook(shift)):
            after = model.module(ids).logits[0, -1].log_softmax(-1)
    divergence = (after.exp() * (after - before)).sum().item()
    other = (before.exp() * (before - after)).sum().item()

    assert with_drift.losses[0] - without.losses[0] == pytest.approx(divergence, rel=1e-3)
    assert divergence != pytest.approx(other, rel=5e-3), "otherwise this test tests nothing"


def test_the_search_gives_no_module_a_gradient_and_leaves_another_model_alone(cases: list[Case]) -> None:
    model, other = double_model(), double_model(seed=1)
    before, others = weights(model), weights(other)
    search_values(model, 1, model.blocks[1].module, _requests(model, cases[:2]), SEARCH)

    assert all(parameter.grad is None for parameter in model.module.parameters())
    assert changed(before, model) == changed(others, other) == []
    assert not model.blocks[1].module._forward_hooks


def test_a_hook_of_the_search_sees_blocks_that_return_tuples() -> None:
    model = small_model("gptj")
    seen: list[bool] = []
    handle = model.blocks[0].module.register_forward_hook(lambda _, __, out: seen.append(isinstance(out, tuple)))
    with hooks(handle), torch.no_grad():
        model.module(torch.tensor([[1, 2]]))
    output = (torch.zeros(1), None) if seen[0] else torch.zeros(1)
    assert torch.equal(hidden_of(with_hidden(output, torch.ones(1))), torch.ones(1))


@pytest.mark.parametrize("patience", [None, 3])
def test_a_step_waits_for_the_device_once(patience: int | None, cases: list[Case]) -> None:
    """Reading whether to stop; each further wait would leave a GPU idle."""
    waits = []
    with other_devices() as (first, _):
        model = small_model()
        model.module.to(first)
        requests, module = _requests(model, cases[:2]), model.blocks[1].down_projection
        for steps in (1, 2, 7):
            search = dataclasses.replace(SEARCH, steps=steps, stop_loss=0.0, patience=patience)
            with Waits() as counted:
                search_values(model, 1, module, requests, search)
            waits.append(counted.count)
    assert (waits[2] - waits[1]) / 5 == 1, "the first search finds the blocks"
