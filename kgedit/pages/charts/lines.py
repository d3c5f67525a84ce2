"""Charts of points and lines: values over timesteps or years, values with intervals, two values against each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kgedit.analysis.tables import Estimate
from kgedit.pages.charts import PANEL_WIDTH, Scale, common_top, estimate_text, percent, same_count, ticks
from kgedit.pages.marks import Drawing, Mark, dot, line, polyline, rect, ring, shortened, spread, text

_HEIGHT = 230
_SLOPES_LEFT, _SLOPES_RIGHT = 52, 172


@dataclass(frozen=True, slots=True)
class Slope:
    """One method under two evaluations.

    Attributes:
        name: Name of the method.
        forced: Score under teacher forcing.
        free: Score with free decoding.
        is_baseline: Whether it is the unedited model.
    """

    name: str
    forced: Estimate
    free: Estimate
    is_baseline: bool = False


def slopes(title: str, pairs: Sequence[Slope], *, top: float = 1.0) -> Drawing:
    """One panel: score under teacher forcing on the left, with free decoding on the right.

    Args:
        top: Upper end of the axis.
    """
    scale = Scale(0, top, _HEIGHT - 20, 50)
    left, right = float(_SLOPES_LEFT), PANEL_WIDTH - _SLOPES_RIGHT
    marks: list[Mark] = [text(0, 14, title, size=13, fill="ink", bold=True)]
    marks.append(text(PANEL_WIDTH, 14, same_count([pair.free for pair in pairs]), size=11, anchor="end"))
    marks.append(text(left, 34, "teacher forcing", size=11, fill="forced-text", anchor="middle"))
    marks.append(text(right, 34, "free", size=11, fill="free-text", anchor="middle"))
    for value in ticks(0, top, most=5):
        marks.append(line(left, scale(value), right, scale(value), stroke="line"))
        marks.append(text(left - 10, scale(value) + 4, f"{100 * value:.0f}", size=11, fill="muted", anchor="end"))
    places = spread([scale(pair.free.mean) for pair in pairs], gap=15, low=44, high=_HEIGHT - 8)
    for pair, y in zip(pairs, places, strict=True):
        marks += _slope(pair, scale, left, right, y)
    words = "; ".join(
        f"{pair.name}: forced {estimate_text(pair.forced)}, free {estimate_text(pair.free)}" for pair in pairs
    )
    return Drawing(PANEL_WIDTH, _HEIGHT, f"{title}. {words}", tuple(marks))


def _slope(pair: Slope, scale: Scale, left: float, right: float, label_y: float) -> list[Mark]:
    forced, free = scale(pair.forced.mean), scale(pair.free.mean)
    stroke = "before" if pair.is_baseline else "muted"
    words = f"{pair.name}: teacher forcing {estimate_text(pair.forced)}; free {estimate_text(pair.free)}"
    number = percent(pair.free.mean, n=pair.free.n)
    label = shortened(pair.name, PANEL_WIDTH - right - 60)
    return [
        line(left, forced, right, free, stroke=stroke, width=1.4, dash="4 3" if pair.is_baseline else ""),
        ring(left, forced, stroke="before" if pair.is_baseline else "forced", tooltip=words),
        dot(right, free, fill="before" if pair.is_baseline else "free", tooltip=words),
        line(right + 6, free, right + 14, label_y, stroke="line2", width=0.8),
        text(right + 48, label_y + 4, number, size=12, fill="ink", anchor="end", bold=True),
        text(right + 54, label_y + 4, label, size=12, fill="muted" if pair.is_baseline else "ink2", tooltip=words),
    ]


_CURVES_LEFT, _CURVES_LABELS = 40, 120
_DASHES = ("", "7 3", "2 3", "9 3 2 3")  # to follow a line through others; labels are at the ends


@dataclass(frozen=True, slots=True)
class Curve:
    """One method.

    Attributes:
        name: Name of the method.
        points: Number of edits and the score after them, in the order of edits.
    """

    name: str
    points: tuple[tuple[int, Estimate], ...]


def curves(title: str, lines: Sequence[Curve], *, role: str, top: float = 1.0) -> Drawing:
    """One panel: edits to the right, a share upwards.

    Args:
        role: Colour of all lines.
        top: Upper end of the axis, at which intervals are clipped.
    """
    most = max(edits for curve in lines for edits, _ in curve.points)
    x, y = Scale(0, max(most, 1), _CURVES_LEFT, PANEL_WIDTH - _CURVES_LABELS), Scale(0, top, _HEIGHT - 36, 34)
    marks: list[Mark] = [text(0, 14, title, size=13, fill="ink", bold=True)]
    for share in ticks(0, top, most=5):
        marks.append(line(_CURVES_LEFT, y(share), PANEL_WIDTH - _CURVES_LABELS, y(share), stroke="line"))
        marks.append(text(_CURVES_LEFT - 8, y(share) + 4, f"{100 * share:.0f}", size=11, fill="muted", anchor="end"))
    for edits in ticks(0, most, most=4):
        marks.append(text(x(edits), _HEIGHT - 20, f"{edits:,.0f}", size=11, fill="muted", anchor="middle"))
    marks.append(text(PANEL_WIDTH - _CURVES_LABELS, _HEIGHT - 4, "edits", size=11, fill="muted", anchor="end"))
    places = spread([y(curve.points[-1][1].mean) for curve in lines], gap=15, low=34, high=_HEIGHT - 30)
    for index, (curve, label_y) in enumerate(zip(lines, places, strict=True)):
        marks += _curve(curve, x, y, role, label_y, _DASHES[index % len(_DASHES)])
    words = "; ".join(
        f"{curve.name}: " + ", ".join(f"after {edits:,} edits {estimate_text(found)}" for edits, found in curve.points)
        for curve in lines
    )
    return Drawing(PANEL_WIDTH, _HEIGHT, f"{title}. {words}", tuple(marks))


def _curve(curve: Curve, x: Scale, y: Scale, role: str, label_y: float, dash: str) -> list[Mark]:
    marks: list[Mark] = []
    for edits, found in curve.points:
        if found.low is not None and found.high is not None:
            marks.append(
                rect(x(edits) - 0.6, y(found.high), 1.2, y(found.low) - y(found.high), fill=role, opacity=0.35)
            )
    marks.append(polyline([(x(edits), y(found.mean)) for edits, found in curve.points], stroke=role, dash=dash))
    for edits, found in curve.points:
        tooltip = f"{curve.name}, {edits:,} edits: {estimate_text(found)}"
        marks.append(dot(x(edits), y(found.mean), fill=role, radius=3, tooltip=tooltip))
    last_edits, last = curve.points[-1]
    start = PANEL_WIDTH - _CURVES_LABELS + 10
    marks.append(line(x(last_edits) + 5, y(last.mean), start - 2, label_y, stroke="line2", width=0.7))
    marks.append(text(start + 34, label_y + 4, percent(last.mean, n=last.n), fill="ink", anchor="end", bold=True))
    marks.append(text(start + 40, label_y + 4, shortened(curve.name, _CURVES_LABELS - 50), tooltip=curve.name))
    return marks


_DOTS_HEIGHT, _DOTS_LEFT, _DOTS_RIGHT = 250.0, 40.0, 8.0
_DOTS_TOP, _DOTS_BOTTOM = 46.0, _DOTS_HEIGHT - 24
_SMALLEST, _LARGEST = 2.5, 7.0
"""Radii: the area of a dot grows with its number of cases, and a single case is still seen."""


def year_dots(
    title: str,
    years: Sequence[tuple[int, Estimate]],
    *,
    role: str,
    cutoff: str | None = None,
    sides: tuple[Estimate | None, Estimate | None] = (None, None),
) -> Drawing:
    """One dot per year with its 95 % interval; its size grows with the number of answers.

    Args:
        years: Years in order, at least one.
        role: Colour of the dots.
        cutoff: Month as YYYY-MM, drawn as a dashed line; None draws no line.
        sides: Means of the facts before and after the cutoff, drawn as levels with their intervals.
    """
    first, last = years[0][0], years[-1][0]
    at = int(cutoff[:4]) + int(cutoff[5:7]) / 12 if cutoff else None  # the end of the month
    low, high = (min(first, math.floor(at)), max(last + 1, math.ceil(at))) if at is not None else (first, last + 1)
    x = Scale(low, high, _DOTS_LEFT, PANEL_WIDTH - _DOTS_RIGHT)
    levels = [found.high or found.mean for found in sides if found]
    top = common_top([found.mean for _, found in years] + levels)
    y = Scale(0, top, _DOTS_BOTTOM, _DOTS_TOP)
    marks: list[Mark] = [text(0, 14, title, size=13, fill="ink", bold=True)]
    for share in ticks(0, top, most=5):
        marks.append(line(_DOTS_LEFT, y(share), PANEL_WIDTH - _DOTS_RIGHT, y(share), stroke="line"))
        marks.append(text(_DOTS_LEFT - 8, y(share) + 4, f"{100 * share:.0f}", size=11, fill="muted", anchor="end"))
    for year in ticks(low, high - 1, most=6):
        if year == int(year):
            marks.append(text(x(year + 0.5), _DOTS_HEIGHT - 8, f"{year:.0f}", size=11, fill="muted", anchor="middle"))
    if at is not None:
        marks += _levels(x, y, at, sides)
        marks.append(line(x(at), _DOTS_TOP - 12, x(at), _DOTS_BOTTOM, stroke="ink2", dash="4 3"))
        left_of_it = x(at) > PANEL_WIDTH / 2
        beside = x(at) - 5 if left_of_it else x(at) + 5
        marks.append(text(beside, _DOTS_TOP - 6, f"cutoff {cutoff}", size=11, anchor="end" if left_of_it else "start"))
    most = max(found.n or 1 for _, found in years)
    for year, found in years:
        if found.low is not None and found.high is not None:
            tall = y(found.low) - y(found.high)
            marks.append(rect(x(year + 0.5) - 0.6, y(found.high), 1.2, tall, fill=role, opacity=0.35))
        radius = max(_SMALLEST, _LARGEST * math.sqrt((found.n or 1) / most))
        marks.append(
            dot(x(year + 0.5), y(found.mean), fill=role, radius=radius, tooltip=f"{year}: {estimate_text(found)}")
        )
    words = "; ".join(f"{year} {estimate_text(found)}" for year, found in years)
    cutoff_text = (
        f" Cutoff {cutoff}: up to it {estimate_text(sides[0])}, later {estimate_text(sides[1])}." if cutoff else ""
    )
    return Drawing(PANEL_WIDTH, _DOTS_HEIGHT, f"{title}. {words}.{cutoff_text}", tuple(marks))


def _levels(x: Scale, y: Scale, at: float, sides: tuple[Estimate | None, Estimate | None]) -> list[Mark]:
    marks: list[Mark] = []
    for found, start, end in zip(sides, (x.low, at), (at, x.high), strict=True):
        if found is None:
            continue
        if found.low is not None and found.high is not None:
            wide, tall = x(end) - x(start), y(found.low) - y(found.high)
            marks.append(
                rect(x(start), y(found.high), wide, tall, fill="before", opacity=0.15, tooltip=estimate_text(found))
            )
        marks.append(line(x(start), y(found.mean), x(end), y(found.mean), stroke="before", width=2))
        marks.append(
            text(x(end) - 4, y(found.mean) - 5, percent(found.mean, n=found.n), size=11, anchor="end", bold=True)
        )
    return marks


_FOREST_ROW = 26
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
    top, height = 40.0, 40 + _FOREST_ROW * len(rows) + 22
    marks: list[Mark] = [text(0, 14, title, size=13, fill="ink", bold=True)]
    marks.append(text(PANEL_WIDTH, 14, same_count([row.free or row.forced for row in rows]), size=11, anchor="end"))
    for value in (0.0, 0.25, 0.5, 0.75, 1.0):
        marks.append(line(scale(value), top - 8, scale(value), height - 20, stroke="line"))
        marks.append(text(scale(value), height - 6, f"{100 * value:.0f}", size=11, fill="muted", anchor="middle"))
    for index, row in enumerate(rows):
        y = top + _FOREST_ROW * index + 6
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
            text(
                _LEFT - 8,
                y(value) + 4,
                f"{100 * value:+.0f}" if value else "0",
                size=11,
                fill="muted",
                anchor="end",
            )
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
