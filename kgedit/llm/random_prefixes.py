"""Random prefixes: texts sampled from the model. Edits trained with several of them generalise better."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from kgedit.llm.language_model import LanguageModel


def sample_random_prefixes(
    model: LanguageModel, count: int, *, tokens: int, seed: int, likeliest: int | None = None
) -> list[list[int]]:
    """Sample `count` prefixes from the unedited model's distribution, as token ids.

    Args:
        tokens: Length of each prefix.
        seed: Seed; random numbers are drawn on the CPU, so that they do not depend on the device.
        likeliest: Each token is one of the `likeliest` most probable ones (top-k); None means any token.
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
            if likeliest is not None:
                logits[logits < logits.topk(min(likeliest, logits.shape[1])).values[:, -1:]] = -torch.inf
            chosen = torch.multinomial(logits.softmax(-1), 1, generator=draw)
            rows = torch.cat([rows, chosen.to(rows.device)], dim=1)
    found: list[list[int]] = rows[:, 1:].tolist()
    return found


def continue_words(model: LanguageModel, words: Sequence[str], *, tokens: int) -> list[str]:
    """Continue each text by greedy decoding; returns texts without the end-of-text token, which is never chosen.

    Args:
        tokens: Length of each continuation.
    """
    rows, mask = model.pad_left([model.encode(word) for word in words])
    barred = torch.tensor(sorted(model.end_ids), dtype=torch.long)
    with torch.no_grad():
        for _ in range(tokens):
            logits = model.forward(rows, mask, last=1).logits[:, -1].float().cpu()
            logits[:, barred] = -torch.inf
            rows = torch.cat([rows, logits.argmax(-1, keepdim=True).to(rows.device)], dim=1)
            mask = torch.cat([mask, torch.ones_like(mask[:, :1])], dim=1)
    return [model.decode(row[real].tolist()) for row, real in zip(rows, mask.bool(), strict=True)]
