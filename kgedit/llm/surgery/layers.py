"""Selects blocks by index or by fraction of the depth, and the matrices of their MLPs by role.

Lists in settings have the form "4-8", "3,5,7" or "11-15.gate,18-24.up". Does not need torch at run time.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kgedit.errors import SpecError

if TYPE_CHECKING:
    from kgedit.llm.language_model import LanguageModel
    from kgedit.llm.surgery.structure import Linear


@dataclass(frozen=True, slots=True)
class MlpMatrix:
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
        """Unique among the matrices of a model."""
        return f"{self.block}.{self.role}"

    @property
    def module(self) -> Any:
        """The module, for hooks and EditedMatrix."""
        return self.linear.layer

    @property
    def shape(self) -> tuple[int, int]:
        """Inputs and outputs."""
        return self.linear.in_width, self.linear.out_width


def mlp_matrices(model: LanguageModel, blocks: Sequence[int], roles: str) -> list[MlpMatrix]:
    """Return the named matrices of blocks, in execution order.

    Args:
        roles: See MATRICES_MEANING.

    Raises:
        SpecError: if a role is unknown, or the model has none of the matrices.
    """
    return _mlp_matrices(model, {(block, role) for block in blocks for role in parse_roles(roles)})


def choose_matrices(model: LanguageModel, layers: str, matrices: str) -> list[MlpMatrix]:
    """Return the matrices of several blocks, in execution order.

    Args:
        layers: Blocks as 18-26, each with `matrices`; or matrices of blocks as 11-15.gate,18-24.up.
        matrices: See MATRICES_MEANING.

    Raises:
        SpecError: if there are no such blocks or matrices.
    """
    wanted = parse_matrices(layers, matrices)
    check_layers(model, sorted({block for block, _ in wanted}))
    return _mlp_matrices(model, wanted)


def blocks_between(model: LanguageModel, *, first: float, last: float) -> range:
    """Return the blocks between two fractions of the depth, both inclusive.

    Raises:
        SpecError: if `last` is below `first`.
    """
    if last < first:
        raise SpecError(
            [f"settings.last is {last:g}, below settings.first, which is {first:g}"], of="The settings are wrong"
        )
    lowest, highest = (choose_layer(model, layer=None, depth=depth) for depth in (first, last))
    return range(lowest, highest + 1)


def _mlp_matrices(model: LanguageModel, wanted: Collection[tuple[int, str]]) -> list[MlpMatrix]:
    own = [
        MlpMatrix(block, role, linear)
        for block, role in sorted(wanted, key=lambda named: (named[0], ROLES.index(named[1])))
        if (linear := getattr(model.blocks[block], role)) is not None
    ]
    if not own:
        roles = ",".join(sorted({role for _, role in wanted}))
        raise SpecError(
            [f"settings.matrices: this model's MLPs have no {roles}; take up,down"], of="The settings are wrong"
        )
    return own


def choose_layer(model: LanguageModel, *, layer: int | None, depth: float) -> int:
    """Return the index of a block: `layer`, or if that is None the block at a fraction of the depth (0 is the lowest).

    Raises:
        SpecError: if there is no such block.
    """
    blocks = len(model.blocks)
    return min(int(depth * blocks), blocks - 1) if layer is None else check_layer(model, layer)


def check_layer(model: LanguageModel, layer: int) -> int:
    """Return the layer unchanged if it exists.

    Raises:
        SpecError: if the model has no such block.
    """
    if layer >= len(model.blocks):
        raise SpecError(
            [f"settings.layer: there is no block {layer}; the model has 0 to {len(model.blocks) - 1}"],
            of="The settings are wrong",
        )
    return layer


def check_layers(model: LanguageModel, layers: Sequence[int]) -> list[int]:
    """Return the layers unchanged if they exist.

    Raises:
        SpecError: if the list is empty, or the model has no such blocks.
    """
    if not layers or not 0 <= min(layers) <= max(layers) < len(model.blocks):
        raise SpecError(
            [f"settings: the model has blocks 0 to {len(model.blocks) - 1}, not {list(layers)}"],
            of="The settings are wrong",
        )
    return list(layers)


MATRICES_MEANING = "matrices of an edited MLP: up, gate, down, or several as up,down; a gate that is not there is none"


ROLES = ("up", "gate", "down")
"""Matrices of an MLP, in execution order."""


def parse_layers(text: str) -> tuple[int, ...]:
    """Parse layers such as "4-8" or "3,5,7", in ascending order.

    Raises:
        SpecError: if the text is neither, or a range is reversed.
    """
    problem = f"expected layers such as 4-8 or 3,5,7, not '{text}'"
    try:
        ends = [[int(end) for end in part.split("-")] for part in str(text).split(",")]
    except ValueError as error:
        raise SpecError([problem], of="The layers cannot be read") from error
    if any(len(part) > 2 or part[0] > part[-1] for part in ends):
        raise SpecError([problem], of="The layers cannot be read")
    return tuple(sorted({layer for part in ends for layer in range(part[0], part[-1] + 1)}))


def parse_matrices(text: str, matrices: str = "down") -> set[tuple[int, str]]:
    """Parse blocks and roles of matrices from "18-26", each with `matrices`, or from "11-15.gate,18-24.up".

    Raises:
        SpecError: if the text is neither.
    """
    parts = [part.partition(".") for part in str(text).split(",")]
    return {
        (block, role)
        for blocks, _, role_named in parts
        for block in parse_layers(blocks)
        for role in parse_roles(role_named or matrices)
    }


def parse_roles(text: str) -> tuple[str, ...]:
    """Parse roles of matrices such as "up,down".

    Raises:
        SpecError: if one is unknown.
    """
    roles = tuple(role.strip() for role in text.split(","))
    if not set(roles) <= set(ROLES):
        raise SpecError([f"expected up, gate, down, or several as up,down; not '{text}'"], of="The matrices are wrong")
    return roles
