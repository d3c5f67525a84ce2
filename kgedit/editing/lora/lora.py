"""`lora`: one low-rank adapter, trained further in each timestep (LoRA-FT of WikiBigEdit)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from peft import PeftModel, get_peft_model_state_dict, set_peft_model_state_dict

from kgedit.editing.editor import NO_RUN, AppliedEdits, Capabilities, Editor, EditorState, RunContext
from kgedit.editing.lora import deviations
from kgedit.editing.lora.adapters import attach, detach, train
from kgedit.editing.randomness import seed_for, seeded
from kgedit.editing.training_examples import examples
from kgedit.hparams.lora import LoraSettings
from kgedit.llm.contexts import Context
from kgedit.llm.language_model import LanguageModel
from kgedit.records.cases import Case


class LoraFineTuning(Editor[LoraSettings]):
    """Adds one low-rank adapter to the query and value projections and trains it further on each call."""

    capabilities = Capabilities(
        protocols=("per_timestep", "sequential", "single"),
        adds_modules=True,
        source="WikiBigEdit, arXiv 2503.05683 appendix C.4; LoRA, arXiv 2106.09685",
    )
    deviations = deviations.LORA
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
