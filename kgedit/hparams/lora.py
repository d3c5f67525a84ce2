"""Settings of low-rank adapters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from kgedit.hparams.settings import Settings, setting
from kgedit.records.runs import Setting

if TYPE_CHECKING:
    from kgedit.llm.language_model import LanguageModel


class LoraSettings(Settings):
    """Hyperparameters of an adapter; defaults as in WikiBigEdit, which does not state a learning rate."""

    rank: int = setting("rank of the adapter", default=4, ge=1)
    alpha: int = setting("scale of the update, as alpha / rank", default=8, ge=1)
    dropout: float = setting("share of the adapter's inputs dropped in training", default=0.1, ge=0, le=0.9)
    epochs: int = setting("epochs over the edits of a call", default=10, ge=1)
    batch: int = setting("examples per step", default=32, ge=1)
    least_steps: int = setting(
        "minimum steps of Adam per call; few edits are split into smaller batches; 0: as published",
        default=100,
        ge=0,
    )
    shuffle: bool = setting("whether the examples are shuffled in each epoch", default=True)
    learning_rate: float = setting("peak learning rate of Adam", derived="by width", gt=0)
    warmup: float = setting("share of the steps in which the learning rate rises", default=0.1, ge=0, le=1)
    recompute: bool = setting(
        "whether blocks are recomputed in the backward pass instead of stored: less memory, a third more time",
        default=False,
    )
    learn_end: bool = setting("whether the end of text is part of the target", default=True)

    @classmethod
    def derive(cls, model: LanguageModel, known: Mapping[str, Any]) -> dict[str, Setting]:  # noqa: ARG003
        """Learning rate of 1e-3 from width 4,096 up, and proportionally higher below, up to 1e-2.

        (SmolLM2-135M, width 576, 10 edits: teacher-forced 0.29 at 2e-3, 0.61 at 1e-2. `tiny`, width 128, 131 edits
        merged: locality falls from 88 % to 76 % at 1e-2 and to nothing at 3.2e-2.)
        """
        width = model.module.config.get_text_config().hidden_size
        return {"learning_rate": min(1e-2, 1e-3 * max(1.0, 4096 / width))}


class LoraMergeSettings(LoraSettings):
    """Hyperparameters of the adapter and of the merge."""

    share: float = setting(
        "1 - alpha: weight of what was just trained; before is weighted alpha", default=0.25, ge=0, le=1
    )
    into: Literal["weights", "adapter"] = setting(
        "what is interpolated: the model's matrices, with a new adapter for each call (WikiBigEdit, appendix C.4); or "
        "the two factors of one adapter that is trained on, with those before the call (section 4.4)",
        default="weights",
    )
