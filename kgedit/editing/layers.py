"""What an editor works on: blocks by number or by fraction of the depth, and the matrices of their MLPs by role."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kgedit.errors import SpecError
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.structure import Linear

MATRICES_MEANING = "matrices of an edited MLP: up, gate, down, or several as up,down; a gate that is not there is none"


@dataclass(frozen=True, slots=True)
class Place:
    """One linear layer of one block's MLP.

    Attributes:
        block: Index of the block.
        role: "up", "gate" or "down".
        linear: The layer.
    """

    block: int
    role: str
    linear: Linear

    @property
    def name(self) -> str:
        """Unique among the places of a model."""
        return f"{self.block}.{self.role}"

    @property
    def module(self) -> Any:
        """The module, for hooks and EditedMatrix."""
        return self.linear.layer

    @property
    def shape(self) -> tuple[int, int]:
        """Inputs and outputs."""
        return self.linear.in_width, self.linear.out_width


def mlp_places(model: LanguageModel, blocks: Sequence[int], roles: str) -> list[Place]:
    """The named matrices of some blocks, block by block in the order given, in the order in which they run.

    Args:
        roles: As MATRICES_MEANING says.

    Raises:
        SpecError: if a role is unknown, or none of them is there.
    """
    wanted = {role.strip() for role in roles.split(",")}
    if not wanted <= {"up", "gate", "down"}:
        raise SpecError([f"settings.matrices: expected up, gate, down, or several as up,down; not '{roles}'"])
    own = [
        Place(block, role, linear)
        for block in blocks
        for role in ("up", "gate", "down")
        if role in wanted and (linear := getattr(model.blocks[block], role)) is not None
    ]
    if not own:
        raise SpecError([f"settings.matrices: this model's MLPs have no {roles}; take up,down"])
    return own


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
