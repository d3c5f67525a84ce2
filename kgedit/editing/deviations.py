"""Where a method here differs from its paper or its published code; docs/methods.md has them all in one table.

Each family of methods has a `deviations.py` with its declarations, and each editor names its own in its body.
"""

from __future__ import annotations

from dataclasses import dataclass

NOT_MEASURED = "not measured"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """One difference.

    Attributes:
        what: What differs.
        published: As it is in the paper or in its code; which of them, where the two differ.
        ours: As it is here by default.
        why: The reason.
        effect: What the difference was measured to make, with model and data.
    """

    what: str
    published: str
    ours: str
    why: str
    effect: str = NOT_MEASURED


@dataclass(frozen=True, slots=True)
class Deviations:
    """All differences that are known of one method.

    Attributes:
        rows: The differences.
        none_because: Why there are none; "" where there are.

    Raises:
        ValueError: if it has both or neither.
    """

    rows: tuple[Deviation, ...] = ()
    none_because: str = ""

    def __post_init__(self) -> None:
        if bool(self.rows) == bool(self.none_because):
            raise ValueError("give either the deviations or the reason why there are none")
