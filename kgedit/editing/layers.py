"""Which block an editor works on: a number, or a fraction of the depth that carries over to any model."""

from __future__ import annotations

from kgedit.errors import SpecError
from kgedit.llm.language_model import LanguageModel


def choose_layer(model: LanguageModel, *, layer: int | None, depth: float) -> int:
    """Index of a block.

    Args:
        layer: The index itself; None for the block at `depth`.
        depth: Fraction of all blocks, 0 for the lowest, 1 for the highest.

    Raises:
        SpecError: if there is no such block.
    """
    blocks = len(model.blocks)
    if layer is None:
        return min(int(depth * blocks), blocks - 1)
    if layer >= blocks:
        raise SpecError([f"settings.layer: there is no block {layer}; the model has 0 to {blocks - 1}"])
    return layer
