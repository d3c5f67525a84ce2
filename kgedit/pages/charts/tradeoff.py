"""Gain against damage, two goals without a common score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kgedit.analysis.cells import Estimate
from kgedit.pages.charts.scales import Scale, estimate_text, ticks
from kgedit.pages.marks import Drawing, Mark, dot, line, shortened, spread, text

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
