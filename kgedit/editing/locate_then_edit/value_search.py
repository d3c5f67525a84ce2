"""Search for v*: the output of a layer at the subject's last token with which the model gives the new answer.

One vector per edit is added to the output of a layer at that token and trained by Adam; weights do not change. Edits
are searched for together, each with a separate parameter and stopping rule, and leave the batch when finished.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import nn

from kgedit.editing.editor import EditorState, RunContext
from kgedit.editing.locate_then_edit.subject_prompts import SubjectPrompt
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.surgery.forward_above import ForwardAbove, forward_above
from kgedit.llm.surgery.structure import by_row, hidden_of, hooks, with_hidden
from kgedit.llm.training import TargetBatch, loss_scaler, take_step

_IGNORED = -100  # label that torch's cross-entropy leaves out by default


@dataclass(frozen=True, slots=True)
class EditRequest:
    """Input of the search for one edit.

    Attributes:
        prompts: Prompts that the target should follow; the first is the bare one, whose layer output is v0.
        drift: A prompt about the subject after which the model's predictions should not change.
        target: Token ids.
        distances: Of an answer in chunks, the number of tokens from the subject back to the position of each earlier
            chunk's vector.
        vectors: These vectors, chunks x width, which are added while the edit is searched for.
    """

    prompts: tuple[SubjectPrompt, ...]
    drift: SubjectPrompt
    target: tuple[int, ...]
    distances: tuple[int, ...] = ()
    vectors: torch.Tensor | None = None


@dataclass(frozen=True, slots=True)
class ValueSearchSettings:
    """Settings of the search for v*.

    Attributes:
        steps: Maximum number of steps.
        learning_rate: Learning rate of Adam.
        weight_decay: Weight of |d| / |v0|^2, where d is the added vector.
        clamp: Maximum of |d|, in multiples of |v0|.
        drift_weight: Weight of KL(after | before) at the drift prompt.
        stop_loss: An edit is finished when its loss is at most this.
        stop: Loss for `stop_loss`: "loss" is the whole loss, as in ROME's and MEMIT's code; "target" only the target's
            part.
        patience: An edit is finished this number of steps after every token of its target is the most likely in all
            prompts except the bare one (ENCORE); None means no such stop.
    """

    steps: int
    learning_rate: float
    weight_decay: float
    clamp: float
    drift_weight: float
    stop_loss: float
    stop: Literal["loss", "target"] = "loss"
    patience: int | None = None


@dataclass(frozen=True, slots=True)
class FoundValues:
    """Result of the search, edits x width each.

    Attributes:
        before: v0, the layer's output for the bare prompts.
        added: d; v* is v0 + d.
        losses: Loss of each edit, before its last step.
    """

    before: torch.Tensor
    added: torch.Tensor
    losses: tuple[float, ...]

    @classmethod
    def joined(cls, parts: Sequence[FoundValues]) -> FoundValues:
        """Results of several searches, one after the other."""
        before, added = (torch.cat([getattr(part, name) for part in parts]) for name in ("before", "added"))
        return cls(before, added, tuple(loss for part in parts for loss in part.losses))

    def in_order(self, order: Sequence[int]) -> FoundValues:
        """Return the results of the edits with these indexes."""
        rows = list(order)
        return FoundValues(self.before[rows], self.added[rows], tuple(self.losses[row] for row in rows))


def search_values(
    model: LanguageModel, layer: int, module: Any, requests: Sequence[EditRequest], search: ValueSearchSettings
) -> FoundValues:
    """Search for v* of each edit.

    Args:
        layer: Index of the block that contains `module`.
        module: The block's down-projection or the block itself.
    """
    rows = _Rows.of(model, requests, drift=search.drift_weight > 0)
    vectors = _Vectors(requests, search, rows, scaler=loss_scaler(model))
    forwards = forward_above(model, layer, rows.targets, start=rows.start, picks=rows.picks)
    with forwards as forward, hooks(module.register_forward_hook(vectors.shift)), torch.enable_grad():
        for step in range(1, search.steps + 1):
            losses = vectors.losses(forward())
            if not vectors.note() or step == search.steps:
                break
            vectors.step(losses)
            vectors.drop_finished(forward)
    return vectors.found()


@dataclass(frozen=True, slots=True)
class _Given:
    """Vectors that do not change during a search.

    Attributes:
        rows: Row of each vector.
        columns: Its position, counted from the first that is computed.
        vectors: Vectors x width.
    """

    rows: torch.Tensor
    columns: torch.Tensor
    vectors: torch.Tensor

    def added_to(self, hidden: torch.Tensor) -> None:
        """Add the vectors in place, to rows x positions x width."""
        if len(self.rows):
            rows, columns = self.rows.to(hidden.device), self.columns.to(hidden.device)
            hidden[rows, columns] += self.vectors.to(hidden)

    def of_rows(self, kept: torch.Tensor) -> _Given:
        """Return the vectors of the rows `kept`, renumbered 0, 1, ..."""
        places = (self.rows[:, None] == kept[None, :]).nonzero(as_tuple=True)
        return _Given(places[1], self.columns[places[0]], self.vectors[places[0]]) if len(self.rows) else self


@dataclass(frozen=True, slots=True)
class _Rows:
    """All prompts of all edits in one batch; an edit's drift prompt, if its loss has a weight, is the last of its rows.

    Attributes:
        targets: The batch.
        columns: Position of each row's subject, counted from `start`.
        owners: Edit index of each row.
        bare: Whether a row is the first of its edit.
        drift: Whether a row is its edit's drift prompt.
        given: Vectors of earlier chunks.
        start: Number of positions to the left of the first vector, which do not change.
    """

    targets: TargetBatch
    columns: torch.Tensor
    owners: torch.Tensor
    bare: torch.Tensor
    drift: torch.Tensor
    given: _Given
    start: int

    @property
    def picks(self) -> torch.Tensor:
        """Mask of needed logits: at each target token, and at a drift prompt's last token; rows x longest target."""
        return _picks_of(self.targets.labels, self.drift)

    @classmethod
    def of(cls, model: LanguageModel, requests: Sequence[EditRequest], *, drift: bool) -> _Rows:
        every = [
            (edit, prompt, () if prompt is request.drift else request.target, index == 0)
            for edit, request in enumerate(requests)
            for index, prompt in enumerate((*request.prompts, *([request.drift] if drift else [])))
        ]
        # The last target token predicts nothing.
        ids, mask = model.pad_left([[*prompt.ids, *target[:-1]] for _, prompt, target, _ in every])
        longest = max(len(request.target) for request in requests)
        labels = [[_IGNORED] * (longest - len(target)) + list(target) for _, _, target, _ in every]
        width = ids.shape[1]
        columns = [width - len(prompt.ids) - len(target[:-1]) + prompt.subject for _, prompt, target, _ in every]
        given = [
            (row, columns[row] - distance, vector)
            for row, (edit, _, target, _) in enumerate(every)
            if target and (vectors := requests[edit].vectors) is not None
            for distance, vector in zip(requests[edit].distances, vectors, strict=True)
        ]
        first = min(*columns, *(column for _, column, _ in given), width - longest)
        start = max(0, first) if model.keeps_tokens else 0
        device = ids.device
        return cls(
            targets=TargetBatch(ids, mask, torch.tensor(labels, device=device), whole=False),
            columns=torch.tensor(columns, device=device) - start,
            owners=torch.tensor([edit for edit, *_ in every], device=device),
            bare=torch.tensor([bare for *_, bare in every], device=device),
            drift=torch.tensor([not target for _, _, target, _ in every], device=device),
            given=_Given(
                torch.tensor([row for row, _, _ in given], dtype=torch.long, device=device),
                torch.tensor([column for _, column, _ in given], dtype=torch.long, device=device) - start,
                torch.stack([vector for _, _, vector in given]) if given else torch.empty(0, device=device),
            ),
            start=start,
        )


