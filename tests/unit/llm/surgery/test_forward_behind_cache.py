"""The upper blocks behind a key-value cache."""

from __future__ import annotations

import pytest
import torch
from world.small_models import ALL_ARCHITECTURES, KEEP_TOKENS, double_model, exactness, small_model

from kgedit.llm.surgery.forward_above import forward_above
from kgedit.llm.training import encode_targets
from kgedit.records.cases import Case

pytestmark = pytest.mark.usefixtures("own_home")


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
