"""Teacher forcing: a model's prediction at each token of an answer while the answer itself is the input.

One forward pass gives both the most likely tokens and the probability of the answer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from kgedit.llm.language_model import LanguageModel
from kgedit.llm.shared_reading import read_beginning, read_rows
from kgedit.llm.targets import row_losses

_ROWS_AT_ONCE = 16
"""About 3 MB with a vocabulary of 50,000."""


@dataclass(frozen=True, slots=True)
class Fed:
    """The result of teacher forcing on one target.

    Attributes:
        best: The arg max at each token of the target.
        probability: exp of the mean log-probability of the target's tokens (WikiFactDiff, section 5).
    """

    best: list[int]
    probability: float


def feed(
    model: LanguageModel, prompts: Sequence[list[int]], targets: Sequence[list[int]], *, most_tokens: int = 4096
) -> list[Fed]:
    """Feed each target after its prompt.

    Args:
        most_tokens: Maximum number of tokens per batch, including padding, if there is more than one row.
    """
    longest = max(len(prompt) + len(target) for prompt, target in zip(prompts, targets, strict=True))
    if model.shares_beginnings(longest):
        return _feed_trees(model, prompts, targets, most_tokens=most_tokens)
    at_once = max(1, most_tokens // longest)
    return [
        fed
        for start in range(0, len(prompts), at_once)
        for fed in _feed_rows(model, prompts[start : start + at_once], targets[start : start + at_once])
    ]


def _feed_rows(model: LanguageModel, prompts: Sequence[list[int]], targets: Sequence[list[int]]) -> list[Fed]:
    ids, mask = model.pad_left([prompt + target for prompt, target in zip(prompts, targets, strict=True)])
    width = max(map(len, targets))
    ends = ids.shape[1] - 1 - torch.tensor([len(target) for target in targets], device=ids.device)
    logits = model.forward(ids, mask, last=width + 1, ends=ends).logits
    labels = torch.tensor([[-100] * (width - len(target)) + target for target in targets], device=ids.device)
    best = logits[:, :-1].argmax(-1).tolist()
    probabilities = row_losses(logits, labels).neg().exp().tolist()
    return [
        Fed(row[width - len(target) :], probability)
        for row, target, probability in zip(best, targets, probabilities, strict=True)
    ]


def _log_sums(logits: torch.Tensor) -> torch.Tensor:
    """Log-sum-exp of each row, in blocks that fit into the processor's cache, which takes a third of the time."""
    return torch.cat([block.logsumexp(-1) for block in torch.split(logits, _ROWS_AT_ONCE)])


def _feed_trees(
    model: LanguageModel, prompts: Sequence[list[int]], targets: Sequence[list[int]], *, most_tokens: int
) -> list[Fed]:
    """Feed targets in trees. The last target token is not fed to the model, because its prediction is not needed."""
    rows = [prompt + target[:-1] for prompt, target in zip(prompts, targets, strict=True)]
    wanted = [range(len(prompt) - 1, len(row)) for prompt, row in zip(prompts, rows, strict=True)]
    beginning = read_beginning(model, rows, most=min(map(len, prompts)) - 1)
    fed: list[Fed | None] = [None] * len(rows)
    for read in read_rows(model, rows, wanted, beginning=beginning, most_tokens=most_tokens):
        best = read.logits.argmax(-1).tolist()
        flat = [
            (at, token)
            for row, own in zip(read.rows, read.found, strict=True)
            for at, token in zip(own, targets[row], strict=True)
        ]
        nodes, tokens = (torch.tensor(part, device=read.logits.device) for part in zip(*flat, strict=True))
        logits = read.logits.float()
        said = iter((logits[nodes, tokens] - _log_sums(logits)[nodes]).tolist())
        for row, own in zip(read.rows, read.found, strict=True):
            likelihoods = [next(said) for _ in own]
            fed[row] = Fed([best[at] for at in own], math.exp(math.fsum(likelihoods) / len(own)))
    return [one for one in fed if one is not None]
