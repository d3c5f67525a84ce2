"""Random prefixes: from all tokens, or from the likeliest."""

from __future__ import annotations

import torch
from world.small_models import small_model

from kgedit.llm.decoding import sample_random_prefixes
from kgedit.llm.language_model import LanguageModel


def _ranks(model: LanguageModel, prefix: list[int], first: int) -> list[int]:
    """How many tokens, of those that may be drawn, are likelier than each token of a prefix."""
    with torch.no_grad():
        logits = model.module(torch.tensor([[first, *prefix[:-1]]])).logits[0].float()
    logits[:, sorted(model.end_ids | {first})] = -torch.inf
    return [int((own > own[token]).sum()) for own, token in zip(logits, prefix, strict=True)]


def test_random_prefixes_are_drawn_from_so_many_of_the_likeliest_tokens() -> None:
    model = small_model()
    first = model.tokenizer.bos_token_id
    first = first if first is not None else min(model.end_ids)
    ranks = {
        likeliest: [
            rank
            for prefix in sample_random_prefixes(model, 8, tokens=4, seed=0, likeliest=likeliest)
            for rank in _ranks(model, prefix, first)
        ]
        for likeliest in (1, 3, None)
    }
    assert set(ranks[1]) == {0}
    assert set(ranks[3]) == {0, 1, 2}
    assert max(ranks[None]) > 3
