"""Which block an editor works on: a number, or a fraction of the depth that carries over to any model."""

from __future__ import annotations

from collections.abc import Sequence

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


def choose_layers(model: LanguageModel, *, layers: str | None, first: float, last: float) -> list[int]:
    """Indexes of several blocks, rising.

    Args:
        layers: As `parse_layers` takes them; None for those from one fraction of the depth to another, both included.
        first: Fraction of all blocks at which the lowest lies.
        last: Fraction at which the highest lies.

    Raises:
        SpecError: if there are no such blocks, or `last` lies below `first`.
    """
    if layers is not None:
        return check_layers(model, parse_layers(layers))
    if last < first:
        raise SpecError([f"settings.last is {last:g}, below settings.first, which is {first:g}"])
    lowest, highest = (choose_layer(model, layer=None, depth=depth) for depth in (first, last))
    return list(range(lowest, highest + 1))


def check_layers(model: LanguageModel, layers: Sequence[int]) -> list[int]:
    """The same layers.

    Raises:
        SpecError: if there are none, or the model has no such blocks.
    """
    if not layers or not 0 <= min(layers) <= max(layers) < len(model.blocks):
        raise SpecError([f"settings: the model has blocks 0 to {len(model.blocks) - 1}, not {list(layers)}"])
    return list(layers)


def parse_layers(text: str) -> tuple[int, ...]:
    """Layers as "4-8" or "3,5,7", rising.

    Raises:
        SpecError: if the text is neither.
    """
    try:
        ends = [[int(end) for end in part.split("-")] for part in str(text).split(",")]
        return tuple(sorted({layer for part in ends for layer in range(part[0], part[-1] + 1)}))
    except ValueError as error:
        raise SpecError([f"settings.layers: expected layers such as 4-8 or 3,5,7, not '{text}'"]) from error