@dataclass(frozen=True, slots=True)
class _Asked:
    """Indexes of a batch's needed logits, computed once: selecting by a mask makes the host wait for the device.

    Attributes:
        places: Picks that predict a target token.
        tokens: The target token of each.
        lengths: Number of tokens of its target.
        owners: Edit index of each.
        counts: Number of rows with a target of each edit.
        counted: Whether the most likely token counts for `patience` there.
        drifting: Picks of drift prompts.
        drift_owners: Edit index of each drift pick.
        alive: Whether each edit is unfinished.
        edits: Number of unfinished edits.
    """

    places: torch.Tensor
    tokens: torch.Tensor
    lengths: torch.Tensor
    owners: torch.Tensor
    counts: torch.Tensor
    counted: torch.Tensor
    drifting: torch.Tensor
    drift_owners: torch.Tensor
    alive: torch.Tensor
    edits: int


class _Vectors:
    """Vectors of a search, their optimizer, and the rows still in the batch."""

    def __init__(
        self,
        requests: Sequence[EditRequest],
        search: ValueSearchSettings,
        rows: _Rows,
        *,
        scaler: torch.amp.GradScaler,
    ) -> None:
        self._search, self._count, self._scaler = search, len(requests), scaler
        self._labels, self._columns, self._owners = rows.targets.labels, rows.columns, rows.owners
        self._bare, self._drift, self._given = rows.bare, rows.drift, rows.given
        self._asked: _Asked | None = None
        self._alive = torch.ones(self._count, dtype=torch.bool)
        self._since_likeliest = torch.zeros(self._count, dtype=torch.long)
        self._last = [0.0] * self._count
        self._added: list[nn.Parameter] = []
        self._optimizer: torch.optim.Optimizer | None = None
        self._before = torch.empty(0)
        self._said_before: torch.Tensor | None = None

    def shift(self, _: Any, __: Any, output: Any) -> Any:
        """Forward hook that adds each edit's vector at the subject."""
        whole = hidden_of(output)
        hidden = by_row(whole, len(self._columns))
        positions = torch.arange(len(hidden), device=hidden.device), self._columns.to(hidden.device)
        if not self._added:
            before = hidden[positions].detach()[self._bare.to(hidden.device)]
            self._before = before.to(torch.promote_types(hidden.dtype, torch.float32))
            # One parameter per edit: Adam skips parameters without a gradient, so finished edits do not move.
            self._added = [nn.Parameter(torch.zeros_like(row)) for row in self._before]
            self._optimizer = torch.optim.Adam(self._added, lr=self._search.learning_rate)
        added = torch.stack(list(self._added))[self._owners.to(hidden.device)]
        shifted = hidden.clone()
        self._given.added_to(shifted)
        shifted[positions] = hidden[positions] + added.to(hidden.dtype)
        return with_hidden(output, shifted.reshape(whole.shape))

    def losses(self, logits: torch.Tensor) -> torch.Tensor:
        """Loss of each edit; 0 for finished ones.

        Args:
            logits: Logits at the rows' picks, picks x vocabulary.
        """
        search = self._search
        if self._asked is None:
            self._asked = self._find_asked(logits.device)
        asked = self._asked
        says = logits.float().log_softmax(-1)
        each = -says[asked.places, asked.tokens] / asked.lengths
        losses = torch.zeros(self._count, device=logits.device).index_add(0, asked.owners, each) / asked.counts
        said = says[asked.drifting]
        if self._said_before is None:
            self._said_before = said.detach()
        drift = (said.exp() * (said - self._said_before)).sum(-1)
        target = losses.detach()
        losses = losses.index_add(0, asked.drift_owners, search.drift_weight * drift)
        norm = self._before.norm(dim=1).clamp(min=1e-12)
        # The norm has no gradient at 0, where every search starts.
        size = (torch.stack(list(self._added)).square().sum(1) + 1e-24).sqrt()
        # A length over a squared length, as published (ROME): the loss depends on the scale of the model's vectors.
        decay = search.weight_decay * size / norm.square()
        # The rows of an edit that has just finished are still in the batch; 0 has no gradient.
        losses = torch.where(asked.alive, losses + decay.to(logits.device), 0)
        self._noted = torch.stack([losses.detach(), target, self._misses(logits, asked)])
        return losses

    def _find_asked(self, device: torch.device) -> _Asked:
        """Indexes for `losses`, valid while the rows of the batch do not change."""
        labels, drift, owners = (tensor.to(device) for tensor in (self._labels, self._drift, self._owners))
        picked, columns = _picks_of(labels, drift).nonzero(as_tuple=True)
        drifting = drift[picked]
        rows = picked[~drifting]
        others = torch.bincount(owners[~drift & ~self._bare.to(device)], minlength=self._count)
        counted = ~drift & (~self._bare.to(device) | (others == 0)[owners])
        return _Asked(
            places=(~drifting).nonzero().squeeze(1),
            tokens=labels[picked, columns][~drifting],
            lengths=(labels[rows] != _IGNORED).sum(1),
            owners=owners[rows],
            counts=torch.bincount(owners[~drift], minlength=self._count).clamp(min=1),
            counted=counted[rows],
            drifting=drifting.nonzero().squeeze(1),
            drift_owners=owners[drift],
            alive=self._alive.to(device),
            edits=int(self._alive.sum()),
        )

    def _misses(self, logits: torch.Tensor, asked: _Asked) -> torch.Tensor:
        """Number of target tokens of each edit that are not the most likely; 0 if the search does not stop by it."""
        misses = torch.zeros(self._count, device=logits.device)
        if self._search.patience is None:
            return misses
        wrong = logits.argmax(-1)[asked.places] != asked.tokens
        return misses.index_add_(0, asked.owners, (wrong & asked.counted).float())

    def note(self) -> bool:
        """Record losses and finished edits; False when all are finished. The only wait for the device in a step."""
        losses, targets, misses = self._noted.cpu()
        self._last = [
            loss if alive else last
            for loss, alive, last in zip(losses.tolist(), self._alive.tolist(), self._last, strict=True)
        ]
        if self._search.patience is not None:
            reached = (misses == 0) | (self._since_likeliest > 0)
            self._since_likeliest += (reached & self._alive).long()
        judged = targets if self._search.stop == "target" else losses
        self._alive = self._alive & (judged > self._search.stop_loss)
        if self._search.patience is not None:
            self._alive &= self._since_likeliest <= self._search.patience
        return bool(self._alive.any())

    def step(self, losses: torch.Tensor) -> None:
        """Take one step of Adam for unfinished edits, and project their vectors back into the allowed ball."""
        assert self._optimizer is not None
        self._optimizer.zero_grad()
        self._scaler.scale(losses.sum()).backward()  # type: ignore[no-untyped-call]
        for vector, alive in zip(self._added, self._alive.tolist(), strict=True):
            if not alive:
                vector.grad = None  # Adam does not change such parameters
        take_step(self._optimizer, self._scaler)
        with torch.no_grad():
            for vector, before in zip(self._added, self._before, strict=True):
                vector.mul_((self._search.clamp * before.norm() / vector.norm().clamp(min=1e-12)).clamp(max=1))

    def drop_finished(self, forward: ForwardAbove) -> None:
        """Remove the rows of finished edits from the batch."""
        if self._asked is None or self._alive.sum() == self._asked.edits:
            return
        kept = self._alive.to(self._owners.device)[self._owners].nonzero().squeeze(1)
        assert self._said_before is not None
        self._said_before = self._said_before[self._alive.to(self._said_before.device)[self._owners[self._drift]]]
        self._labels, self._columns = self._labels[kept], self._columns[kept]
        self._owners, self._drift, self._bare = self._owners[kept], self._drift[kept], self._bare[kept]
        self._given = self._given.of_rows(kept)
        self._asked = None
        forward.select_rows(kept)

    def found(self) -> FoundValues:
        """Return the current vectors."""
        return FoundValues(self._before, torch.stack([vector.detach() for vector in self._added]), tuple(self._last))


