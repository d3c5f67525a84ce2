"""Training on targets: cross-entropy with masked prompts, and steps on small devices or in float16.

A step that does not fit into memory is split, and the gradients of its parts are accumulated. In float16 losses are
scaled, because gradients would otherwise underflow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_

from kgedit.llm.language_model import LanguageModel


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Context in which torch is seeded; the caller's random state is restored afterwards."""
    # A model may be distributed over all GPUs.
    devices = list(range(torch.cuda.device_count())) if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        yield


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
    return pad_targets(model, [encode_pair(model, pair, learn_end=learn_end) for pair in pairs])


def encode_pair(model: LanguageModel, pair: tuple[str, str], *, learn_end: bool) -> tuple[list[int], list[int]]:
    """Token ids of a prompt and of its target. See `encode_targets`."""
    prompt, answer = pair
    end = model.end_of_answer(prompt) if learn_end else []
    return model.encode(prompt), model.encode_target(answer, after=prompt) + end


def pad_targets(model: LanguageModel, encoded: Sequence[tuple[list[int], list[int]]]) -> TargetBatch:
    """Combine results of `encode_pair` into a batch."""
    ids, mask = model.pad_left([prompt + target for prompt, target in encoded])
    targets = [target for _, target in encoded]
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


Row = TypeVar("Row")


_FIRST_SCALE = 2.0**12
"""Higher scales overflow in the first steps, and each such step is skipped."""


def loss_scaler(model: LanguageModel) -> torch.amp.GradScaler:
    """Return a loss scaler for models in float16; it does nothing for other formats."""
    return torch.amp.GradScaler(model.device.type, init_scale=_FIRST_SCALE, enabled=model.module.dtype == torch.float16)


def backward(
    model: LanguageModel,
    rows: Sequence[Row],
    loss_of: Callable[[Sequence[Row]], torch.Tensor],
    *,
    optimizer: torch.optim.Optimizer,
    scaler: torch.amp.GradScaler,
    stop_loss: float | None = None,
) -> float:
    """Compute the gradients of a loss that is a mean over rows.

    Args:
        rows: Rows of the training step.
        loss_of: Function that returns the mean loss of some of the rows.
        optimizer: Optimizer of the parameters, whose previous gradients are cleared.
        stop_loss: If the loss of all rows is at most this, no step is needed, and gradients may be missing.

    Returns:
        The loss of all rows.

    Raises:
        torch.OutOfMemoryError: if a single row does not fit into the device's memory.
    """

    def work(at_once: int) -> float:
        optimizer.zero_grad()
        total = 0.0
        for start in range(0, len(rows), at_once):
            part = rows[start : start + at_once]
            loss = loss_of(part) * (len(part) / len(rows))
            total += loss.item()
            if len(part) == len(rows) and stop_loss is not None and total <= stop_loss:
                break
            scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        return total

    return model.trained_at_once.run(len(rows), work)


def take_step(optimizer: torch.optim.Optimizer, scaler: torch.amp.GradScaler, *, max_norm: float | None = None) -> None:
    """Take one step with the gradients of `backward`; on overflow, skip it and lower the scale.

    Args:
        max_norm: Maximum norm of all gradients together; longer ones are scaled down. None for no maximum.
    """
    if max_norm is not None:
        scaler.unscale_(optimizer)
        clip_grad_norm_((own for group in optimizer.param_groups for own in group["params"]), max_norm)
    scaler.step(optimizer)
    scaler.update()


def gradients(model: LanguageModel, loss: torch.Tensor, of: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
    """Gradients of a loss with respect to tensors; for a model in float16 with loss scaling, returned in float32."""
    if model.module.dtype != torch.float16:
        return torch.autograd.grad(loss, of)
    scale = _FIRST_SCALE
    while True:
        found = torch.autograd.grad(loss * scale, of, retain_graph=True)
        if scale <= 1 or all(bool(gradient.isfinite().all()) for gradient in found):
            return [gradient.float() / scale for gradient in found]
        scale /= 4
