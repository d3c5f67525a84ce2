"""The upper blocks run alone, with and without a key-value cache: the numbers of the whole model."""

from __future__ import annotations

import pytest
import torch
from world.small_models import ALL_ARCHITECTURES, ARCHITECTURES, KEEP_TOKENS, double_model, exactness, small_model

from kgedit.llm.surgery.forward_above import forward_above
from kgedit.llm.training import encode_targets, target_loss
from kgedit.records.cases import Case


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("layer", [0, 1, 2])
def test_forwards_of_the_upper_blocks_gives_the_logits_and_gradients_of_the_whole_model(
    architecture: str, layer: int, cases: list[Case]
) -> None:
    model = small_model(architecture)
    targets = encode_targets(model, [(case.question, case.answer) for case in cases[:3]], learn_end=True)
    weight = model.blocks[layer].down_projection.weight.requires_grad_(True)
    whole = model.forward(targets.ids, targets.mask, last=targets.last).logits
    expected = torch.autograd.grad(target_loss(whole, targets), weight)[0]

    with forward_above(model, layer, targets) as logits:
        upper = logits()
        found = torch.autograd.grad(target_loss(upper, targets), weight)[0]

    assert torch.equal(upper, whole)
    assert torch.equal(found, expected)
    assert torch.equal(model.forward(targets.ids, targets.mask, last=targets.last).logits, whole)


@pytest.mark.parametrize("architecture", KEEP_TOKENS)
def test_forwards_behind_a_cache_gives_the_logits_of_the_whole_model(architecture: str, cases: list[Case]) -> None:
    model = double_model(architecture)
    targets = encode_targets(model, [(case.question, case.answer) for case in cases[:4]], learn_end=False)
    whole = model.forward(targets.ids, targets.mask, last=targets.last).logits
    start = targets.ids.shape[1] - targets.last - 2

    real = targets.mask[:, -targets.last :].bool()  # what stands at padding means nothing
    with forward_above(model, 1, targets, start=start) as logits:
        assert torch.allclose(logits()[real], whole[real], atol=exactness(model))
        assert torch.allclose(logits()[real], whole[real], atol=exactness(model))
        kept = torch.tensor([2, 0])
        logits.select_rows(kept)
        assert torch.allclose(logits()[real[kept]], whole[kept][real[kept]], atol=exactness(model))


def test_only_keys_and_values_of_tokens_can_be_gone_on_from_several_times() -> None:
    assert [name for name in ALL_ARCHITECTURES if small_model(name).keeps_tokens] == KEEP_TOKENS
