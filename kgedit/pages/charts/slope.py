"""Slope chart of teacher forcing against free decoding: one line per method, whose fall is the finding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kgedit.analysis.cells import Estimate
from kgedit.pages.charts.scales import Scale, percent, same_count, ticks, told
from kgedit.pages.marks import Drawing, Mark, dot, line, ring, shortened, spread, text

_HEIGHT = 230
_LEFT, _RIGHT = 52, 172


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


def slopes(title: str, pairs: Sequence[Slope], *, top: float = 1.0, width: float = 400) -> Drawing:
    """One panel: score under teacher forcing on the left, with free decoding on the right.

    Args:
        top: Upper end of the axis.
    """
    scale = Scale(0, top, _HEIGHT - 20, 50)
    left, right = float(_LEFT), width - _RIGHT
    marks: list[Mark] = [text(0, 14, title, size=13, fill="ink", bold=True)]
    marks.append(text(width, 14, same_count([pair.free for pair in pairs]), size=11, anchor="end"))
    marks.append(text(left, 34, "teacher forcing", size=11, fill="forced-text", anchor="middle"))
    marks.append(text(right, 34, "free", size=11, fill="free-text", anchor="middle"))
    for value in ticks(0, top, most=5):
        marks.append(line(left, scale(value), right, scale(value), stroke="line"))
        marks.append(text(left - 10, scale(value) + 4, f"{100 * value:.0f}", size=11, fill="muted", anchor="end"))
    places = spread([scale(pair.free.mean) for pair in pairs], gap=15, low=44, high=_HEIGHT - 8)
    for pair, y in zip(pairs, places, strict=True):
        marks += _slope(pair, scale, left, right, y, width)
    said = "; ".join(f"{pair.name}: forced {told(pair.forced)}, free {told(pair.free)}" for pair in pairs)
    return Drawing(width, _HEIGHT, f"{title}. {said}", tuple(marks))


def _slope(pair: Slope, scale: Scale, left: float, right: float, label_y: float, width: float) -> list[Mark]:
    forced, free = scale(pair.forced.mean), scale(pair.free.mean)
    stroke = "before" if pair.is_baseline else "muted"
    said = f"{pair.name}: teacher forcing {told(pair.forced)}; free {told(pair.free)}"
    number = percent(pair.free.mean, n=pair.free.n)
    label = shortened(pair.name, width - right - 60)
    return [
        line(left, forced, right, free, stroke=stroke, width=1.4, dash="4 3" if pair.is_baseline else ""),
        ring(left, forced, stroke="before" if pair.is_baseline else "forced", tooltip=said),
        dot(right, free, fill="before" if pair.is_baseline else "free", tooltip=said),
        line(right + 6, free, right + 14, label_y, stroke="line2", width=0.8),
        text(right + 48, label_y + 4, number, size=12, fill="ink", anchor="end", bold=True),
        text(right + 54, label_y + 4, label, size=12, fill="muted" if pair.is_baseline else "ink2", tooltip=said),
    ]
