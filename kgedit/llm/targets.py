"""Cross-entropy on targets with masked prompts: the loss of all fine-tuning editors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch.nn.functional import cross_entropy

from kgedit.llm.language_model import LanguageModel


@dataclass(frozen=True, slots=True)
class TargetBatch:
    """A left-padded batch of prompts with their targets.

    Attributes:
        ids: Token ids, rows x length.
        mask: Attention mask, rows x length.
        labels: Target ids at the last positions, rows x longest target; -100 before the start of a row's target.
        whole: Whether `ids` includes the last target tokens, after which nothing is predicted.
    """

    ids: torch.Tensor
    mask: torch.Tensor
    labels: torch.Tensor
    whole: bool = True

    @property
    def ends(self) -> torch.Tensor:
        """Column of the last prompt token of each row, which precedes the target."""
        return self.ids.shape[1] - self.whole - (self.labels != -100).sum(1)

    @property
    def predicting(self) -> torch.Tensor:
        """Mask of positions that predict a target token, including the last prompt token: rows x length."""
        columns = torch.arange(self.ids.shape[1], device=self.ids.device)
        return (columns >= self.ends[:, None]) & (columns < self.ids.shape[1] - self.whole)

    @property
    def last(self) -> int:
        """Number of last positions whose logits the loss needs: one before each target token."""
        return self.labels.shape[1] + self.whole

    def without_last(self) -> TargetBatch:
        """Drop the last target tokens, which cost as much as any other and do not change the loss."""
        return TargetBatch(self.ids[:, :-1], self.mask[:, :-1], self.labels, whole=False) if self.whole else self

    def rows(self, start: int, stop: int) -> TargetBatch:
        """Select a range of rows (half-open), with unchanged padding."""
        return replace(self, ids=self.ids[start:stop], mask=self.mask[start:stop], labels=self.labels[start:stop])


def encode_targets(model: LanguageModel, pairs: Sequence[tuple[str, str]], *, learn_end: bool) -> TargetBatch:
    """Encode (prompt, answer) pairs.

    Args:
        learn_end: Whether the target includes the end of text (in a chat, the end of the turn), so that the model
            learns to stop.
    """
    prompts = [model.encode(prompt) for prompt, _ in pairs]
    targets = [
        model.encode_target(answer, after=prompt) + (model.end_of_answer(prompt) if learn_end else [])
        for prompt, answer in pairs
    ]
    ids, mask = model.pad_left([prompt + target for prompt, target in zip(prompts, targets, strict=True)])
    longest = max(map(len, targets))
    labels = [[-100] * (longest - len(target)) + target for target in targets]
    return TargetBatch(ids, mask, torch.tensor(labels, device=ids.device))


def target_loss(logits: torch.Tensor, targets: TargetBatch) -> torch.Tensor:
    """Mean over rows of the mean negative log-likelihood of the row's target tokens.

    Args:
        logits: rows x ``targets.last`` x vocabulary.
    """
    return target_losses(logits, targets).mean()


def target_losses(logits: torch.Tensor, targets: TargetBatch) -> torch.Tensor:
    """Mean negative log-likelihood of each row's target tokens.

    Args:
        logits: rows x ``targets.last`` x vocabulary.
    """
    return row_losses(logits, targets.labels)


def row_losses(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Mean negative log-likelihood of each row's target tokens; 0 for a row without a target.

    Args:
        logits: rows x longest target x vocabulary; positions beyond the longest target are ignored.
        labels: As in TargetBatch.
    """
    asked = logits[:, : labels.shape[1]]
    # One row at a time: along another dimension the softmax takes several times as long.
    flat = cross_entropy(asked.flatten(0, 1).float(), labels.flatten(), ignore_index=-100, reduction="none")
    return flat.reshape(labels.shape).sum(1) / (labels != -100).sum(1).clamp(min=1)


def prompt_last_loss(logits: torch.Tensor, targets: TargetBatch) -> torch.Tensor:
    """Mean over rows of the targets' mean negative log-likelihood, with all tokens predicted at the last prompt token.

    FT and FT-L train this bag of tokens: the order of the answer's tokens is not learned.

    Args:
        logits: rows x ``targets.last`` x vocabulary.
    """
    asked = targets.labels != -100
    positions = targets.labels.shape[1] - asked.sum(1)
    at_end = logits[torch.arange(len(logits), device=logits.device), positions].float().log_softmax(-1)
    losses = -at_end.gather(1, targets.labels.clamp(min=0)) * asked
    return (losses.sum(1) / asked.sum(1)).mean()
