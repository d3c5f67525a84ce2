"""Charts of points: values with their intervals, one row each, and two values against each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kgedit.analysis.tables import Estimate
from kgedit.pages.charts.scales import PANEL_WIDTH, Scale, estimate_text, percent, same_count, ticks
from kgedit.pages.marks import Drawing, Mark, dot, line, rect, ring, shortened, spread, text

_ROW = 26
_STRIP_HEIGHT = 12
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


def interval_strip(row: ForestRow, *, width: float = 104) -> Drawing:
    """The estimate of one row without labels, for the cell of a table."""
    marks = _interval(row, Scale(0, 1, 4, width - 4), _STRIP_HEIGHT / 2)
    return Drawing(width, _STRIP_HEIGHT, f"{row.name}: {_row_text(row)}", tuple(marks))


def forest(title: str, rows: Sequence[ForestRow]) -> Drawing:
    """Rows stacked on an axis from 0 to 100 %."""
    scale = Scale(0, 1, _NAMES, PANEL_WIDTH - _NUMBERS)
    top, height = 40.0, 40 + _ROW * len(rows) + 22
    marks: list[Mark] = [text(0, 14, title, size=13, fill="ink", bold=True)]
    marks.append(text(PANEL_WIDTH, 14, same_count([row.free or row.forced for row in rows]), size=11, anchor="end"))
    for value in (0.0, 0.25, 0.5, 0.75, 1.0):
        marks.append(line(scale(value), top - 8, scale(value), height - 20, stroke="line"))
        marks.append(text(scale(value), height - 6, f"{100 * value:.0f}", size=11, fill="muted", anchor="middle"))
    for index, row in enumerate(rows):
        y = top + _ROW * index + 6
        marks.append(text(0, y + 4, shortened(row.name, _NAMES - 10), tooltip=row.name, fill="ink"))
        marks += _interval(row, scale, y, axis=False)
        marks.append(text(PANEL_WIDTH, y + 4, _short(row.free or row.forced), size=11, anchor="end"))
    return Drawing(
        PANEL_WIDTH, height, f"{title}. " + "; ".join(f"{row.name}: {_row_text(row)}" for row in rows), tuple(marks)
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


_LEFT, _TOP, _BOTTOM = 44, 40, 40


@dataclass(frozen=True, slots=True)
class Tradeoff:
    """One method.

    Attributes:
        name: Name of the method.
        gain: Update score directly after the edits minus that directly before, in [-1, 1].
        damage: Share of unrelated answers that changed, in [0, 1].
        is_baseline: Whether it is the unedited model.
    """

    name: str
    gain: Estimate
    damage: Estimate
    is_baseline: bool = False


def tradeoffs(title: str, points: Sequence[Tradeoff], *, width: float = 820, height: float = 330) -> Drawing:
    """Gain upwards, damage to the right, so better is up and left. Crosses are 95 % intervals."""
    lowest = min([0.0, *(_low(point.gain) for point in points)])
    highest = max([0.1, *(_high(point.gain) for point in points)])
    label_room = 190.0 if width > 600 else 104.0
    x = Scale(0, 1, _LEFT, width - label_room)
    y = Scale(lowest, min(1.0, highest * 1.05), height - _BOTTOM, _TOP)
    marks = [text(0, 14, title, size=13, fill="ink", bold=True), *_axes(x, y, width - label_room, height)]
    places = spread([y(point.gain.mean) - 8 for point in points], gap=15, low=_TOP, high=height - _BOTTOM - 4)
    for point, label_y in zip(points, places, strict=True):
        marks += _point(point, x, y, label_y, label_room)
    words = "; ".join(
        f"{point.name}: gain {estimate_text(point.gain)}, damage {estimate_text(point.damage)}" for point in points
    )
    return Drawing(width, height, f"{title}. {words}", tuple(marks))


def _axes(x: Scale, y: Scale, right: float, height: float) -> list[Mark]:
    marks = []
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        marks.append(line(x(share), _TOP, x(share), height - _BOTTOM, stroke="line"))
        marks.append(
            text(x(share), height - _BOTTOM + 16, f"{100 * share:.0f}", size=11, fill="muted", anchor="middle")
        )
    for value in ticks(y.low, y.high, most=5):
        marks.append(line(_LEFT, y(value), right, y(value), stroke="line"))
        marks.append(
            text(_LEFT - 8, y(value) + 4, f"{100 * value:+.0f}" if value else "0", size=11, fill="muted", anchor="end")
        )
    marks.append(text(_LEFT, 32, "gain on updates, points", size=11, fill="free-text"))
    marks.append(text(right, height - 8, "unrelated answers changed, %", size=11, fill="bad-text", anchor="end"))
    return marks


def _point(point: Tradeoff, x: Scale, y: Scale, label_y: float, room: float) -> list[Mark]:
    across, up = x(point.damage.mean), y(point.gain.mean)
    label_x = across + 12
    role = "before" if point.is_baseline else "free"
    words = f"{point.name}: gain {estimate_text(point.gain)}; unrelated answers changed {estimate_text(point.damage)}"
    return [
        line(x(_low(point.damage)), up, x(_high(point.damage)), up, stroke=role, width=1.2),
        line(across, y(_low(point.gain)), across, y(_high(point.gain)), stroke=role, width=1.2),
        line(across, up, label_x - 3, label_y, stroke="line2", width=0.7),
        dot(across, up, fill=role, radius=4.5, tooltip=words),
        text(
            label_x,
            label_y + 4,
            shortened(point.name, room - 20),
            fill="muted" if point.is_baseline else "ink",
            tooltip=words,
        ),
    ]


def _low(estimate: Estimate) -> float:
    return estimate.mean if estimate.low is None else estimate.low


def _high(estimate: Estimate) -> float:
    return estimate.mean if estimate.high is None else estimate.high