def _picks_of(labels: torch.Tensor, drift: torch.Tensor) -> torch.Tensor:
    picks = labels != _IGNORED
    picks[drift, -1] = True
    return picks


def search_stage(
    search: Callable[[RunContext], FoundValues],
    earlier: Sequence[FoundValues],
    *,
    stages: int,
    run: RunContext,
    device: torch.device,
    prefix: str = "",
) -> FoundValues:
    """Search one stage, or load its values from a checkpoint written in a later one.

    Args:
        search: Search of the stage, itself resumable.
        earlier: Results of earlier stages; included in checkpoints so that they need not be searched again.
        stages: Number of stages.
        device: Device of the values.
        prefix: Of the names in checkpoints; stages within stages need different ones.
    """
    name = f"{prefix}earlier"
    stage, done = len(earlier), len(run.resume.record.get(name, ())) if run.resume else 0
    if run.resume is not None and stage < done:
        before, added = (run.resume.tensors[f"{prefix}{stage}.{part}"].to(device) for part in ("before", "added"))
        return FoundValues(before, added, tuple(run.resume.record[name][stage]))

    def with_earlier(state: EditorState) -> EditorState:
        tensors = dict(state.tensors)
        for index, found in enumerate(earlier):
            tensors |= {
                f"{prefix}{index}.before": found.before.clone(),
                f"{prefix}{index}.added": found.added.clone(),
            }
        return EditorState(tensors, {**state.record, name: [list(found.losses) for found in earlier]})

    return search(
        replace(
            run,
            progress=lambda share: run.progress((stage + share) / stages),
            checkpoint=lambda state: run.checkpoint(lambda: with_earlier(state())),
            resume=run.resume if stage == done else None,
        )
    )
