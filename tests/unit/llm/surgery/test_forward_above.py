"""The upper blocks run alone: the numbers of the whole model."""

from __future__ import annotations

import pytest
import torch
from world.small_models import ARCHITECTURES, small_model

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
