"""Differences of methods from their papers or published code; docs/methods.md lists all of them in one table.

Each family of methods has a `deviations.py` with its declarations, and each editor class refers to its own.
"""

from __future__ import annotations

from dataclasses import dataclass

NOT_MEASURED = "not measured"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """One difference.

    Attributes:
        what: What differs.
        published: Behaviour in the paper or its code; names which of them if the two differ.
        ours: Default behaviour here.
        why: The reason.
        effect: Measured effect of the difference, with model and data.
    """

    what: str
    published: str
    ours: str
    why: str
    effect: str = NOT_MEASURED


@dataclass(frozen=True, slots=True)
class Deviations:
    """All known differences of one method.

    Attributes:
        rows: The differences.
        none_because: Reason why there are none; "" if there are any.

    Raises:
        ValueError: if both or neither are given.
    """

    rows: tuple[Deviation, ...] = ()
    none_because: str = ""

    def __post_init__(self) -> None:
        if bool(self.rows) == bool(self.none_because):
            raise ValueError("give either the deviations or the reason why there are none")
