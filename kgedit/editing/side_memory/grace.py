"""`grace`: a codebook for one layer; near a stored key, a trained vector replaces the layer's output.

The weights do not change. A key is the layer's input at the last prompt token, so the codebook needs the ends of
prompts, from the model's `reading`. It does nothing while an answer is decoded with the cache. If the caller does not
specify where prompts end, any token may be the last one of a prompt.

kgedit.editing.side_memory.codebook has the keys, their radii and values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from kgedit.editing.editor import NO_RUN, AppliedEdits, Capabilities, Editor, EditorState, RunContext
from kgedit.editing.hparams.memory_based import GraceSettings
from kgedit.editing.row_tables import TableRows
from kgedit.editing.side_memory.codebook import Codebook
from kgedit.editing.training import examples, seed_for
from kgedit.llm.contexts import Context
from kgedit.llm.language_model import InstalledHook, LanguageModel
from kgedit.llm.surgery.forward_above import ForwardAbove, forward_above
from kgedit.llm.surgery.layers import check_layer
from kgedit.llm.surgery.structure import at, by_row, put
from kgedit.llm.training import TargetBatch, encode_targets, loss_scaler, row_losses, take_step
from kgedit.records.cases import Case


class Grace(Editor[GraceSettings]):
    """Replaces the output of one MLP at the last prompt token, if its input is within a key's radius.

    Outputs for inputs outside every radius are bitwise unchanged. Values of different edits are independent, so those
    of a call are trained together.
    """

    capabilities = Capabilities(
        protocols=("sequential", "single", "per_timestep"),
        changes_forward=True,
        source="GRACE, arXiv 2211.11031",
    )
    settings_type = GraceSettings

    def __init__(
        self, model: LanguageModel, settings: GraceSettings, *, contexts: Sequence[Context], seed: int
    ) -> None:
        super().__init__(model, settings, contexts=contexts, seed=seed)
        self.layer = check_layer(model, settings.layer)
        self._projection = model.blocks[self.layer].down_projection
        self.codebook = Codebook()
        self._hook: InstalledHook | None = None

    def apply(self, cases: Sequence[Case], run: RunContext = NO_RUN) -> AppliedEdits:
        """Find or add each edit's key and train the values; the loss is the mean over edits.

        If it is interrupted, the codebook keeps its content from before the call.
        """
        pairs, losses = examples(cases, self.contexts), []
        starts = self._cold_starts(cases) if self.settings.start == "cold" else None
        self._listen(False)
        try:
            with self.codebook.undone_on_error():
                for done in range(0, len(pairs), self.settings.batch):
                    batch = slice(done, done + self.settings.batch)
                    work = partial(self._learn_in_parts, pairs[batch], None if starts is None else starts[batch])
                    losses += self.model.trained_at_once.run(len(pairs[batch]), work)
                    run.progress(len(losses) / len(pairs))
        finally:
            self._listen(True)
        return AppliedEdits(loss=sum(losses) / len(losses))

    def restore(self) -> None:
        """Remove the hook and empty the codebook."""
        self._listen(False)
        self.codebook = Codebook()

    def state(self) -> EditorState:
        """Return the codebook."""
        return EditorState(tables={"codebook": self.codebook.content()})

    def next_checkpoint(self) -> EditorState:
        """Return the entries of the codebook that were added or changed."""
        return EditorState(tables={"codebook": self.codebook.take_changes()})

    def load_state(self, state: EditorState) -> None:
        """Load the codebook, also in the format of kgedit 0.1: tensors, and labels in the record."""
        older = TableRows(
            len(state.record.get("labels", ())), None, state.tensors, tuple(state.record.get("labels", ()))
        )
        self.codebook = Codebook.of(state.tables.get("codebook", older), device=self.model.device)
        if len(self.codebook):
            self._listen(True)

    def _cold_starts(self, cases: Sequence[Case]) -> torch.Tensor:
        """Initial values of new entries, training examples x outputs; sampled from 0 to 1 with the case's seed."""
        width = self.model.blocks[self.layer].down.out_width
        starts: list[torch.Tensor] = []
        for case in cases:
            draw = torch.Generator().manual_seed(seed_for(self.seed, [case]))
            starts += [torch.rand(width, generator=draw) for _ in self.contexts]
        return torch.stack(starts)

    def _learn_in_parts(
        self, pairs: Sequence[tuple[str, str]], starts: torch.Tensor | None, at_once: int
    ) -> list[float]:
        """Train `at_once` edits together; repeating it after running out of memory gives the same result."""
        losses: list[float] = []
        for start in range(0, len(pairs), at_once):
            part = slice(start, start + at_once)
            targets = encode_targets(self.model, pairs[part], learn_end=self.settings.learn_end)
            losses += self._learn(targets.without_last(), None if starts is None else starts[part])
        return losses

    def _learn(self, targets: TargetBatch, starts: torch.Tensor | None) -> list[float]:
        """Find or add the entries of one batch and train their values; returns the best loss of each.

        Args:
            starts: Initial value of each row's new entry; None means the layer's output.
        """
        # Nothing before the prompts' last tokens depends on the values.
        first = int(targets.ends.min()) if self.model.keeps_tokens else 0
        columns = targets.ends - first
        with forward_above(self.model, self.layer, targets, start=first) as logits:
            keys, given = self._look(columns, logits)
            values = given if starts is None else starts.to(given)
            labels = [tuple(token for token in row if token != -100) for row in targets.labels.tolist()]
            # Twice the rounding of TF32 (2^-11), in which GPUs may multiply float32; five times that of bfloat16
            # (2^-8).
            same = 1e-3 if self._projection.weight.dtype == torch.float32 else 2e-2
            entries = self.codebook.find_or_add(keys, labels, values, radius=self.settings.radius, same=same)
            # If two edits of a batch have the same key and different targets, the later one gets the entry.
            valid = [self.codebook.labels[entry] == label for entry, label in zip(entries, labels, strict=True)]
            return self._train(targets.labels, columns, logits, entries, valid)

    def _look(self, columns: torch.Tensor, forward: ForwardAbove) -> tuple[torch.Tensor, torch.Tensor]:
        """Input and output of the layer at each row's last prompt token, given by its column."""
        read, written = forward.read_and_written(self._projection)
        return at(read, columns).to(columns.device).float(), at(written, columns).to(columns.device).float()

    def _train(
        self,
        labels: torch.Tensor,
        columns: torch.Tensor,
        logits: Callable[[], torch.Tensor],
        entries: Sequence[int],
        valid: Sequence[bool],
    ) -> list[float]:
        """Train the entries' values by Adam until each has reached the stop loss; keeps the best value of each.

        Args:
            labels: The targets, as in TargetBatch.
            columns: Column of each row's last prompt token.
            logits: Function that returns the model's logits with the values.
            entries: Entry of each row.
            valid: Whether a row's target is that of its entry.
        """
        used, device = sorted(set(entries)), labels.device
        column = torch.tensor([used.index(entry) for entry in entries], device=device)
        counts = torch.tensor(valid, device=device).float()
        values = self.codebook.values[used].requires_grad_(True)
        best, lowest = values.detach().clone(), torch.full((len(used),), torch.inf, device=values.device)
        shares = torch.zeros_like(lowest).index_add(0, column, counts)
        optimizer, scaler = torch.optim.Adam([values], lr=self.settings.learning_rate), loss_scaler(self.model)
        rows = torch.arange(len(labels), device=device)

        def force(_: Any, __: Any, output: torch.Tensor) -> torch.Tensor:
            return put(output, values[column], rows=rows, columns=columns, count=len(rows))

        handle = self._projection.register_forward_hook(force)
        try:
            with torch.enable_grad():
                for _ in range(self.settings.steps):
                    losses = torch.zeros_like(lowest).index_add(0, column, row_losses(logits(), labels) * counts)
                    losses = losses / shares
                    better = losses.detach() < lowest
                    lowest = torch.where(better, losses.detach(), lowest)
                    best = torch.where(better[:, None], values.detach(), best)
                    if bool((lowest <= self.settings.stop_loss).all()):
                        break
                    optimizer.zero_grad()
                    scaler.scale(losses.sum()).backward()  # type: ignore[no-untyped-call]
                    take_step(optimizer, scaler)
        finally:
            handle.remove()
        self.codebook.write(used, best)
        return lowest.tolist()

    def _listen(self, listening: bool) -> None:
        if self._hook is not None:
            self._hook.remove()
        self._hook = InstalledHook(self.model, self._projection, self._replace) if listening else None

    def _replace(self, _: Any, given: tuple[torch.Tensor, ...], output: torch.Tensor) -> torch.Tensor | None:
        """Hook that replaces the output by a value if a prompt's last token matches a key."""
        reading = self.model.reading
        if reading is None or (reading.ends is None and not reading.ends_unknown):
            return None
        inputs = by_row(given[0], len(reading.rows))
        if reading.ends is None:
            rows, columns = reading.mask[:, -inputs.shape[1] :].nonzero(as_tuple=True)
        else:
            rows, columns = torch.arange(len(inputs), device=reading.ends.device), reading.ends
        queries = inputs[rows.to(inputs.device), columns.to(inputs.device)]
        found = self.codebook.find(queries)
        hits = (found >= 0).nonzero().flatten()
        if not len(hits):
            return None
        values = self.codebook.values[found[hits].to(self.codebook.values.device)]
        hits = hits.to(rows.device)
        return put(output, values, rows=rows[hits], columns=columns[hits], count=len(inputs))
