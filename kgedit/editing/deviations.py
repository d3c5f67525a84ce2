"""Differences of each method from its paper and published code, read from deviations.yaml.

The table in docs/methods.md is made from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

NOT_MEASURED = "not measured"
_FILE = Path(__file__).with_name("deviations.yaml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """One difference of a method from its paper or published code.

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
            raise ValueError("give either the deviations or the reason for none")


def read_deviations() -> dict[str, Deviations]:
    """Deviations of each of kgedit's methods, by its name; methods of other packages are not included.

    Raises:
        KeyError: if a method lists a row that its family does not have.
    """
    found: dict[str, Deviations] = {}
    families: dict[str, dict[str, Any]] = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
    for family in families.values():
        shared = {name: Deviation(**row) for name, row in family.get("shared", {}).items()}
        found |= {method: _deviations(given, shared) for method, given in family["methods"].items()}
    return found


def _deviations(given: dict[str, str] | list[Any], shared: Mapping[str, Deviation]) -> Deviations:
    """Deviations of a method: a list of rows and names of shared ones, or a mapping with none_because."""
    if isinstance(given, dict):
        return Deviations(none_because=given["none_because"])
    return Deviations(tuple(shared[row] if isinstance(row, str) else Deviation(**row) for row in given))
