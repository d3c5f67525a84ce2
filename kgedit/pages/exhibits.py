"""Shared parts of a report's figures: names of axes, and a figure with the tables of its numbers."""

from __future__ import annotations

from dataclasses import dataclass

from kgedit.analysis.tables import Table
from kgedit.pages.marks import Figure
from kgedit.records.cases import Axis

AXIS_NAMES: dict[Axis, str] = {
    "update": "Update",
    "rephrase": "Rephrase",
    "personas": "Personas",
    "alias": "Alias",
    "mhop": "Two hops",
    "mhop_rephrase": "Two hops, rephrased",
    "hop": "Single hops of chains",
    "consequence": "Consequence",
    "locality": "Locality",
    "random_locality": "Random neighbours",
}
"""Axis -> name in headings."""

ASKED_AXES: tuple[Axis, ...] = (
    *("update", "rephrase", "personas", "alias"),
    *("mhop", "mhop_rephrase", "hop", "consequence"),
)
"""Axes on which an edit should have an effect; on locality it should have none."""


@dataclass(frozen=True, slots=True)
class Exhibit:
    """A figure with the tables of its numbers.

    Attributes:
        section: Section of the page.
        figure: The drawing.
        tables: Tables of the report that contain the same numbers.
        choice: Name in the section's list of choices; "" if the section shows all its figures.
    """

    section: str
    figure: Figure
    tables: tuple[Table, ...] = ()
    choice: str = ""


def in_days(timestep: str) -> str:
    """A timestep's name as two dates; other names unchanged."""
    parts = timestep.split("_")[:2]
    return " → ".join(f"{p[:4]}-{p[4:6]}-{p[6:]}" if len(p) == 8 and p.isdigit() else p for p in parts)
