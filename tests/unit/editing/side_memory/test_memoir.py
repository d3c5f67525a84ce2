"""MEMOIR: its masks, its training, and what it leaves unchanged."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from world.small_models import ARCHITECTURES, changed, mean_loss, small_model, weights

from kgedit.editing import make_editor
from kgedit.editing.side_memory.memoir import MaskedMemory, Memoir
from kgedit.editing.side_memory.prompt_routes import SeenTokens
from kgedit.llm.contexts import read_context
from kgedit.llm.language_model import LanguageModel
from kgedit.progress import ignore
from kgedit.records.cases import Case
from kgedit.timesteps.timestep import Timestep

ASKED = (read_context("question_only"),)


def _editor(model: LanguageModel, timestep: Timestep, **given: object) -> Memoir:
    settings = {"layer": 1, "steps": 4, "prefixes": 2, "share": 0.25, "stop_loss": 0.0, "threshold": 0.9, **given}
    editor = make_editor("memoir", model, settings, contexts=ASKED, seed=7)
    assert isinstance(editor, Memoir)
    editor.prepare(timestep.known_facts(), advance=ignore)
    return editor


def _inputs(model: LanguageModel, layer: Any, ids: list[int]) -> torch.Tensor:
    """Inputs of a layer for one text, length x inputs."""
    seen: list[torch.Tensor] = []
    handle = layer.register_forward_pre_hook(lambda _, given: seen.append(given[0].detach()))
    with torch.no_grad():
        model.module(torch.tensor([ids]))
    handle.remove()
    return seen[0].reshape(len(ids), -1)


def _masks_by_hand(editor: Memoir, model: LanguageModel, layer: Any, question: str) -> set[int]:
    """Inputs in a prompt's mask, from the definition: sorted sizes, and the permutation one input at a time."""
    feature = _inputs(model, layer, model.encode(question)).mean(0) - editor.memory_beside.center
    count = round(0.25 * len(feature))
    largest = sorted(range(len(feature)), key=lambda index: -abs(float(feature[index])))[:count]
    return {int(editor.memory_beside.permutation[index]) for index in largest}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_an_edit_adds_the_memory_times_the_masked_inputs(
    architecture: str, cases: list[Case], timestep: Timestep
) -> None:
    """The logits are those of the definition, W a + W_m (m * a), written out for one prompt."""
    model, plain = small_model(architecture), small_model(architecture)
    editor, layer = _editor(model, timestep), plain.blocks[1].down.layer
    editor.apply(cases[:3])
    mask = _masks_by_hand(editor, plain, layer, cases[0].question)
    assert mask == set(editor.memory_beside.masks[0].nonzero().flatten().tolist())

    kept = torch.zeros(plain.blocks[1].inner_width)
    kept[sorted(mask)] = 1
    ids = model.encode(cases[0].question)
    tensor = torch.tensor([ids])
    ends = torch.tensor([len(ids) - 1])
    beside = editor.memory_beside.weight
    handle = layer.register_forward_hook(lambda _, given, out: out + (given[0] * kept) @ beside.T)
    with torch.no_grad():
        expected = plain.module(tensor).logits
        found = model.forward(tensor, torch.ones_like(tensor), last=len(ids), ends=ends).logits
        handle.remove()
        unedited = plain.module(tensor).logits
    torch.testing.assert_close(found, expected)
    assert not torch.allclose(found, unedited, atol=1e-2)


def test_prompts_that_resemble_no_edit_get_the_outputs_of_the_unedited_model_to_the_last_bit(
    cases: list[Case], timestep: Timestep
) -> None:
    """Also in one batch with a prompt that is edited, and for a caller that does not give the ends of prompts."""
    model, plain = small_model(), small_model()
    before, editor = weights(model), _editor(model, timestep, threshold=0.999)
    editor.apply(cases[:1])
    assert changed(before, model) == []
    ids, mask = model.pad_left([model.encode(case.question) for case in cases[:4]])
    ends = torch.full((4,), ids.shape[1] - 1)
    with torch.no_grad():
        alone = plain.forward(ids, mask, last=3, ends=ends).logits
        found = model.forward(ids, mask, last=3, ends=ends).logits
        whole = model.module(ids, attention_mask=mask).logits[:, -3:]
        whole_alone = plain.module(ids, attention_mask=mask).logits[:, -3:]
    assert torch.equal(found[1:], alone[1:])
    assert torch.equal(whole[1:], whole_alone[1:])
    assert not torch.equal(found[0], alone[0])
    torch.testing.assert_close(found[0], whole[0], rtol=1e-3, atol=1e-4)


