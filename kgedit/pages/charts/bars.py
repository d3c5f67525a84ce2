"""Bar charts (results of retrieval, costs, counts, a histogram, the waterfall of a funnel), and heat maps.

The cells of heat maps have their numbers: the accuracy matrix, and scores by properties of an edit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kgedit.analysis.tables import as_text
from kgedit.pages.charts import PANEL_WIDTH, Scale, percent, ticks
from kgedit.pages.marks import Drawing, Mark, dot, line, rect, shortened, text, text_width


@dataclass(frozen=True, slots=True)
class FoundBar:
    """Questions with the same outcome of retrieval.

    Attributes:
        name: Facts in the prompt.
        n: Number of questions.
        right: Number of these answered correctly.
    """

    name: str
    n: int
    right: int


def found_bars(title: str, bars: Sequence[FoundBar]) -> Drawing:
    """Bars with lengths proportional to the number of questions; the filled part was answered correctly."""
    total = max([1, *(bar.n for bar in bars)])
    names, numbers = 96.0, 108.0
    scale = Scale(0, total, names, PANEL_WIDTH - numbers)
    marks: list[Mark] = [text(0, 14, title, size=13, fill="ink", bold=True)]
    for index, bar in enumerate(bars):
        y = 34.0 + 24 * index
        marks.append(text(names - 8, y + 11, bar.name, anchor="end"))
        marks.append(rect(names, y, scale(bar.n) - names, 15, fill="wash", stroke="line2", radius=1.5))
        marks.append(rect(names, y, scale(bar.right) - names, 15, fill="free", radius=1.5))
        marks.append(text(scale(bar.n) + 8, y + 11, f"{bar.right:,} of {bar.n:,} right", fill="ink2"))
    words = "; ".join(f"{bar.name}: {bar.right:,} of {bar.n:,} right" for bar in bars)
    return Drawing(PANEL_WIDTH, 34 + 24 * len(bars) + 4, f"{title}. {words}", tuple(marks))


@dataclass(frozen=True, slots=True)
class Cost:
    """Costs of a method's edits.

    Attributes:
        name: Name of the method.
        seconds: CPU seconds per edit; None if there were no edits.
        gibibytes: Peak memory.
    """

    name: str
    seconds: float | None
    gibibytes: float


_FLOOR = 0.001
"""Least shown seconds, because a logarithmic axis has no zero."""


def time_dots(costs: Sequence[Cost]) -> Drawing:
    """CPU seconds per edit, on a logarithmic axis."""
    known = [max(cost.seconds, _FLOOR) for cost in costs if cost.seconds]
    low = math.floor(math.log10(min(known, default=0.1)))
    high = max(low + 1, math.ceil(math.log10(max(known, default=1))))
    names = 120.0
    scale = Scale(low, high, names + 10, PANEL_WIDTH - 52)
    height = 44.0 + 22 * len(costs) + 20
    marks: list[Mark] = [text(0, 14, "CPU seconds for one edit", size=13, fill="ink", bold=True)]
    for power in range(low, high + 1):
        words = f"{10**power:g}"
        marks.append(line(scale(power), 34, scale(power), height - 18, stroke="line"))
        marks.append(text(scale(power), height - 4, words, size=11, fill="muted", anchor="middle"))
    for index, cost in enumerate(costs):
        y = 48.0 + 22 * index
        marks.append(text(names, y + 4, shortened(cost.name, names), anchor="end", tooltip=cost.name))
        seconds = max(cost.seconds or 0, _FLOOR) if cost.seconds else 10.0**low
        summary = as_text(cost.seconds, "seconds") if cost.seconds else "none"
        marks.append(dot(scale(math.log10(seconds)), y, fill="ink" if cost.seconds else "before"))
        marks.append(text(scale(math.log10(seconds)) + 9, y + 4, summary, size=11))
    title = "CPU seconds for one edit: " + "; ".join(
        f"{cost.name} {as_text(cost.seconds, 'seconds')}" if cost.seconds else f"{cost.name} none" for cost in costs
    )
    return Drawing(PANEL_WIDTH, height, title, tuple(marks))


def memory_bars(costs: Sequence[Cost]) -> Drawing:
    """Peak memory of each run while editing."""
    most = max([0.1, *(cost.gibibytes for cost in costs)])
    names = 120.0
    scale = Scale(0, most, names + 10, PANEL_WIDTH - 44)
    marks: list[Mark] = [text(0, 14, "Peak memory, GiB", size=13, fill="ink", bold=True)]
    for index, cost in enumerate(costs):
        y = 48.0 + 22 * index
        marks.append(text(names, y + 4, shortened(cost.name, names), anchor="end", tooltip=cost.name))
        marks.append(rect(names + 10, y - 5, scale(cost.gibibytes) - names - 10, 10, fill="before", opacity=0.55))
        marks.append(text(scale(cost.gibibytes) + 8, y + 4, f"{cost.gibibytes:.1f}", size=11))
    title = "Peak memory in GiB: " + "; ".join(f"{cost.name} {cost.gibibytes:.1f}" for cost in costs)
    return Drawing(PANEL_WIDTH, 44 + 22 * len(costs) + 20, title, tuple(marks))


_ROW = 22


def count_bars(title: str, counts: Sequence[tuple[str, int]], *, role: str = "free", names: float = 190) -> Drawing:
    """One bar per name, in the given order."""
    most = max([1, *(count for _, count in counts)])
    scale = Scale(0, most, names, PANEL_WIDTH - 56)
    marks: list[Mark] = [text(0, 14, title, size=13, fill="ink", bold=True)]
    for index, (name, count) in enumerate(counts):
        y = 30.0 + _ROW * index
        marks.append(text(names - 8, y + 12, shortened(name, names - 10), anchor="end", tooltip=name))
        marks.append(rect(names, y + 2, max(1.0, scale(count) - names), 13, fill=role, radius=1.5))
        marks.append(text(max(names + 1, scale(count)) + 6, y + 12, f"{count:,}", size=11))
    words = "; ".join(f"{name} {count:,}" for name, count in counts)
    return Drawing(PANEL_WIDTH, 30 + _ROW * len(counts) + 6, f"{title}: {words}", tuple(marks))


def histogram(
    title: str, bars: Sequence[tuple[str, int, int]], *, parts: tuple[str, str], width: float = 820, every: int = 1
) -> Drawing:
    """Stacked bars side by side.

    Args:
        bars: Name of each bar, and the counts of its two parts.
        parts: Names of the two parts.
        every: Interval of bars that have their name below.
    """
    height, left, bottom = 190.0, 40.0, 26.0
    most = max([1, *(first + second for _, first, second in bars)])
    x, y = Scale(0, max(1, len(bars)), left, width), Scale(0, most, height - bottom, 44)
    marks: list[Mark] = [text(0, 14, title, size=13, fill="ink", bold=True)]
    marks += [rect(left, 22, 10, 10, fill="free"), text(left + 15, 31, parts[0], size=11)]
    second_at = left + 30 + 7 * len(parts[0])
    marks += [rect(second_at, 22, 10, 10, fill="free", opacity=0.4), text(second_at + 15, 31, parts[1], size=11)]
    for value in ticks(0, most, most=4):
        if value == int(value):
            marks.append(line(left, y(value), width, y(value), stroke="line"))
            marks.append(text(left - 8, y(value) + 4, f"{value:,.0f}", size=11, fill="muted", anchor="end"))
    for index, (name, first, second) in enumerate(bars):
        start, end = x(index) + 1, x(index + 1) - 1
        words = f"{name}: {first:,} {parts[0]}, {second:,} {parts[1]}"
        marks.append(rect(start, y(first), end - start, y(0) - y(first), fill="free", tooltip=words))
        if second:
            top = y(first + second)
            marks.append(rect(start, top, end - start, y(first) - top, fill="free", opacity=0.4, tooltip=words))
        if index % every == 0:
            marks.append(text((start + end) / 2, height - 8, name, size=11, fill="muted", anchor="middle"))
    summary = "; ".join(f"{name}: {first + second:,}" for name, first, second in bars)
    return Drawing(width, height, f"{title}: {summary}", tuple(marks))


def waterfall(
    title: str, start: int, drops: Sequence[tuple[str, int]], end: str, *, first: str, width: float = 820
) -> Drawing:
    """Numbers left after each filter.

    Args:
        start: Number of changes before the filters.
        drops: Filters in order, with the number that each dropped.
        end: Name of the remainder.
        first: Name of the changes before the filters.
    """
    names = 350.0 if width > 600 else 226.0
    scale = Scale(0, max(1, start), names + 56, width)
    marks: list[Mark] = [text(0, 14, title, size=13, fill="ink", bold=True)]
    rows = [(first, start, start, "before"), *_steps(start, drops)]
    left = start - sum(count for _, count in drops)
    rows.append((end, left, left, "free"))
    for index, (name, count, shown_to, role) in enumerate(rows):
        y = 30.0 + _ROW * index
        bold = role != "bad"
        marks.append(
            text(
                names,
                y + 12,
                shortened(name, names),
                anchor="end",
                bold=bold,
                tooltip=name,
                fill="ink" if bold else "ink2",
            )
        )
        sign = "" if bold else "−"
        marks.append(text(names + 46, y + 12, f"{sign}{count:,}", size=12, anchor="end", bold=bold, fill="ink"))
        begin = scale(0) if bold else scale(shown_to - count)
        if not bold:
            marks.append(rect(scale(0), y + 2, begin - scale(0), 13, fill="wash"))
        marks.append(
            rect(
                begin, y + 2, max(1.5, scale(shown_to) - begin), 13, fill=role, opacity=0.35 if role == "before" else 1
            )
        )
    words = f"{first} {start:,}; " + "; ".join(f"{name} −{count:,}" for name, count in drops) + f"; {end} {left:,}"
    return Drawing(width, 30 + _ROW * len(rows) + 6, f"{title}: {words}", tuple(marks))


def _steps(start: int, drops: Sequence[tuple[str, int]]) -> list[tuple[str, int, int, str]]:
    steps, left = [], start
    for name, count in drops:
        steps.append((name, count, left, "bad"))
        left -= count
    return steps


_MAP_ROW = 26


@dataclass(frozen=True, slots=True)
class HeatCell:
    """One cell.

    Attributes:
        share: Share in [0, 1]; None if nothing was evaluated.
        n: Number of answers; None if unknown.
        outlined: Whether it has a frame.
        tooltip: Text of the tooltip.
        label: Text shown instead of the share in %; "" shows the share.
    """

    share: float | None
    n: int | None = None
    outlined: bool = False
    tooltip: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True)
class HeatRow:
    """One row: its name, a number next to it (or ""), and its cells."""

    name: str
    beside: str
    cells: tuple[HeatCell, ...]


def heat_map(
    title: str,
    columns: Sequence[str],
    rows: Sequence[HeatRow],
    *,
    role: str,
    note: str = "",
    names: float = 150,
    cell: float = 0,
) -> Drawing:
    """Rows of coloured cells from 0 to 100 %.

    Args:
        role: Colour role of the hue.
        note: Below the map, or "".
        names: Width of the column of row names.
        cell: Width of a cell; 0 means the width of the widest heading.
    """
    wide = cell or max([44.0, *(min(text_width(name, 11), 110) + 14 for name in columns)])
    beside = 34.0 if any(row.beside for row in rows) else 0.0
    top, width = 50.0, names + beside + wide * len(columns)
    height = top + _MAP_ROW * len(rows) + (22 if note else 4)
    marks: list[Mark] = [text(0, 14, title, size=13, fill="ink", bold=True)]
    for index, name in enumerate(columns):
        middle = names + beside + wide * (index + 0.5)
        marks.append(text(middle, top - 8, shortened(name, wide - 6, 11), size=11, anchor="middle", tooltip=name))
    for index, row in enumerate(rows):
        marks += _map_row(row, top + _MAP_ROW * index, names, beside, wide, role)
    if note:
        marks.append(text(0, height - 4, note, size=11, fill="muted"))
    drawn = max(width, text_width(title, 13) + 4, text_width(note, 11) + 4)
    words = "; ".join(
        f"{row.name}: "
        + ", ".join(f"{column} {_cell_text(found)}" for column, found in zip(columns, row.cells, strict=True))
        for row in rows
    )
    return Drawing(drawn, height, f"{title}. {words}", tuple(marks))


def _map_row(row: HeatRow, y: float, names: float, beside: float, wide: float, role: str) -> list[Mark]:
    marks = [text(0, y + 17, shortened(row.name, names - 8), tooltip=row.name, fill="ink2")]
    if beside:
        marks.append(text(names + beside - 8, y + 17, row.beside, size=11, fill="muted", anchor="end"))
    for index, cell in enumerate(row.cells):
        if cell.share is None:
            continue
        x = names + beside + wide * index
        marks.append(rect(x + 1, y + 1, wide - 2, _MAP_ROW - 2, fill="ground", stroke="line"))
        stroke = "ink" if cell.outlined else ""
        # The maximum darkness keeps the text readable in both themes.
        opacity = 0.04 + 0.46 * cell.share
        marks.append(rect(x + 1, y + 1, wide - 2, _MAP_ROW - 2, fill=role, opacity=opacity, stroke=stroke))
        words = cell.label or percent(cell.share, n=cell.n)
        marks.append(text(x + wide / 2, y + 17, words, fill="ink", anchor="middle", tooltip=cell.tooltip))
    return marks


def _cell_text(cell: HeatCell) -> str:
    return cell.label or ("not asked" if cell.share is None else f"{percent(cell.share, n=cell.n)} %")
