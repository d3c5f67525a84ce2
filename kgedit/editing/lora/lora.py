"""`lora`, `lora_merge`: one low-rank adapter, trained further in each timestep (LoRA-FT of WikiBigEdit), or merged.

`lora_merge` interpolates the adapters of successive timesteps (LoRA-Merge of WikiBigEdit). The paper describes two
variants. In appendix C.4 a share of a new adapter is merged into the weights at each timestep; in section 4.4 the
factors of the adapter are interpolated with those of the previous timestep, so that the rank remains the same for all
edits together. Both start the next timestep from the merged result.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel, get_peft_model_state_dict, set_peft_model_state_dict

from kgedit.editing.editor import NO_RUN, AppliedEdits, Capabilities, Editor, EditorState, RunContext
from kgedit.editing.hparams.fine_tuning import LoraMergeSettings, LoraSettings
from kgedit.editing.lora.adapters import attach, detach, merge, targets_of, train
from kgedit.editing.training import examples, seed_for, seeded
from kgedit.llm.contexts import Context
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.surgery.matrices import EditedMatrix
from kgedit.records.cases import Case


class LoraFineTuning(Editor[LoraSettings]):
    """Adds one low-rank adapter to the query and value projections and trains it further on each call."""

    capabilities = Capabilities(
        protocols=("per_timestep", "sequential", "single"),
        adds_modules=True,
        resumes_calls=True,
        source="WikiBigEdit, arXiv 2503.05683 appendix C.4; LoRA, arXiv 2106.09685",
    )
    settings_type = LoraSettings

    def __init__(self, model: LanguageModel, settings: LoraSettings, *, contexts: Sequence[Context], seed: int) -> None:
        super().__init__(model, settings, contexts=contexts, seed=seed)
        self._adapted: PeftModel | None = None

    def apply(self, cases: Sequence[Case], run: RunContext = NO_RUN) -> AppliedEdits:
        """Train the adapter on the cases."""
        adapted = self._adapter()
        seed = seed_for(self.seed, cases)
        with seeded(seed, self.model.device):
            loss = train(self.model, self.settings, adapted, examples(cases, self.contexts), seed=seed, run=run)
        return AppliedEdits(loss=loss)

    def details(self) -> dict[str, Any]:
        """Adapted modules of the first block."""
        return {"first_modules": list(self.model.blocks[0].query_value)}

    def save_model(self, folder: Path) -> None:
        """Save only the adapter, in the format of peft with the base model's name, and the tokenizer."""
        adapted = self._adapter()
        adapted.peft_config[adapted.active_adapter].base_model_name_or_path = self.model.name
        self.model.tokenizer.save_pretrained(folder)
        # Embeddings are not adapted; "auto" would look the base model up on the hub to find that out.
        adapted.save_pretrained(str(folder), save_embedding_layers=False)

    def restore(self) -> None:
        """Remove the adapter."""
        if self._adapted is not None:
            detach(self._adapted)
            self._adapted = None

    def state(self) -> EditorState:
        """Return the adapter's two matrices per module."""
        if self._adapted is None:
            return EditorState()
        tensors = get_peft_model_state_dict(self._adapted, save_embedding_layers=False)
        return EditorState(tensors={name: tensor.detach().clone() for name, tensor in tensors.items()})

    def load_state(self, state: EditorState) -> None:
        """Load the adapter."""
        if state.tensors:
            set_peft_model_state_dict(self._adapter(), state.tensors)

    def _adapter(self) -> PeftModel:
        if self._adapted is None:
            with seeded(self.seed, self.model.device):
                self._adapted = attach(self.model, self.settings)
        return self._adapted


_FACTORS = "adapter."
"""Prefix of the names of the adapter's factors in a saved state."""


class LoraMerge(Editor[LoraMergeSettings]):
    """Trains a low-rank adapter on each call and merges a share of it into the weights or the previous adapter."""

    capabilities = Capabilities(
        protocols=("per_timestep", "sequential", "single"),
        changes_weights=True,
        resumes_calls=True,
        source="WikiBigEdit, arXiv 2503.05683 section 4.4 and appendix C.4",
    )
    settings_type = LoraMergeSettings

    def __init__(
        self, model: LanguageModel, settings: LoraMergeSettings, *, contexts: Sequence[Context], seed: int
    ) -> None:
        super().__init__(model, settings, contexts=contexts, seed=seed)
        modules = {name: model.module.get_submodule(name) for name in targets_of(model)}
        self._matrices = {name: EditedMatrix(module) for name, module in modules.items()}
        self._factors: dict[str, torch.Tensor] = {}

    def apply(self, cases: Sequence[Case], run: RunContext = NO_RUN) -> AppliedEdits:
        """Adapt, interpolate, and merge in float32."""
        if self.settings.into == "adapter":
            return self._merge_into_adapter(cases, run)
        weights = {name: matrix.editable() for name, matrix in self._matrices.items()}
        before = {name: weight.detach().clone() for name, weight in weights.items()}
        seed = seed_for(self.seed, cases)
        with seeded(seed, self.model.device):
            adapted = attach(self.model, self.settings)
            loss = self._train(adapted, cases, seed, run)
        merge(adapted)
        for name, matrix in self._matrices.items():
            # lerp is exact at both ends: share 0 is the previous model, share 1 the adapted one.
            matrix.write(torch.lerp(before[name], matrix.weight.detach(), self.settings.share))
        return AppliedEdits(loss=loss)

    def _merge_into_adapter(self, cases: Sequence[Case], run: RunContext) -> AppliedEdits:
        for matrix in self._matrices.values():
            matrix.write(matrix.before)
        with seeded(self.seed, self.model.device):
            adapted = attach(self.model, self.settings)
        if self._factors:
            set_peft_model_state_dict(adapted, self._factors)
        before = _factors_of(adapted)
        seed = seed_for(self.seed, cases)
        with seeded(seed, self.model.device):
            loss = self._train(adapted, cases, seed, run)
        trained, share = _factors_of(adapted), self.settings.share
        self._factors = {name: torch.lerp(before[name], own, share) for name, own in trained.items()}
        set_peft_model_state_dict(adapted, self._factors)
        merge(adapted)
        return AppliedEdits(loss=loss)

    def _train(self, adapted: PeftModel, cases: Sequence[Case], seed: int, run: RunContext) -> float:
        return train(self.model, self.settings, adapted, examples(cases, self.contexts), seed=seed, run=run)

    def details(self) -> dict[str, Any]:
        """Adapted modules of the first block."""
        return {"first_modules": list(self.model.blocks[0].query_value)}

    def restore(self) -> None:
        """Restore the model's own matrices."""
        for matrix in self._matrices.values():
            matrix.restore()
        self._factors = {}

    def state(self) -> EditorState:
        """Return the merged matrices, and the factors of an adapter that is trained further."""
        tensors = {name: matrix.weight.detach().float().clone() for name, matrix in self._matrices.items()}
        return EditorState(tensors | {_FACTORS + name: own.clone() for name, own in self._factors.items()})

    def load_state(self, state: EditorState) -> None:
        """Write the merged matrices to the model."""
        for name, matrix in self._matrices.items():
            matrix.write(state.tensors[name])
        kept = {name: own for name, own in state.tensors.items() if name.startswith(_FACTORS)}
        self._factors = {name.removeprefix(_FACTORS): own.clone() for name, own in kept.items()}


def _factors_of(adapted: PeftModel) -> dict[str, torch.Tensor]:
    """A copy of both factors of each adapted module."""
    factors = get_peft_model_state_dict(adapted, save_embedding_layers=False)
    return {name: own.detach().clone() for name, own in factors.items()}
