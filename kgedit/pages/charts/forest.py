"""Forest chart: estimates with their intervals, one row per method, for the comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kgedit.analysis.cells import Estimate
from kgedit.pages.charts.scales import Scale, estimate_text, percent, same_count
from kgedit.pages.marks import Drawing, Mark, dot, line, rect, ring, shortened, text

_ROW = 26
_NAMES = 116
_NUMBERS = 92


@dataclass(frozen=True, slots=True)
class ForestRow:
    """One method on one axis.

    Attributes:
        name: Name of the method.
        before: Share before any edit.
        free: Share after the edits, with free decoding.
        forced: Share after the edits, under teacher forcing.
        role: Colour of the free estimate.
    """

    name: str
    before: float | None
    free: Estimate | None
    forced: Estimate | None
    role: str = "free"


def interval_strip(row: ForestRow, *, width: float = 104, height: float = 12) -> Drawing:
    """The estimate of one row without labels, for the cell of a table."""
    marks = _interval(row, Scale(0, 1, 4, width - 4), height / 2)
    return Drawing(width, height, f"{row.name}: {_row_text(row)}", tuple(marks))


def forest(title: str, rows: Sequence[ForestRow], *, width: float = 400) -> Drawing:
    """Rows stacked on an axis from 0 to 100 %."""
    scale = Scale(0, 1, _NAMES, width - _NUMBERS)
    top, height = 40.0, 40 + _ROW * len(rows) + 22
    marks: list[Mark] = [text(0, 14, title, size=13, fill="ink", bold=True)]
    marks.append(text(width, 14, same_count([row.free or row.forced for row in rows]), size=11, anchor="end"))
    for value in (0.0, 0.25, 0.5, 0.75, 1.0):
        marks.append(line(scale(value), top - 8, scale(value), height - 20, stroke="line"))
        marks.append(text(scale(value), height - 6, f"{100 * value:.0f}", size=11, fill="muted", anchor="middle"))
    for index, row in enumerate(rows):
        y = top + _ROW * index + 6
        marks.append(text(0, y + 4, shortened(row.name, _NAMES - 10), tooltip=row.name, fill="ink"))
        marks += _interval(row, scale, y, axis=False)
        marks.append(text(width, y + 4, _short(row.free or row.forced), size=11, anchor="end"))
    return Drawing(
        width, height, f"{title}. " + "; ".join(f"{row.name}: {_row_text(row)}" for row in rows), tuple(marks)
    )


def _interval(row: ForestRow, scale: Scale, y: float, *, axis: bool = True) -> list[Mark]:
    marks = [line(scale(0), y, scale(1), y, stroke="line2")] if axis else []
    if row.free and row.free.low is not None and row.free.high is not None:
        low, high = scale(row.free.low), scale(row.free.high)
        marks.append(rect(low, y - 2.5, max(high - low, 1), 5, fill=row.role, opacity=0.35, radius=1.5))
    if row.before is not None:
        marks.append(line(scale(row.before), y - 5, scale(row.before), y + 5, stroke="before", width=1.5))
    if row.forced:
        marks.append(
            ring(scale(row.forced.mean), y, stroke="forced", radius=3.4, tooltip=f"forced: {estimate_text(row.forced)}")
        )
    if row.free:
        marks.append(dot(scale(row.free.mean), y, fill=row.role, radius=3.2, tooltip=estimate_text(row.free)))
    return marks


def _short(estimate: Estimate | None) -> str:
    if estimate is None:
        return "–"
    ends = (estimate.low, estimate.high)
    interval = "" if None in ends else f" [{'–'.join(f'{100 * end:.0f}' for end in ends if end is not None)}]"
    return f"{percent(estimate.mean, n=estimate.n)}{interval}"


def _row_text(row: ForestRow) -> str:
    parts = [f"{estimate_text(row.free)}"] if row.free else []
    parts += [f"teacher forcing {estimate_text(row.forced)}"] if row.forced else []
    return ", ".join(parts) or "not asked"
