"""Scores as edits accumulate: lines labelled at their ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kgedit.analysis.cells import Estimate
from kgedit.pages.charts.scales import Scale, percent, ticks, told
from kgedit.pages.marks import Drawing, Mark, dot, line, polyline, rect, shortened, spread, text

_HEIGHT = 230
_LEFT, _LABELS = 40, 120
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
    x, y = Scale(0, max(most, 1), _LEFT, width - _LABELS), Scale(0, top, _HEIGHT - 36, 34)
    marks: list[Mark] = [text(0, 14, title, size=13, fill="ink", bold=True)]
    for share in ticks(0, top, most=5):
        marks.append(line(_LEFT, y(share), width - _LABELS, y(share), stroke="line"))
        marks.append(text(_LEFT - 8, y(share) + 4, f"{100 * share:.0f}", size=11, fill="muted", anchor="end"))
    for edits in ticks(0, most, most=4):
        marks.append(text(x(edits), _HEIGHT - 20, f"{edits:,.0f}", size=11, fill="muted", anchor="middle"))
    marks.append(text(width - _LABELS, _HEIGHT - 4, "edits", size=11, fill="muted", anchor="end"))
    places = spread([y(curve.points[-1][1].mean) for curve in lines], gap=15, low=34, high=_HEIGHT - 30)
    for index, (curve, label_y) in enumerate(zip(lines, places, strict=True)):
        marks += _curve(curve, x, y, role, label_y, width, _DASHES[index % len(_DASHES)])
    said = "; ".join(
        f"{curve.name}: " + ", ".join(f"after {edits:,} edits {told(found)}" for edits, found in curve.points)
        for curve in lines
    )
    return Drawing(width, _HEIGHT, f"{title}. {said}", tuple(marks))


def _curve(curve: Curve, x: Scale, y: Scale, role: str, label_y: float, width: float, dash: str) -> list[Mark]:
    marks: list[Mark] = []
    for edits, found in curve.points:
        if found.low is not None and found.high is not None:
            marks.append(
                rect(x(edits) - 0.6, y(found.high), 1.2, y(found.low) - y(found.high), fill=role, opacity=0.35)
            )
    marks.append(polyline([(x(edits), y(found.mean)) for edits, found in curve.points], stroke=role, dash=dash))
    for edits, found in curve.points:
        tooltip = f"{curve.name}, {edits:,} edits: {told(found)}"
        marks.append(dot(x(edits), y(found.mean), fill=role, radius=3, tooltip=tooltip))
    last_edits, last = curve.points[-1]
    start = width - _LABELS + 10
    marks.append(line(x(last_edits) + 5, y(last.mean), start - 2, label_y, stroke="line2", width=0.7))
    marks.append(text(start + 34, label_y + 4, percent(last.mean, n=last.n), fill="ink", anchor="end", bold=True))
    marks.append(text(start + 40, label_y + 4, shortened(curve.name, _LABELS - 50), tooltip=curve.name))
    return marks
