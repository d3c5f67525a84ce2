"""Parses blocks and MLP matrices in settings: "4-8", "3,5,7", "11-15.gate,18-24.up". Does not need torch."""

from __future__ import annotations

from kgedit.errors import SpecError

MATRICES_MEANING = "matrices of an edited MLP: up, gate, down, or several as up,down; a gate that is not there is none"

ROLES = ("up", "gate", "down")
"""Matrices of an MLP, in execution order."""


def parse_layers(text: str) -> tuple[int, ...]:
    """Parse layers such as "4-8" or "3,5,7", in ascending order.

    Raises:
        SpecError: if the text is neither.
    """
    try:
        ends = [[int(end) for end in part.split("-")] for part in str(text).split(",")]
        return tuple(sorted({layer for part in ends for layer in range(part[0], part[-1] + 1)}))
    except ValueError as error:
        raise SpecError([f"expected layers such as 4-8 or 3,5,7, not '{text}'"]) from error


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
        raise SpecError([f"expected up, gate, down, or several as up,down; not '{text}'"])
    return roles
