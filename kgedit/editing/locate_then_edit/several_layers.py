"""Common base of MEMIT-like methods: desired values at one block's output are produced by several blocks up to it.

They differ in the penalty of a layer's least-squares problem and in whether past edits remain part of it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import torch
from safetensors.torch import load_file

from kgedit.editing.editor import NO_RUN, AppliedEdits, EditorState, RunContext
from kgedit.editing.hparams.locate_then_edit import SeveralLayersSettings
from kgedit.editing.locate_then_edit.closed_form import (
    AccumulatedSolve,
    LeastInterference,
    anchor_path,
    anchored,
    away_from_main_directions,
    pilot_cases,
)
from kgedit.editing.locate_then_edit.editor import LocateThenEdit
from kgedit.editing.locate_then_edit.subject_prompts import outputs_at
from kgedit.editing.locate_then_edit.value_search import EditRequest, FoundValues, search_stage
from kgedit.editing.row_tables import RowTable, TableRows
from kgedit.errors import ModelError, SpecError
from kgedit.llm.contexts import Context
from kgedit.llm.devices import in_float64
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.model_files import save_tensors
from kgedit.llm.surgery.layers import parse_layers
from kgedit.progress import Advance
from kgedit.records.cases import Case, KnownFact
from kgedit.records.runs import EditFailure

Settings = TypeVar("Settings", bound=SeveralLayersSettings)

_SEARCHING = 0.85
"""Share of a call's time in which values are searched, measured with a thousand edits on a core."""


@dataclass(frozen=True, slots=True)
class _MadeEdits:
    """Results of the edits of one call.

    Attributes:
        losses: Loss of each edit's search in the last stage.
        dropped: Whether each edit was dropped in every stage.
        solved: Keys and values by name, edits x width, if they are stored.
    """

    losses: tuple[float, ...]
    dropped: tuple[bool, ...]
    solved: dict[str, torch.Tensor]


