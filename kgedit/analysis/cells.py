"""Cells of a report's tables, kept as values until they are rendered.

A table contains numbers, estimates with intervals, and changes. The terminal and Markdown show them as text, JSON and
CSV as numbers. "–" marks a missing measurement.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from kgedit.records.scores import Score

NOTHING = "–"

Unit = Literal["text", "count", "percent", "points", "plain", "change", "seconds", "rate", "gibibytes", "p"]
"""Format of a column's numbers.

percent: a share, as % with one decimal. points: a difference of shares, in percentage points with its sign. plain: four
significant digits. change: a difference of plain values, with its sign. p: a p-value.
"""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its 95 % interval.

    Attributes:
        mean: The mean.
        low: Lower end of the interval; None means no interval.
        high: Upper end.
        n: Number of answers; None if unknown.
        deviation: Standard deviation over timesteps, weighted by their answers; None if not reported.
    """

    mean: float
    low: float | None = None
    high: float | None = None
    n: int | None = None
    deviation: float | None = None


@dataclass(frozen=True, slots=True)
class MeanChange:
    """A score before any edit and after the edits.

    Attributes:
        before: Mean before any edit; None if not measured.
        after: Mean after the edits; None if not measured.
    """

    before: float | None
    after: Estimate | None


Cell = str | int | float | None | Estimate | MeanChange


def estimate(score: Score | None) -> Estimate | None:
    """Mean of a score with its interval."""
    return None if score is None else Estimate(score.mean, score.low, score.high, score.n)


def mean(score: Score | None) -> float | None:
    """Mean of a score without interval."""
    return None if score is None else score.mean


def change(before: Score | None, after: Score | None) -> MeanChange | None:
    """Change from one score to another; None if neither was measured."""
    return MeanChange(mean(before), estimate(after)) if before or after else None


def count_of(cell: Cell) -> int | None:
    """Number of answers behind an estimate or a change."""
    found = cell.after if isinstance(cell, MeanChange) else cell
    return found.n if isinstance(found, Estimate) else None


def as_text(cell: Cell, unit: Unit, *, with_count: bool = False) -> str:
    """Render a cell as text.

    Args:
        with_count: Whether to append the number of answers.
    """
    match cell:
        case None:
            return NOTHING
        case str():
            return cell
        case MeanChange(before, after):
            return f"{as_text(before, unit)}→{as_text(after, unit, with_count=with_count)}"
        case Estimate(value, low, high, n, deviation):
            spread = "" if deviation is None else f" ±{_number(deviation, unit)}"
            interval = "" if low is None or high is None else f" [{_number(low, unit)}, {_number(high, unit)}]"
            count = f" n={n:,}" if with_count and n is not None else ""
            return f"{_number(value, unit)}{spread}{interval}{count}"
        case _:
            return _number(cell, unit)


def as_values(cell: Cell) -> Any:
    """Convert a cell for JSON: numbers, text, null, or a mapping of these."""
    match cell:
        case MeanChange(before, after):
            return {"before": _rounded(before), "after": as_values(after)}
        case Estimate(value, low, high, n, deviation):
            found = {"mean": _rounded(value), "low": _rounded(low), "high": _rounded(high), "n": n}
            return found if deviation is None else found | {"deviation": _rounded(deviation)}
        case float():
            return _rounded(cell)
        case _:
            return cell


def flattened(cell: Cell) -> dict[str, Any]:
    """Convert a cell for CSV: its values, keyed by the suffix of the column name."""
    match cell:
        case MeanChange(before, after):
            return {" before": _rounded(before), **flattened(after)}
        case Estimate(value, low, high, n, deviation):
            found = {"": _rounded(value), " low": _rounded(low), " high": _rounded(high), " n": n}
            return found if deviation is None else found | {" deviation": _rounded(deviation)}
        case float():
            return {"": _rounded(cell)}
        case _:
            return {"": cell}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


def _number(value: float, unit: Unit) -> str:
    return _WRITERS[unit](value)


def _seconds(value: float) -> str:
    """Three significant digits; values under half a millisecond are shown as zero."""
    if value < 5e-4:
        return "0"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


_WRITERS: dict[Unit, Callable[[float], str]] = {
    "text": "{:,}".format,
    "count": "{:,}".format,
    "percent": lambda value: f"{100 * value:.1f}",
    "points": lambda value: f"{100 * value:+.1f}",
    "plain": lambda value: f"{value:,.0f}" if 1000 <= abs(value) < 1e7 else f"{value:.4g}",
    "change": "{:+.4g}".format,
    "seconds": _seconds,
    "rate": "{:,.1f}".format,
    "gibibytes": "{:,.1f}".format,
    "p": lambda value: "<0.001" if value < 0.001 else f"{value:.3f}",
}
