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


def choose_layers(model: LanguageModel, *, first: float, last: float) -> list[int]:
    """Indexes of the blocks from one fraction of the depth to another, both included.

    Raises:
        SpecError: if `last` lies below `first`.
    """
    if last < first:
        raise SpecError([f"settings.last is {last:g}, below settings.first, which is {first:g}"])
    lowest, highest = (choose_layer(model, layer=None, depth=depth) for depth in (first, last))
    return list(range(lowest, highest + 1))
