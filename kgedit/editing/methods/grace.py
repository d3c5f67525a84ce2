"""`grace`: a codebook beside one layer; where a prompt ends near a known key, a learned vector takes the layer's place.

The weights stay as they are. A key is what the layer reads at the last prompt token, so the codebook must know where
prompts end: it asks the model's `reading`, and is silent while an answer is decoded from the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kgedit.editing.codebook import Codebook
from kgedit.editing.contract import Applied, Capabilities, Editor, State
from kgedit.editing.examples import CONTEXT_MEANING, examples, training_contexts
from kgedit.editing.layers import choose_layer
from kgedit.editing.places import at, put
from kgedit.editing.replay import replay_above
from kgedit.editing.settings import Bounds, setting
from kgedit.llm.contexts import Context
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.targets import Lines, lines_of, target_losses
from kgedit.records.cases import Case


@dataclass(frozen=True, slots=True)
class GraceSettings:
    """Hyperparameters of GRACE."""

    layer: int | None = setting(
        None,
        "block whose layer has the codebook; None: as published for the model, else by `depth`",
        bounds=Bounds(least=0),
    )
    depth: float = setting(
        0.73, "block as a fraction of all blocks: 35 of 48", bounds=Bounds(least=0, most=1), instead_of="layer"
    )
    radius: float = setting(1.0, "within which a new key counts", bounds=Bounds(above=0))
    steps: int = setting(100, "most steps of Adam per batch", bounds=Bounds(least=1))
    learning_rate: float = setting(1.0, "of Adam, on the values", bounds=Bounds(above=0))
    stop_loss: float = setting(1e-2, "a value is learned at this loss", bounds=Bounds(least=0))
    batch: int = setting(16, "edits whose values are learned together", bounds=Bounds(least=1))
    context: str = setting("question_only", CONTEXT_MEANING)
    learn_end: bool = setting(False, "whether the end of text is part of the target")


class Grace(Editor[GraceSettings]):
    """Replaces the output of one MLP at the last prompt token, where its input lies within a key's radius.

    Whatever lies off the codebook is left untouched bit for bit. Values of different edits do not depend on one
    another, so those of a call are learned together.
    """

    capabilities = Capabilities(
        protocols=("sequential", "single", "per_timestep"),
        changes_forward=True,
        source="GRACE, arXiv 2211.11031",
    )
    settings_type = GraceSettings
    method = "grace"

    def __init__(self, model: LanguageModel, settings: GraceSettings, *, asked: Sequence[Context], seed: int) -> None:
        super().__init__(model, settings, asked=asked, seed=seed)
        self.layer = choose_layer(model, layer=self.settings.layer, depth=settings.depth)
        self._projection = model.blocks[self.layer].down_projection
        self._contexts = training_contexts(settings.context, asked)
        self.codebook = Codebook()
        self._handle: Any = None

    def apply(self, cases: Sequence[Case]) -> Applied:
        """Give each edit a key and learn the values; the loss is the mean over edits."""
        pairs, losses = examples(cases, self._contexts), []
        self._listen(None)
        for done in range(0, len(pairs), self.settings.batch):
            batch = pairs[done : done + self.settings.batch]
            losses += self._learn(lines_of(self.model, batch, learn_end=self.settings.learn_end))
            self.advance(len(losses) / len(pairs))
        self._listen(self._replace)
        return Applied(loss=sum(losses) / len(losses))

    def derived(self) -> dict[str, Any]:
        """The block."""
        return {**super().derived(), "layer": self.layer}

    def restore(self) -> None:
        """Take the codebook out."""
        self._listen(None)
        self.codebook = Codebook()

    def state(self) -> State:
        """The codebook."""
        tensors, labels = self.codebook.content()
        return State(tensors, {"labels": labels})

    def load_state(self, state: State) -> None:
        """Take the codebook over."""
        self.codebook = Codebook.of(state.tensors, state.record["labels"], device=self.model.device)
        if len(self.codebook):
            self._listen(self._replace)

    def _learn(self, lines: Lines) -> list[float]:
        """Place and learn one batch; the best loss of each entry touched."""
        with replay_above(self.model, self.layer, lines) as logits:
            keys, outputs = self._look(lines, logits)
            labels = [tuple(row[row != -100].tolist()) for row in lines.labels]
            same = 1e-3 if self._projection.weight.dtype == torch.float32 else 2e-2
            entries = [
                self.codebook.place(key, label, output, radius=self.settings.radius, same=same)
                for key, label, output in zip(keys, labels, outputs, strict=True)
            ]
            # Where two edits of a batch contradict one another at the same key, the later one has won it.
            valid = [self.codebook.labels[entry] == label for entry, label in zip(entries, labels, strict=True)]
            return self._train(lines, logits, entries, valid)

    def _look(self, lines: Lines, logits: Callable[[], torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        """What the layer reads and writes at each row's last prompt token."""
        seen: list[torch.Tensor] = []

        def look(_: Any, given: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
            seen.extend(at(tensor, lines.ends).to(lines.ids.device).float() for tensor in (given[0], output))

        handle = self._projection.register_forward_hook(look)
        with torch.no_grad():
            logits()
        handle.remove()
        return seen[0], seen[1]

    def _train(
        self, lines: Lines, logits: Callable[[], torch.Tensor], entries: Sequence[int], valid: Sequence[bool]
    ) -> list[float]:
        """Adam on the entries' values until each has reached the loss; each keeps the best value that it had."""
        used = sorted(set(entries))
        place = torch.tensor([used.index(entry) for entry in entries], device=lines.ids.device)
        counts = torch.tensor(valid, device=lines.ids.device).float()
        values = self.codebook.values[used].requires_grad_(True)
        best, lowest = values.detach().clone(), torch.full((len(used),), torch.inf, device=values.device)
        shares = torch.zeros_like(lowest).index_add(0, place, counts)
        optimizer = torch.optim.Adam([values], lr=self.settings.learning_rate)
        rows = torch.arange(len(lines.ids), device=lines.ids.device)

        def force(_: Any, __: Any, output: torch.Tensor) -> torch.Tensor:
            return put(output, lines.ends, values[place], rows=rows)

        handle = self._projection.register_forward_hook(force)
        try:
            with torch.enable_grad():
                for _ in range(self.settings.steps):
                    losses = torch.zeros_like(lowest).index_add(0, place, target_losses(logits(), lines) * counts)
                    losses = losses / shares
                    better = losses.detach() < lowest
                    lowest = torch.where(better, losses.detach(), lowest)
                    best = torch.where(better[:, None], values.detach(), best)
                    if bool((lowest <= self.settings.stop_loss).all()):
                        break
                    optimizer.zero_grad()
                    losses.sum().backward()  # type: ignore[no-untyped-call]
                    optimizer.step()
        finally:
            handle.remove()
        self.codebook.values[used] = best
        return lowest.tolist()

    def _listen(self, hook: Any) -> None:
        if self._handle is not None:
            self._handle.remove()
        self._handle = None if hook is None else self._projection.register_forward_hook(hook)

    def _replace(self, _: Any, given: tuple[torch.Tensor, ...], output: torch.Tensor) -> torch.Tensor | None:
        """The hook: values in place of outputs, for the rows that the codebook knows."""
        reading = self.model.reading
        if reading is None or reading.ends is None:
            return None
        found = self.codebook.find(at(given[0], reading.ends).to(reading.ends.device))
        hits = [row for row, entry in enumerate(found) if entry is not None]
        if not hits:
            return None
        values = self.codebook.values[[entry for entry in found if entry is not None]]
        return put(output, reading.ends, values, rows=torch.tensor(hits))
