"""`wise`: edits go into side copies of one MLP matrix, and each prompt is routed to a copy or to the matrix (WISE).

Edits fill one copy after another, each in its own random share of the entries; every `merge_every` edits TIES merges
the copies.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from peft.utils.merge_utils import ties

from kgedit.editing.editor import NO_RUN, Advance, AppliedEdits, Capabilities, Editor, EditorState, RunContext
from kgedit.editing.randomness import seed_for
from kgedit.editing.side_memory.side_copies import (
    Router,
    SideCopy,
    activation,
    margins,
    product,
    random_mask,
    sample_of,
)
from kgedit.editing.training_examples import examples
from kgedit.hparams.side_memory import WiseSettings
from kgedit.llm.callers import InstalledHook
from kgedit.llm.contexts import Context
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.random_prefixes import sample_random_prefixes
from kgedit.llm.surgery.forward_above import forward_above, projection_inputs
from kgedit.llm.surgery.layers import check_layer
from kgedit.llm.targets import TargetBatch, encode_targets, target_loss
from kgedit.records.cases import Case, KnownFact

_AT_ONCE = 32
_PREFIXES = 32
_PREFIX_TOKENS = 12
_TINY = 1e-12
_PACE = 200.0

_Read = tuple[torch.Tensor, torch.Tensor]
"""rows x length x inputs, and rows x length: true where a token counts."""


class _Scale(NamedTuple):
    """What scales the published hyperparameters to a model.

    Attributes:
        unit: Unit of alpha, beta and gamma.
        learning_rate: Learning rate of gradient descent.
        margin_weight: Weight of the margin loss; that of the target's loss is 1.
    """

    unit: float
    learning_rate: float
    margin_weight: float


class Wise(Editor[WiseSettings]):
    """Trains side copies with a margin between edits and unrelated prompts; the model's own matrix does not change.

    The activation of a prompt is the mean length of (copy - matrix) times what the matrix reads (equation 2 of the
    paper). Unrelated prompts are known facts that no probe of an edit asks for, or texts that the model writes
    itself; never the edits' locality probes, which the evaluation uses.
    """

    capabilities = Capabilities(
        protocols=("sequential", "single", "per_timestep"),
        changes_forward=True,
        reads_weights=True,
        needs_known_facts=True,
        source="WISE, arXiv 2405.14768",
    )
    settings_type = WiseSettings

    def __init__(self, model: LanguageModel, settings: WiseSettings, *, contexts: Sequence[Context], seed: int) -> None:
        super().__init__(model, settings, contexts=contexts, seed=seed)
        self.layer = check_layer(model, settings.layer)
        self._projection = model.blocks[self.layer].down_projection
        self.router = Router(model, self._projection)
        self._known: list[KnownFact] = []
        self._random_prefixes: list[str] = []
        self._hook: InstalledHook | None = None
        self._begin()

    def _begin(self) -> None:
        """Reset to the state before any edit."""
        self.router.copies = []
        self._scale: _Scale | None = None
        self._in_copy = 0  # edits in the newest copy; 0 when the next edit opens one
        self._since_merge = 0
        self._opened = 0

    def prepare(self, known: Sequence[KnownFact], *, advance: Advance) -> None:  # noqa: ARG002 - the contract's shape
        """Keep the facts from which unrelated prompts are drawn."""
        self._known = list(dict.fromkeys(known))

    def apply(self, cases: Sequence[Case], run: RunContext = NO_RUN) -> AppliedEdits:
        """Train batch after batch; the loss is the mean over batches."""
        self._listen(False)
        losses, done, free = [], 0, self._unrelated(cases)
        while done < len(cases):
            room = min(self.settings.batch, self.settings.shard - self._in_copy)
            batch = cases[done : done + room]
            losses.append(self._learn(batch, self._draw(batch, free)))
            done += len(batch)
            self._count(len(batch))
            run.progress(done / len(cases))
        self._listen(True)
        return AppliedEdits(loss=sum(losses) / len(losses))

    def restore(self) -> None:
        """Remove the side copies."""
        self._listen(False)
        self._begin()

    def state(self) -> EditorState:
        """Side copies and counts."""
        copies = self.router.copies
        tensors = {f"{number}": copy.change.clone() for number, copy in enumerate(copies)}
        record = {
            "thresholds": [copy.threshold for copy in copies],
            "prompts": [list(copy.prompts) for copy in copies],
            "shortest": [copy.shortest for copy in copies],
            "counts": [self._in_copy, self._since_merge, self._opened],
            "scale": None if self._scale is None else list(self._scale),
        }
        return EditorState(tensors, record)

    def load_state(self, state: EditorState) -> None:
        """Load side copies and counts."""
        record, device = state.record, self._projection.weight.device
        shortest = record.get("shortest") or [self._shortest(prompts) for prompts in record["prompts"]]
        kept = zip(record["thresholds"], record["prompts"], shortest, strict=True)
        self.router.copies = [
            SideCopy(state.tensors[f"{number}"].to(device), threshold, tuple(prompts), least)
            for number, (threshold, prompts, least) in enumerate(kept)
        ]
        self._in_copy, self._since_merge, self._opened = record["counts"]
        self._scale = _Scale(*record["scale"]) if record["scale"] else None
        self._listen(True)

    def _learn(self, cases: Sequence[Case], unrelated: Sequence[str]) -> float:
        """Gradient descent on the newest copy; returns the last loss of the targets."""
        settings, (copy, mask) = self.settings, self._newest()
        pairs = examples(cases, self.contexts)
        near = self._read([prompt for prompt, _ in pairs])
        far = self._read([context.prompt(question) for question in unrelated for context in self.contexts])
        scale = self._scale = self._scale or self._measure(far)
        targets = encode_targets(self.model, pairs, learn_end=settings.learn_end)
        copy.change, loss = self._descend(copy.change, mask, targets, near=near, far=far, scale=scale)
        copy.add([prompt for prompt, _ in pairs], shortest=int(near[1].sum(1).min()), most=settings.remeasured)
        copy.threshold = min(copy.threshold, self._threshold(copy.change, near))
        return loss

    def _descend(
        self, start: torch.Tensor, mask: torch.Tensor, targets: TargetBatch, *, near: _Read, far: _Read, scale: _Scale
    ) -> tuple[torch.Tensor, float]:
        settings = self.settings
        least = [scale.unit * margin for margin in (settings.alpha, settings.beta, settings.gamma)]
        change = start.clone().requires_grad_(True)

        def aside(_: Any, given: tuple[torch.Tensor, ...], output: torch.Tensor) -> torch.Tensor:
            added = product(self._projection, given[0].float(), change)
            return (output.float() + added).to(output.dtype)

        with forward_above(self.model, self.layer, targets) as logits, torch.enable_grad():
            handle = self._projection.register_forward_hook(aside)
            try:
                for _ in range(settings.steps):
                    loss = target_loss(logits(), targets)
                    apart = margins(self._activation(change, near), self._activation(change, far), least=least)
                    if loss.item() <= settings.stop_loss and apart.item() == 0.0:
                        break
                    (gradient,) = torch.autograd.grad(loss + scale.margin_weight * apart.to(loss.device), change)
                    with torch.no_grad():
                        change -= scale.learning_rate * mask * gradient
            finally:
                handle.remove()
        return change.detach(), loss.item()

    def _newest(self) -> tuple[SideCopy, torch.Tensor]:
        """The copy that takes the next edit, and the mask of the entries it may change."""
        if self._in_copy == 0:
            zeros = torch.zeros_like(self._projection.weight, dtype=torch.float32)
            self.router.copies.append(SideCopy(zeros))
            self._opened += 1
        copy = self.router.copies[-1]
        return copy, random_mask(copy.change, share=self.settings.share, seed=self.seed * 1_000_003 + self._opened)

    def _count(self, edits: int) -> None:
        """Close a full copy, and merge when enough edits have come since the last merge."""
        self._in_copy += edits
        self._since_merge += edits
        if self._in_copy >= self.settings.shard:
            self._in_copy = 0
        if self._since_merge >= self.settings.merge_every:
            self._merge()

    def _merge(self) -> None:
        """Replace all copies by one; its threshold is measured again on their prompts, or a sample of these."""
        copies = self.router.copies
        changes = [copy.change for copy in copies]
        merged = SideCopy(
            ties(changes, torch.ones(len(changes), device=changes[0].device), self.settings.density),
            prompts=sample_of(tuple(prompt for copy in copies for prompt in copy.prompts), self.settings.remeasured),
            shortest=min(copy.shortest for copy in copies),
        )
        for start in range(0, len(merged.prompts), _AT_ONCE):
            read = self._read(merged.prompts[start : start + _AT_ONCE])
            merged.threshold = min(merged.threshold, self._threshold(merged.change, read))
        self.router.copies = [merged]
        self._in_copy, self._since_merge = 0, 0

    def _unrelated(self, cases: Sequence[Case]) -> list[str]:
        """Prompts that are unrelated to every one of these edits."""
        probed = {(fact.subject, fact.property) for case in cases for probe in case.probes for fact in probe.facts}
        probed |= {(case.fact.subject, case.fact.property) for case in cases}
        free = [known.question for known in self._known if (known.fact.subject, known.fact.property) not in probed]
        return free or self._written()

    def _draw(self, batch: Sequence[Case], free: Sequence[str]) -> list[str]:
        """One unrelated prompt for each edit."""
        return random.Random(seed_for(self.seed, batch)).choices(free, k=len(batch))

    def _written(self) -> list[str]:
        """Beginnings of texts that the model writes itself: unrelated prompts without known facts."""
        if not self._random_prefixes:
            random_prefixes = sample_random_prefixes(self.model, _PREFIXES, tokens=_PREFIX_TOKENS, seed=self.seed)
            self._random_prefixes = [text for ids in random_prefixes if (text := self.model.decode(ids))]
        return self._random_prefixes

    def _read(self, prompts: Sequence[str]) -> _Read:
        """The matrix's inputs for prompts, and which tokens count."""
        ids, mask = self.model.pad_left([self.model.encode(prompt) for prompt in prompts])
        inputs = projection_inputs(self.model, self.layer, ids, mask)
        return inputs, mask.bool().to(inputs.device)

    def _activation(self, change: torch.Tensor, read: _Read) -> torch.Tensor:
        return activation(self._projection, read[0], change, counted=read[1])

    def _threshold(self, change: torch.Tensor, read: _Read) -> float:
        # The same prompt in another batch differs in its last bits; the ratio leaves room for that.
        return max(float(self._activation(change, read).min()) * self.settings.ratio, _TINY)

    def _shortest(self, prompts: Sequence[str]) -> int:
        """Tokens of the shortest prompt, for memories of versions that did not store it."""
        return min((len(self.model.encode(prompt)) for prompt in prompts), default=0)

    def _measure(self, read: _Read) -> _Scale:
        """The scale, where settings leave it open, from unrelated prompts of the first edits."""
        settings, (inputs, counted) = self.settings, read
        written = activation(self._projection, inputs, self._projection.weight.detach().float(), counted=counted)
        squared = float(inputs.square().sum(-1)[counted].mean())
        unit = settings.unit or float(written.mean()) / 100
        rate = settings.learning_rate or _PACE / squared
        # One step along the gradient of an activation then changes it by about one unit: no step skips a margin.
        weight = settings.margin_weight or unit / (rate * settings.share * squared)
        return _Scale(unit, rate, weight)

    def _listen(self, listening: bool) -> None:
        if self._hook is not None:
            self._hook.remove()
        self._hook = InstalledHook(self.model, self._projection, self.router) if listening else None
