"""Line charts: slopes from teacher forcing to free decoding, and curves of scores as edits accumulate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kgedit.analysis.cells import Estimate
from kgedit.pages.charts.scales import Scale, estimate_text, percent, same_count, ticks
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


def slopes(title: str, pairs: Sequence[Slope], *, top: float = 1.0, width: float = 400) -> Drawing:
    """One panel: score under teacher forcing on the left, with free decoding on the right.

    Args:
        top: Upper end of the axis.
    """
    scale = Scale(0, top, _HEIGHT - 20, 50)
    left, right = float(_SLOPES_LEFT), width - _SLOPES_RIGHT
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
    words = "; ".join(
        f"{pair.name}: forced {estimate_text(pair.forced)}, free {estimate_text(pair.free)}" for pair in pairs
    )
    return Drawing(width, _HEIGHT, f"{title}. {words}", tuple(marks))


def _slope(pair: Slope, scale: Scale, left: float, right: float, label_y: float, width: float) -> list[Mark]:
    forced, free = scale(pair.forced.mean), scale(pair.free.mean)
    stroke = "before" if pair.is_baseline else "muted"
    words = f"{pair.name}: teacher forcing {estimate_text(pair.forced)}; free {estimate_text(pair.free)}"
    number = percent(pair.free.mean, n=pair.free.n)
    label = shortened(pair.name, width - right - 60)
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


def curves(title: str, lines: Sequence[Curve], *, role: str, top: float = 1.0, width: float = 400) -> Drawing:
    """One panel: edits to the right, a share upwards.

    Args:
        role: Colour of all lines.
        top: Upper end of the axis, at which intervals are clipped.
    """
    most = max(edits for curve in lines for edits, _ in curve.points)
    x, y = Scale(0, max(most, 1), _CURVES_LEFT, width - _CURVES_LABELS), Scale(0, top, _HEIGHT - 36, 34)
    marks: list[Mark] = [text(0, 14, title, size=13, fill="ink", bold=True)]
    for share in ticks(0, top, most=5):
        marks.append(line(_CURVES_LEFT, y(share), width - _CURVES_LABELS, y(share), stroke="line"))
        marks.append(text(_CURVES_LEFT - 8, y(share) + 4, f"{100 * share:.0f}", size=11, fill="muted", anchor="end"))
    for edits in ticks(0, most, most=4):
        marks.append(text(x(edits), _HEIGHT - 20, f"{edits:,.0f}", size=11, fill="muted", anchor="middle"))
    marks.append(text(width - _CURVES_LABELS, _HEIGHT - 4, "edits", size=11, fill="muted", anchor="end"))
    places = spread([y(curve.points[-1][1].mean) for curve in lines], gap=15, low=34, high=_HEIGHT - 30)
    for index, (curve, label_y) in enumerate(zip(lines, places, strict=True)):
        marks += _curve(curve, x, y, role, label_y, width, _DASHES[index % len(_DASHES)])
    words = "; ".join(
        f"{curve.name}: " + ", ".join(f"after {edits:,} edits {estimate_text(found)}" for edits, found in curve.points)
        for curve in lines
    )
    return Drawing(width, _HEIGHT, f"{title}. {words}", tuple(marks))


def _curve(curve: Curve, x: Scale, y: Scale, role: str, label_y: float, width: float, dash: str) -> list[Mark]:
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
    start = width - _CURVES_LABELS + 10
    marks.append(line(x(last_edits) + 5, y(last.mean), start - 2, label_y, stroke="line2", width=0.7))
    marks.append(text(start + 34, label_y + 4, percent(last.mean, n=last.n), fill="ink", anchor="end", bold=True))
    marks.append(text(start + 40, label_y + 4, shortened(curve.name, _CURVES_LABELS - 50), tooltip=curve.name))
    return marks
