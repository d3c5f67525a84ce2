"""Random prefixes: texts sampled from the model. An edit learned after several of them generalises better."""

from __future__ import annotations

import torch

from kgedit.llm.language_model import LanguageModel


def sample_random_prefixes(model: LanguageModel, count: int, *, tokens: int, seed: int) -> list[list[int]]:
    """Token ids of `count` prefixes, sampled from the unedited model's own distribution.

    Args:
        tokens: Length of each.
        seed: Numbers are drawn on the CPU, so that a device does not change them.
    """
    if count == 0:
        return []
    start = model.tokenizer.bos_token_id
    first = start if start is not None else next(iter(sorted(model.end_ids)), 0)
    draw = torch.Generator().manual_seed(seed)
    rows = torch.full((count, 1), first, device=model.device)
    barred = torch.tensor(sorted(model.end_ids | {first}), device="cpu")
    with torch.no_grad():
        for _ in range(tokens):
            logits = model.forward(rows, torch.ones_like(rows), last=1).logits[:, -1].float().cpu()
            logits[:, barred] = -torch.inf
            chosen = torch.multinomial(logits.softmax(-1), 1, generator=draw)
            rows = torch.cat([rows, chosen.to(rows.device)], dim=1)
    found: list[list[int]] = rows[:, 1:].tolist()
    return found
