"""Settings of MEND and UltraEdit."""

from __future__ import annotations

from dataclasses import dataclass

from kgedit.hparams.settings import CONTEXT_MEANING, Bounds, setting
from kgedit.llm.surgery.layer_lists import MATRICES_MEANING, parse_matrices, parse_roles


@dataclass(frozen=True, slots=True)
class MendSettings:
    """Hyperparameters of MEND."""

    blocks: int = setting(3, "last blocks whose matrices are edited", bounds=Bounds(least=1))
    matrices: str = setting("up,down", MATRICES_MEANING, read_by=parse_roles)
    rank: int = setting(256, "of the network's two layers", bounds=Bounds(least=1))
    edit_rate: float = setting(1e-4, "learning rate of an edit before training", bounds=Bounds(above=0))
    network: str = setting("", "file of a trained network; empty: train one")
    train_steps: int = setting(300, "edits that the network learns from", bounds=Bounds(least=0))
    learning_rate: float = setting(3e-4, "of Adam on the network", bounds=Bounds(above=0))
    rate_speed: float = setting(0.03, "of Adam on the logarithms of the edit rates", bounds=Bounds(above=0))
    edit_weight: float = setting(0.1, "of the answer's loss beside the divergence", bounds=Bounds(above=0))
    context: str = setting("question_only", CONTEXT_MEANING)
    learn_end: bool = setting(False, "whether the end of text is part of the target")


@dataclass(frozen=True, slots=True)
class UltraEditSettings:
    """Hyperparameters of UltraEdit."""

    layers: str | None = setting(
        None,
        "edited blocks as 18-26, or matrices of blocks as 11-15.gate,18-24.up; "
        "None: as published for the model, else from `first` to `last`",
        read_by=parse_matrices,
    )
    first: float = setting(
        0.6, "lowest edited block as a fraction of all", bounds=Bounds(least=0, most=1), instead_of="layers"
    )
    last: float = setting(
        0.9, "highest edited block as a fraction of all", bounds=Bounds(least=0, most=1), instead_of="layers"
    )
    matrices: str = setting("down", MATRICES_MEANING, read_by=parse_roles)
    learning_rate: float | None = setting(
        None, "scale of the values; None: as published, else by width", bounds=Bounds(above=0)
    )
    batch: int = setting(100, "edits per backward pass and solve", bounds=Bounds(least=1))
    warm_up: int = setting(0, "known facts that the statistics see before the first edit", bounds=Bounds(least=0))
    context: str = setting("question_only", CONTEXT_MEANING)
    learn_end: bool = setting(False, "whether the end of text is part of the target")