class SeveralLayersEditor(LocateThenEdit[Settings]):
    """Searches for z at the output of the highest layer; each layer then contributes an equal share of the difference.

    With `blue`, the lowest and the highest layer each search for a separate z and produce all of it.
    """

    def __init__(self, model: LanguageModel, settings: Settings, *, contexts: Sequence[Context], seed: int) -> None:
        super().__init__(model, settings, contexts=contexts, seed=seed)
        self._solves: dict[int, AccumulatedSolve] = {}
        self._kept = RowTable()  # a case's id, and its keys and values at each layer
        self._on_edited_weights = False
        self._anchors: dict[int, float] = {}  # with `nas`: norms by layer
        self._interference = (
            LeastInterference(model, self.matrices, penalty=settings.simie) if settings.simie is not None else None
        )

    def layers_of(self, settings: Settings) -> tuple[int, ...]:
        """Layers of the setting; with `blue` the lowest and the highest of them."""
        layers = parse_layers(settings.layers)
        return tuple(dict.fromkeys((layers[0], layers[-1]))) if settings.blue else layers

    @property
    def stages(self) -> tuple[tuple[int, ...], ...]:
        """Groups of layers that produce one z together, which is searched for at the last of them."""
        return tuple((layer,) for layer in self.layers) if self.settings.blue else (self.layers,)

    def prepare(self, known: Sequence[KnownFact], *, advance: Advance) -> None:
        """Also computes the norms of pilot edits, if values are scaled to them."""
        super().prepare(known, advance=advance)
        if self.settings.nas:
            self._anchors = {stage[-1]: self._anchor(known, stage[-1]) for stage in self.stages}

    def details(self) -> dict[str, Any]:
        """Also returns the norms to which values are scaled."""
        anchors = {str(layer): norm for layer, norm in self._anchors.items()}
        return {**super().details(), **({"anchors": anchors} if anchors else {})}

    @property
    def remembers(self) -> bool:
        """Whether past edits remain part of the problem that is solved for new ones."""
        return True

    @abstractmethod
    def start(self, layer: int) -> torch.Tensor:
        """Inverse of a layer's penalty on changes before the first edit (inputs x inputs, float64)."""

    def solve(self, layer: int) -> AccumulatedSolve:
        """Return the least-squares problem of a layer, with the edits so far."""
        if layer not in self._solves:
            self._solves[layer] = AccumulatedSolve(self.start(layer))
        return self._solves[layer]

    def apply(self, cases: Sequence[Case], run: RunContext = NO_RUN) -> AppliedEdits:
        """Edit all cases together; a stored earlier edit of a case is withdrawn first."""
        fine, failures = self.editable(cases)
        if not fine:
            return AppliedEdits(failures=failures)
        if self.overwrites:
            fine = list({case.id_in_run: case for case in fine}.values())
            again = {case.id_in_run for case in fine}
            self._withdraw([index for index, label in enumerate(self._kept.labels) if label in again])
        owned = [(index, request) for index, case in enumerate(fine) for request in self.requests_of(case)]
        requests = [request for _, request in owned]
        if self._interference is None:
            made = self._edit(requests, run)
        else:
            calls: list[_MadeEdits] = []
            self._interference.bring(requests, lambda: calls.append(self._edit(requests, run)))
            made = calls[0]
        if self.overwrites:
            for row, (index, _) in enumerate(owned):
                self._kept.add(fine[index].id_in_run, **{name: rows[row] for name, rows in made.solved.items()})
        reason = f"its value is over twice as long as the mean of {self.settings.pilots} pilot edits (nas)"
        reached = {index for (index, _), out in zip(owned, made.dropped, strict=True) if not out}
        dropped = [case for index, case in enumerate(fine) if index not in reached]
        failures += tuple(EditFailure(case_id=case.case_id, reason=reason) for case in dropped)
        return AppliedEdits(loss=sum(made.losses) / len(made.losses), failures=failures)

    def _edit(self, requests: Sequence[EditRequest], run: RunContext) -> _MadeEdits:
        """Produce the values of all stages, one after the other."""
        earlier: list[FoundValues] = []
        solved: dict[str, torch.Tensor] = {}
        dropped = [True] * len(requests)
        layers = [layer for stage in self.stages for layer in stage]
        done = {"searched": 0.0, "changed": 0.0}

        def report(part: str, share: float) -> None:
            done[part] = share
            run.progress(_SEARCHING * done["searched"] + (1 - _SEARCHING) * done["changed"])

        searching = replace(run, progress=partial(report, "searched"))
        for stage in self.stages:
            top = stage[-1]
            found = search_stage(
                lambda own, top=top: self.search(self.model.blocks[top].module, requests, layer=top, run=own),  # type: ignore[misc]
                earlier,
                stages=len(self.stages),
                run=searching,
                device=self.matrices[top].weight.device,
            )
            earlier.append(found)
            wanted, left_out = self.wanted(found, requests, layer=top)
            dropped = [one and other for one, other in zip(dropped, left_out, strict=True)]
            for layer, own in self._bring_about(wanted, requests, stage):
                solved |= own
                report("changed", (layers.index(layer) + 1) / len(layers))
        return _MadeEdits(earlier[-1].losses, tuple(dropped), solved)

    def _bring_about(
        self, wanted: torch.Tensor, requests: Sequence[EditRequest], stage: Sequence[int]
    ) -> Iterator[tuple[int, dict[str, torch.Tensor]]]:
        """Change the layers of a stage; yields each with the edits' keys and values by name, if they are stored."""
        for index, layer in enumerate(stage):
            matrix = self.matrices[layer]
            # In the matrix's own precision, in which keys are stored, so that exactly the added keys can be withdrawn.
            keys = self.keys(requests, layer=layer).to(matrix.wide).to(self.solving_device(layer)).double()
            # Measured again for each layer, so that what lower layers missed is divided among the remaining ones
            # (MEMIT).
            missing = wanted - self.reached(requests, layer=stage[-1])
            share = self._before_norm(missing / (len(stage) - index), requests, layer=layer).T.to(keys.device)
            solved: dict[str, torch.Tensor] = {}
            if self.overwrites:
                own = {"keys": keys, "values": matrix.products(keys) + share}
                solved = {f"{name}.{layer}": rows.T.to(matrix.wide).cpu() for name, rows in own.items()}
            kept = self.kept_keys(requests, layer=layer)
            if kept is not None:
                kept = kept.to(keys)
                share = torch.cat([share, share.new_zeros(len(share), kept.shape[1])], dim=1)
                keys = torch.cat([keys, kept], dim=1)
            change = self.change(layer, share, keys)
            if self.settings.sphere is not None:
                change = away_from_main_directions(
                    change,
                    matrix.outputs_by_inputs(change.device),
                    strength=self.settings.sphere,
                    share=self.settings.sphere_share,
                )
            matrix.add(change.T)
            self.changed(layer, keys)
            yield layer, solved

    def change(self, layer: int, residuals: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        """Change of a layer's matrix (outputs x inputs) for new edits, which are remembered if the method does.

        Args:
            layer: Index of the block.
            residuals: What the layer has to add to its outputs, outputs x edits.
            keys: K, inputs x edits.
        """
        solve = self.solve(layer)
        return solve.add(residuals, keys) if self.remembers else solve.change(residuals, keys)

    def kept_keys(self, requests: Sequence[EditRequest], *, layer: int) -> torch.Tensor | None:  # noqa: ARG002 - for subclasses
        """Keys whose outputs a change of the layer should preserve, inputs x tokens, or None if there are none."""
        return None

    def changed(self, layer: int, keys: torch.Tensor) -> None:
        """Called after a layer's matrix was changed for these keys."""

    def withdraw(self, case_ids: Sequence[str]) -> None:
        """Remove edits from each layer's problem: its solution becomes that over the keys and values of the others.

        If none is left, the model's own matrices are restored bit for bit.

        Raises:
            SpecError: if there is no such edit, or edits are not stored.
        """
        if not self.overwrites:
            how = "withdrawable: true" if self.remembers else "history: true and withdrawable: true"
            how += ", and no simie" if self.settings.simie is not None else ""
            how += ", and no sphere" if self.settings.sphere is not None else ""
            raise SpecError(
                [f"no edit can be withdrawn, since none was kept; give the settings {how}"], of="Nothing was withdrawn"
            )
        known, wanted = set(self._kept.labels), set(case_ids)
        if missing := [name for name in case_ids if name not in known]:
            raise SpecError([f"there is no edit '{name}' to withdraw" for name in missing], of="Nothing was withdrawn")
        self._withdraw([index for index, label in enumerate(self._kept.labels) if label in wanted])

    def restore(self) -> None:
        """Restore the matrices and remove all edits."""
        super().restore()
        self._kept = RowTable()
        if self._interference is not None:
            self._interference.clear()
        self._solves = {layer: solve for layer, solve in self._solves.items() if not solve.folded}
        for solve in self._solves.values():
            solve.clear()

    def state(self) -> EditorState:
        """Also returns the least-squares problems and the stored edits."""
        return self._state({"edits": self._kept.content()})

    def next_checkpoint(self) -> EditorState:
        """Like `state`, with only the new ones of the stored edits."""
        return self._state({"edits": self._kept.take_changes()})

    def load_state(self, state: EditorState) -> None:
        """Also loads the least-squares problems and the stored edits."""
        super().load_state(state)
        self._load_problems(state)

    @property
    def has_memory(self) -> bool:
        """Whether any edit is stored: it can be withdrawn from a loaded model only if the folder contains it."""
        return bool(len(self._kept))

    def memory(self) -> EditorState:
        """Return everything except the matrices, which are in the model's files."""
        state, solves = self.state(), {layer: self.solve(layer) for layer in self.layers}
        own = {name: tensor for name, tensor in state.tensors.items() if not name.startswith("weight.")}
        problems = {f"problem.{layer}": solve.matrix for layer, solve in solves.items()}
        record = {**state.record, "largest": {str(layer): solve.largest for layer, solve in solves.items()}}
        return EditorState({**own, **problems}, record, state.tables)

    def load_memory(self, memory: EditorState) -> None:
        """Load problems and edits; the model already has the edited matrices."""
        self._random_prefixes = memory.record["random_prefixes"]
        self._on_edited_weights = True
        self._load_problems(memory)

    def _state(self, tables: dict[str, TableRows]) -> EditorState:
        state = super().state()
        solves = self._solves if self.remembers else {}
        problems = {f"waiting.{layer}": solve.waiting.clone() for layer, solve in solves.items()}
        # A matrix without folded edits is the start, which is recomputed from statistics.
        folded = {layer: solve for layer, solve in solves.items() if solve.folded}
        problems |= {f"problem.{layer}": solve.matrix.clone() for layer, solve in folded.items()}
        if self._interference is not None:
            problems |= self._interference.tensors()
        record = {**state.record, "largest": {str(layer): solve.largest for layer, solve in folded.items()}}
        return EditorState({**state.tensors, **problems}, record, tables if self.overwrites else {})

    def _load_problems(self, state: EditorState) -> None:
        self._kept = RowTable()
        if "edits" in state.tables:
            self._kept.apply(state.tables["edits"], device=torch.device("cpu"))
        if self._interference is not None:
            self._interference.load(state.tensors)
        for layer in self.layers if self.remembers else ():
            matrix, waiting = (state.tensors.get(f"{name}.{layer}") for name in ("problem", "waiting"))
            device = self.solving_device(layer)
            self._solves[layer] = AccumulatedSolve.of(
                self.start(layer) if matrix is None else matrix.to(device, copy=True),
                None if waiting is None else waiting.to(device),
                largest=state.record["largest"].get(str(layer)),
            )

    @property
    def overwrites(self) -> bool:
        """Whether edits are stored, so that they can be withdrawn."""
        own = self.settings
        return own.withdrawable and self.remembers and own.simie is None and own.sphere is None

    def _withdraw(self, rows: list[int]) -> None:
        """Withdraw the stored edits with these indexes."""
        if not rows:
            return
        kept = {layer: self._keys_and_values(layer, rows) for layer in self.layers}
        for layer, (keys, _) in kept.items():
            self.solve(layer).check_withdrawal(keys)
        for layer, (keys, values) in kept.items():
            matrix = self.matrices[layer]
            matrix.add(self.solve(layer).withdraw(values - matrix.products(keys), keys).T)
        for row in reversed(rows):
            self._kept.remove(row)
        if not len(self._kept) and not self._on_edited_weights:
            self.restore()

    def _keys_and_values(self, layer: int, rows: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of stored edits: inputs x edits, and outputs x edits."""
        device = self.solving_device(layer)
        keys, values = (self._kept.column(f"{name}.{layer}")[rows].to(device).double().T for name in ("keys", "values"))
        return keys, values

    def wanted(
        self, found: FoundValues, requests: Sequence[EditRequest], *, layer: int
    ) -> tuple[torch.Tensor, list[bool]]:
        """z of each edit, edits x width, in float64, and whether the edit was dropped for its norm."""
        before, added = in_float64(found.before), in_float64(found.added)
        if not self.settings.nas:
            return before + added, [False] * len(requests)
        if layer not in self._anchors:
            raise SpecError(
                ["nas needs pilot edits: call prepare() with known facts first"], of="The method is not prepared"
            )
        values = anchored(before, self.written(requests, layer=layer), added, norm=self._anchors[layer])
        return values.wanted, values.dropped.tolist()

    def reached(self, requests: Sequence[EditRequest], *, layer: int) -> torch.Tensor:
        """Current outputs of a layer for the bare prompts, edits x width, in float64."""
        bare = [request.prompts[0] for request in requests]
        return in_float64(outputs_at(self.model, self.model.blocks[layer].module, bare, layer=layer))

    def written(self, requests: Sequence[EditRequest], *, layer: int) -> torch.Tensor:
        """Current contribution of a block's MLP for the bare prompts, edits x width, in float64."""
        block, bare = self.model.blocks[layer], [request.prompts[0] for request in requests]
        last = block.norm_after_mlp or block.down_projection
        return in_float64(outputs_at(self.model, last, bare, layer=layer))

    def _anchor(self, known: Sequence[KnownFact], layer: int) -> float:
        """Mean norm of v0 + d over pilot edits of the unedited model, loaded from the home folder or computed.

        Raises:
            ModelError: if no known fact can be used as an edit.
        """
        cases, _ = self.editable(pilot_cases(known, self.settings.pilots))
        if not cases:
            raise ModelError(
                "nas needs pilot edits, but no known fact names its subject and has another answer to turn to. "
                "Export the timestep again with known facts, or leave nas out."
            )
        requests = [request for case in cases for request in self.requests_of(case)]
        key = [self.settings.model_dump(), [[[*prompt.ids] for prompt in own.prompts] for own in requests]]
        path = anchor_path(self.model.fingerprint, layer, [*key, [own.target for own in requests]])
        if not path.is_file():
            written = self.written(requests, layer=layer)
            found = self.search(self.model.blocks[layer].module, requests, layer=layer)
            save_tensors(path, {"norm": (written + in_float64(found.added)).norm(dim=1).mean()})
        return float(load_file(path)["norm"])

    def keys(self, requests: Sequence[EditRequest], *, layer: int) -> torch.Tensor:
        """One key per edit, inputs x edits: the mean of the bare prompt's key and the mean key of the others."""
        rows = self.key_rows(requests, layer=layer)
        # As published (MEMIT): the mean over each group of contexts, then over the groups.
        groups = [(own[0] + own[1:].mean(0)) / 2 if len(own) > 1 else own[0] for own in rows]
        return torch.stack(groups, dim=1)

    def _before_norm(self, share: torch.Tensor, requests: Sequence[EditRequest], *, layer: int) -> torch.Tensor:
        """Change of the down-projection's output that changes its block's output by `share`.

        Equal to `share`, unless a norm follows (Gemma 2 and 3): then divided by the norm's current scale of each
        element.
        """
        block = self.model.blocks[layer]
        if block.norm_after_mlp is None:
            return share
        bare = [request.prompts[0] for request in requests]
        given = outputs_at(self.model, block.down_projection, bare, layer=layer)
        with torch.no_grad():
            scale: torch.Tensor = in_float64(block.norm_after_mlp(given)) / in_float64(given)
        return share / scale.to(share.device)
