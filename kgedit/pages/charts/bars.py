"""Bar charts: results of retrieval with the answers based on them, and costs of editing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kgedit.analysis.cells import as_text
from kgedit.pages.charts.scales import Scale
from kgedit.pages.marks import Drawing, Mark, dot, line, rect, shortened, text


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


def found_bars(title: str, bars: Sequence[FoundBar], *, width: float = 400) -> Drawing:
    """Bars with lengths proportional to the number of questions; the filled part was answered correctly."""
    total = max([1, *(bar.n for bar in bars)])
    names, numbers = 96.0, 108.0
    scale = Scale(0, total, names, width - numbers)
    marks: list[Mark] = [text(0, 14, title, size=13, fill="ink", bold=True)]
    for index, bar in enumerate(bars):
        y = 34.0 + 24 * index
        marks.append(text(names - 8, y + 11, bar.name, anchor="end"))
        marks.append(rect(names, y, scale(bar.n) - names, 15, fill="wash", stroke="line2", radius=1.5))
        marks.append(rect(names, y, scale(bar.right) - names, 15, fill="free", radius=1.5))
        marks.append(text(scale(bar.n) + 8, y + 11, f"{bar.right:,} of {bar.n:,} right", fill="ink2"))
    said = "; ".join(f"{bar.name}: {bar.right:,} of {bar.n:,} right" for bar in bars)
    return Drawing(width, 34 + 24 * len(bars) + 4, f"{title}. {said}", tuple(marks))


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


def time_dots(costs: Sequence[Cost], *, width: float = 400) -> Drawing:
    """CPU seconds per edit, on a logarithmic axis."""
    known = [max(cost.seconds, _FLOOR) for cost in costs if cost.seconds]
    low = math.floor(math.log10(min(known, default=0.1)))
    high = max(low + 1, math.ceil(math.log10(max(known, default=1))))
    names = 120.0
    scale = Scale(low, high, names + 10, width - 52)
    height = 44.0 + 22 * len(costs) + 20
    marks: list[Mark] = [text(0, 14, "CPU seconds for one edit", size=13, fill="ink", bold=True)]
    for power in range(low, high + 1):
        said = f"{10**power:g}"
        marks.append(line(scale(power), 34, scale(power), height - 18, stroke="line"))
        marks.append(text(scale(power), height - 4, said, size=11, fill="muted", anchor="middle"))
    for index, cost in enumerate(costs):
        y = 48.0 + 22 * index
        marks.append(text(names, y + 4, shortened(cost.name, names), anchor="end", tooltip=cost.name))
        seconds = max(cost.seconds or 0, _FLOOR) if cost.seconds else 10.0**low
        told = as_text(cost.seconds, "seconds") if cost.seconds else "none"
        marks.append(dot(scale(math.log10(seconds)), y, fill="ink" if cost.seconds else "before"))
        marks.append(text(scale(math.log10(seconds)) + 9, y + 4, told, size=11))
    title = "CPU seconds for one edit: " + "; ".join(
        f"{cost.name} {as_text(cost.seconds, 'seconds')}" if cost.seconds else f"{cost.name} none" for cost in costs
    )
    return Drawing(width, height, title, tuple(marks))


def memory_bars(costs: Sequence[Cost], *, width: float = 400) -> Drawing:
    """Peak memory of each run while editing."""
    most = max([0.1, *(cost.gibibytes for cost in costs)])
    names = 120.0
    scale = Scale(0, most, names + 10, width - 44)
    marks: list[Mark] = [text(0, 14, "Peak memory, GiB", size=13, fill="ink", bold=True)]
    for index, cost in enumerate(costs):
        y = 48.0 + 22 * index
        marks.append(text(names, y + 4, shortened(cost.name, names), anchor="end", tooltip=cost.name))
        marks.append(rect(names + 10, y - 5, scale(cost.gibibytes) - names - 10, 10, fill="before", opacity=0.55))
        marks.append(text(scale(cost.gibibytes) + 8, y + 4, f"{cost.gibibytes:.1f}", size=11))
    title = "Peak memory in GiB: " + "; ".join(f"{cost.name} {cost.gibibytes:.1f}" for cost in costs)
    return Drawing(width, 44 + 22 * len(costs) + 20, title, tuple(marks))