def test_training_is_gradient_descent_on_the_whole_memory_with_masked_inputs(
    cases: list[Case], timestep: Timestep
) -> None:
    """torch's SGD with weight decay and clipping, on whole forward passes; the second edit fades the first."""
    model, plain = small_model(), small_model()
    given = {"decay": 1e-2, "learning_rate": 0.5, "clip": 0.3}
    editor, layer = _editor(model, timestep, **given), plain.blocks[1].down.layer
    losses = editor.apply(cases[:2]).loss

    memory = torch.nn.Parameter(torch.zeros(editor.memory_beside.weight.shape))
    optimizer = torch.optim.SGD([memory], lr=0.5, weight_decay=1e-2)
    last = []
    for number, case in enumerate(cases[:2]):
        kept = torch.zeros(memory.shape[1])
        kept[sorted(_masks_by_hand(editor, plain, layer, case.question))] = 1
        handle = layer.register_forward_hook(lambda _, given, out, kept=kept: out + (given[0] * kept) @ memory.T)
        for _ in range(4):
            prompts = [case.question, *(f"{prefix} {case.question}" for prefix in editor.prefixes_of_prompts())]
            target = plain.encode_target(case.answer, after=case.question)
            loss = torch.zeros(())
            for prompt in prompts:
                row = torch.tensor([plain.encode(prompt) + target])
                logits = plain.module(row).logits[0, -len(target) - 1 : -1]
                loss = loss + torch.nn.functional.cross_entropy(logits, torch.tensor(target)) / len(prompts)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_([memory], 0.3)
            optimizer.step()
        last.append(loss.item())
        handle.remove()
        assert number or not memory.detach()[:, kept == 0].any()
    torch.testing.assert_close(editor.memory_beside.weight, memory.detach(), rtol=1e-3, atol=1e-5)
    assert losses == pytest.approx(sum(last) / 2, rel=1e-3)


def test_edits_are_learned_and_restored(cases: list[Case], timestep: Timestep) -> None:
    model = small_model()
    before = [mean_loss(model, [case]) for case in cases[:3]]
    editor = _editor(model, timestep, steps=40, learning_rate=4.0)
    reported = editor.apply(cases[:3]).loss
    after = [mean_loss(model, [case]) for case in cases[:3]]
    assert all(later < earlier for earlier, later in zip(before, after, strict=True))
    assert reported is not None
    assert reported < sum(before) / 3
    editor.restore()
    assert [mean_loss(model, [case]) for case in cases[:3]] == before


def test_a_prompt_uses_the_edit_whose_mask_shares_most_and_none_below_the_threshold() -> None:
    """Ten inputs, three in a mask; the permutation is the identity here, so masks are the largest inputs."""
    memory = MaskedMemory(small_model(), widths=(2, 10), active=3, threshold=0.6, seed=0, device=torch.device("cpu"))
    memory.permutation = torch.arange(10)
    memory.center = torch.zeros(10)
    for number, inputs in enumerate([(0, 1, 2), (2, 3, 4), (2, 3, 4)]):
        memory.add(_mask(*inputs), case_id=str(number), tokens=2)
    assert len(memory.masks) == 2, "equal masks are stored once"

    def routes(*prompts: tuple[int, ...]) -> list[int | None]:
        inputs = torch.stack([_mask(*prompt).float() * -3 for prompt in prompts])[:, None]
        return memory.choose(SeenTokens(inputs, inputs, torch.ones(len(prompts), 1, dtype=torch.bool)))

    assert routes((0, 1, 2), (0, 1, 9), (3, 4, 9), (2, 8, 9), (7, 8, 9)) == [0, 0, 1, None, None]


def test_a_prompt_may_end_at_any_token_if_its_end_is_unknown() -> None:
    memory = MaskedMemory(small_model(), widths=(2, 10), active=3, threshold=0.9, seed=0, device=torch.device("cpu"))
    memory.permutation = torch.arange(10)
    memory.center = torch.zeros(10)
    memory.add(_mask(0, 1, 2), case_id="a", tokens=2)
    prompt, other = _mask(0, 1, 2).float(), _mask(5, 6, 7).float() * 100
    rows = torch.stack(
        [
            torch.stack([prompt, prompt, other]),  # the edit's prompt and an answer
            torch.stack([prompt, other, other]),  # it resembles the edit only where it is shorter than its prompt
            torch.stack([other, prompt, prompt]),  # here the first token is padding
        ]
    )
    counted = torch.tensor([[True] * 3, [True] * 3, [False, True, True]])
    assert memory.choose_by_beginning(SeenTokens(rows, rows, counted)) == [0, None, 0]
    assert memory.choose(SeenTokens(rows, rows, counted)) == [None, None, 0]


def _mask(*inputs: int) -> torch.Tensor:
    found = torch.zeros(10, dtype=torch.bool)
    found[list(inputs)] = True
    return found
