"""Scores by the year of a fact, with a line at the month of the model's knowledge cutoff."""

from __future__ import annotations

import math
from collections.abc import Sequence

from kgedit.analysis.cells import Estimate
from kgedit.pages.charts.scales import Scale, common_top, estimate_text, percent, ticks
from kgedit.pages.marks import Drawing, Mark, dot, line, rect, text

_HEIGHT, _LEFT, _RIGHT = 250.0, 40.0, 8.0
_TOP, _BOTTOM = 46.0, _HEIGHT - 24
_SMALLEST, _LARGEST = 2.5, 7.0
"""Radii: the area of a dot grows with its number of cases, and a single case is still seen."""


def year_dots(
    title: str,
    years: Sequence[tuple[int, Estimate]],
    *,
    role: str,
    cutoff: str | None = None,
    sides: tuple[Estimate | None, Estimate | None] = (None, None),
    width: float = 400,
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
    x = Scale(low, high, _LEFT, width - _RIGHT)
    levels = [found.high or found.mean for found in sides if found]
    top = common_top([found.mean for _, found in years] + levels)
    y = Scale(0, top, _BOTTOM, _TOP)
    marks: list[Mark] = [text(0, 14, title, size=13, fill="ink", bold=True)]
    for share in ticks(0, top, most=5):
        marks.append(line(_LEFT, y(share), width - _RIGHT, y(share), stroke="line"))
        marks.append(text(_LEFT - 8, y(share) + 4, f"{100 * share:.0f}", size=11, fill="muted", anchor="end"))
    for year in ticks(low, high - 1, most=6):
        if year == int(year):
            marks.append(text(x(year + 0.5), _HEIGHT - 8, f"{year:.0f}", size=11, fill="muted", anchor="middle"))
    if at is not None:
        marks += _levels(x, y, at, sides)
        marks.append(line(x(at), _TOP - 12, x(at), _BOTTOM, stroke="ink2", dash="4 3"))
        left_of_it = x(at) > width / 2
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
    return Drawing(width, _HEIGHT, f"{title}. {words}.{cutoff_text}", tuple(marks))


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
