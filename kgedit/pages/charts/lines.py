"""Line charts: values over timesteps, and over the years of facts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kgedit.analysis.tables import Estimate
from kgedit.pages.charts.scales import PANEL_WIDTH, Scale, common_top, estimate_text, percent, same_count, ticks
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


_DOTS_HEIGHT, _LEFT, _RIGHT = 250.0, 40.0, 8.0
_TOP, _BOTTOM = 46.0, _DOTS_HEIGHT - 24
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
    x = Scale(low, high, _LEFT, PANEL_WIDTH - _RIGHT)
    levels = [found.high or found.mean for found in sides if found]
    top = common_top([found.mean for _, found in years] + levels)
    y = Scale(0, top, _BOTTOM, _TOP)
    marks: list[Mark] = [text(0, 14, title, size=13, fill="ink", bold=True)]
    for share in ticks(0, top, most=5):
        marks.append(line(_LEFT, y(share), PANEL_WIDTH - _RIGHT, y(share), stroke="line"))
        marks.append(text(_LEFT - 8, y(share) + 4, f"{100 * share:.0f}", size=11, fill="muted", anchor="end"))
    for year in ticks(low, high - 1, most=6):
        if year == int(year):
            marks.append(text(x(year + 0.5), _DOTS_HEIGHT - 8, f"{year:.0f}", size=11, fill="muted", anchor="middle"))
    if at is not None:
        marks += _levels(x, y, at, sides)
        marks.append(line(x(at), _TOP - 12, x(at), _BOTTOM, stroke="ink2", dash="4 3"))
        left_of_it = x(at) > PANEL_WIDTH / 2
        beside = x(at) - 5 if left_of_it else x(at) + 5
        marks.append(text(beside, _TOP - 6, f"cutoff {cutoff}", size=11, anchor="end" if left_of_it else "start"))
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
