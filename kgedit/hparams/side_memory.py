"""Settings of GRACE and WISE."""

from __future__ import annotations

from dataclasses import dataclass

from kgedit.hparams.settings import CONTEXT_MEANING, Bounds, setting


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


@dataclass(frozen=True, slots=True)
class WiseSettings:
    """Hyperparameters of WISE."""

    layer: int | None = setting(
        None,
        "block whose matrix has side copies; None: as published for the model, else by `depth`",
        bounds=Bounds(least=0),
    )
    depth: float = setting(
        0.84, "block as a fraction of all blocks: 26 of 32", bounds=Bounds(least=0, most=1), instead_of="layer"
    )
    steps: int = setting(70, "most steps of gradient descent per edit", bounds=Bounds(least=1))
    learning_rate: float | None = setting(
        None, "of gradient descent; None: as published, else by what the matrix reads", bounds=Bounds(above=0)
    )
    stop_loss: float = setting(1e-2, "an edit is learned at this loss, all margins kept", bounds=Bounds(least=0))
    alpha: float = setting(5.0, "unrelated prompts stir a copy less than this", bounds=Bounds(least=0))
    beta: float = setting(20.0, "edits stir it more than this", bounds=Bounds(least=0))
    gamma: float = setting(10.0, "least difference of the two", bounds=Bounds(least=0))
    unit: float | None = setting(None, "of alpha, beta, gamma; None: by the layer's output", bounds=Bounds(above=0))
    ratio: float = setting(0.88, "threshold as a share of the least stirred edit", bounds=Bounds(above=0))
    share: float = setting(0.2, "entries of the matrix that one copy may change", bounds=Bounds(above=0, most=1))
    shard: int = setting(500, "edits in one copy", bounds=Bounds(least=1))
    merge_every: int = setting(1000, "edits between two merges of all copies", bounds=Bounds(least=1))
    density: float = setting(0.53, "entries of a copy that a merge keeps", bounds=Bounds(above=0, most=1))
    batch: int = setting(1, "edits learned together", bounds=Bounds(least=1))
    context: str = setting("question_only", CONTEXT_MEANING)
    learn_end: bool = setting(False, "whether the end of text is part of the target")
