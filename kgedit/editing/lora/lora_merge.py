"""`lora_merge`: a new adapter per timestep, of which a share is merged into the weights (LoRA-Merge of WikiBigEdit)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from kgedit.editing.editor import NO_RUN, AppliedEdits, Capabilities, Editor, EditorState, RunContext
from kgedit.editing.lora import deviations
from kgedit.editing.lora.adapters import attach, merge, targets_of, train
from kgedit.editing.randomness import seed_for, seeded
from kgedit.editing.training_examples import examples
from kgedit.hparams.lora import LoraMergeSettings
from kgedit.llm.contexts import Context
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.surgery.matrices import EditedMatrix
from kgedit.records.cases import Case


class LoraMerge(Editor[LoraMergeSettings]):
    """Trains a new low-rank adapter on each call and merges a share of it into the weights."""

    capabilities = Capabilities(
        protocols=("per_timestep", "sequential", "single"),
        changes_weights=True,
        source="WikiBigEdit, arXiv 2503.05683 appendix C.4",
    )
    deviations = deviations.LORA_MERGE
    settings_type = LoraMergeSettings

    def __init__(
        self, model: LanguageModel, settings: LoraMergeSettings, *, contexts: Sequence[Context], seed: int
    ) -> None:
        super().__init__(model, settings, contexts=contexts, seed=seed)
        modules = {name: model.module.get_submodule(name) for name in targets_of(model)}
        self._matrices = {name: EditedMatrix(module) for name, module in modules.items()}

    def apply(self, cases: Sequence[Case], run: RunContext = NO_RUN) -> AppliedEdits:
        """Adapt, merge, and interpolate in float32."""
        weights = {name: matrix.editable() for name, matrix in self._matrices.items()}
        before = {name: weight.detach().clone() for name, weight in weights.items()}
        seed = seed_for(self.seed, cases)
        with seeded(seed, self.model.device):
            adapted = attach(self.model, self.settings)
            loss = train(self.model, self.settings, adapted, examples(cases, self.contexts), seed=seed, run=run)
        merge(adapted)
        for name, matrix in self._matrices.items():
            # lerp is exact at both ends: share 0 is the model before, share 1 the adapted one.
            matrix.write(torch.lerp(before[name], matrix.weight.detach(), self.settings.share))
        return AppliedEdits(loss=loss)

    def details(self) -> dict[str, Any]:
        """The adapted modules of the first block."""
        return {"first_modules": list(self.model.blocks[0].query_value)}

    def restore(self) -> None:
        """Restore the model's own matrices."""
        for matrix in self._matrices.values():
            matrix.restore()

    def state(self) -> EditorState:
        """The merged matrices."""
        return EditorState(
            tensors={name: matrix.weight.detach().float().clone() for name, matrix in self._matrices.items()}
        )

    def load_state(self, state: EditorState) -> None:
        """Write the merged matrices into the model."""
        for name, matrix in self._matrices.items():
            matrix.write(state.tensors[name])
