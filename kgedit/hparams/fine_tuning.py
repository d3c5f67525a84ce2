"""Settings of fine-tuning one MLP matrix."""

from __future__ import annotations

from dataclasses import dataclass

from kgedit.hparams.settings import CONTEXT_MEANING, Bounds, setting


@dataclass(frozen=True, slots=True)
class FineTuningSettings:
    """Hyperparameters of fine-tuning one matrix."""

    layer: int | None = setting(
        None, "block whose matrix is trained; None: as published for the model, else by `depth`", bounds=Bounds(least=0)
    )
    depth: float = setting(
        0.65, "block as a fraction of all blocks: 20 of 32", bounds=Bounds(least=0, most=1), instead_of="layer"
    )
    steps: int = setting(25, "most steps of Adam per call", bounds=Bounds(least=1))
    learning_rate: float | None = setting(
        None, "of Adam, fresh at each call; None: as published, else by width", bounds=Bounds(above=0)
    )
    stop_loss: float = setting(1e-2, "a call ends at this loss", bounds=Bounds(least=0))
    context: str = setting("question_only", CONTEXT_MEANING)
    learn_end: bool = setting(False, "whether the end of text is part of the target")


@dataclass(frozen=True, slots=True)
class FtlSettings(FineTuningSettings):
    """Hyperparameters of FT-L."""

    norm: float | None = setting(
        None,
        "furthest that a weight may move per call; None: as published, else by width, 5e-4 at 6,400 units",
        bounds=Bounds(above=0),
    )


@dataclass(frozen=True, slots=True)
class FtmSettings(FineTuningSettings):
    """Hyperparameters of FT-M."""

    norm: float | None = setting(
        None,
        "furthest that a weight may move per call; None: as published for the model, else any distance",
        bounds=Bounds(above=0),
    )


@dataclass(frozen=True, slots=True)
class LocFtSettings(FineTuningSettings):
    """Hyperparameters of LocFT-BF."""

    depth: float = setting(
        0.69, "block as a fraction of all blocks: 22 of 32", bounds=Bounds(least=0, most=1), instead_of="layer"
    )
    steps: int = setting(25, "most epochs per call", bounds=Bounds(least=1))
    stop_loss: float = setting(
        1e-2, "a step is left out at this loss; a call ends after an epoch of this mean loss", bounds=Bounds(least=0)
    )
    learn_end: bool = setting(True, "whether the end of text is part of the target")
    batch: int = setting(100, "examples per step of Adam", bounds=Bounds(least=1))
