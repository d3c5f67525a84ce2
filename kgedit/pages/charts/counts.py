"""Charts of counts: bars with their numbers, a histogram over time, and the waterfall of a funnel."""

from __future__ import annotations

from collections.abc import Sequence

from kgedit.pages.charts.scales import Scale, ticks
from kgedit.pages.marks import Drawing, Mark, line, rect, shortened, text

_ROW = 22


def count_bars(
    title: str, counts: Sequence[tuple[str, int]], *, role: str = "free", width: float = 400, names: float = 190
) -> Drawing:
    """One bar per name, in the given order."""
    most = max([1, *(count for _, count in counts)])
    scale = Scale(0, most, names, width - 56)
    marks: list[Mark] = [text(0, 14, title, size=13, fill="ink", bold=True)]
    for index, (name, count) in enumerate(counts):
        y = 30.0 + _ROW * index
        marks.append(text(names - 8, y + 12, shortened(name, names - 10), anchor="end", tooltip=name))
        marks.append(rect(names, y + 2, max(1.0, scale(count) - names), 13, fill=role, radius=1.5))
        marks.append(text(max(names + 1, scale(count)) + 6, y + 12, f"{count:,}", size=11))
    said = "; ".join(f"{name} {count:,}" for name, count in counts)
    return Drawing(width, 30 + _ROW * len(counts) + 6, f"{title}: {said}", tuple(marks))


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
        said = f"{name}: {first:,} {parts[0]}, {second:,} {parts[1]}"
        marks.append(rect(start, y(first), end - start, y(0) - y(first), fill="free", tooltip=said))
        if second:
            top = y(first + second)
            marks.append(rect(start, top, end - start, y(first) - top, fill="free", opacity=0.4, tooltip=said))
        if index % every == 0:
            marks.append(text((start + end) / 2, height - 8, name, size=11, fill="muted", anchor="middle"))
    told = "; ".join(f"{name}: {first + second:,}" for name, first, second in bars)
    return Drawing(width, height, f"{title}: {told}", tuple(marks))


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
    said = f"{first} {start:,}; " + "; ".join(f"{name} −{count:,}" for name, count in drops) + f"; {end} {left:,}"
    return Drawing(width, 30 + _ROW * len(rows) + 6, f"{title}: {said}", tuple(marks))


def _steps(start: int, drops: Sequence[tuple[str, int]]) -> list[tuple[str, int, int, str]]:
    steps, left = [], start
    for name, count in drops:
        steps.append((name, count, left, "bad"))
        left -= count
    return steps
