"""Settings of low-rank adapters."""

from __future__ import annotations

from dataclasses import dataclass

from kgedit.hparams.settings import CONTEXT_MEANING, Bounds, setting


@dataclass(frozen=True, slots=True)
class LoraSettings:
    """Hyperparameters of an adapter, by default those of WikiBigEdit, which names no learning rate."""

    rank: int = setting(4, "rank of the adapter", bounds=Bounds(least=1))
    alpha: int = setting(8, "the update is scaled by alpha / rank", bounds=Bounds(least=1))
    dropout: float = setting(0.1, "share of the adapter's inputs dropped in training", bounds=Bounds(least=0, most=0.9))
    epochs: int = setting(10, "times that each edit is seen per call", bounds=Bounds(least=1))
    batch: int = setting(32, "examples per step", bounds=Bounds(least=1))
    learning_rate: float | None = setting(None, "peak, of Adam; None: by width", bounds=Bounds(above=0))
    warmup: float = setting(0.1, "share of the steps in which the rate rises", bounds=Bounds(least=0, most=1))
    context: str = setting("asked", CONTEXT_MEANING)
    learn_end: bool = setting(True, "whether the end of text is part of the target")


@dataclass(frozen=True, slots=True)
class LoraMergeSettings(LoraSettings):
    """Hyperparameters of the adapter and of the merge."""

    share: float = setting(0.25, "W <- (1 - share) W_before + share W_adapted", bounds=Bounds(least=0, most=1))
