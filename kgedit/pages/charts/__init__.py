"""Charts: functions that convert numbers to drawings. Colour encodes outcome or evaluation, never method.

Scales, which all of them share, convert values to pixels and label axes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kgedit.analysis.tables import Estimate

PANEL_WIDTH: float = 400
"""Width in pixels of a chart that is one of several panels of a figure."""


@dataclass(frozen=True, slots=True)
class Scale:
    """A linear axis.

    Attributes:
        low: Value at `start`.
        high: Value at `end`; never equal to `low`.
        start: Pixel of the lowest value.
        end: Pixel of the highest value.
    """

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Pixel of a value; values outside the axis are clipped to its ends."""
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)


def ticks(low: float, high: float, *, most: int = 6) -> list[float]:
    """Round values from low to high, in steps of 1, 2 or 5 times a power of ten."""
    span = high - low
    if span <= 0:
        return [low]
    rough = span / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    first = math.ceil(low / step - 1e-9)
    return [round(index * step, 10) for index in range(first, math.floor(high / step + 1e-9) + 1)]


def common_top(shares: Iterable[float]) -> float:
    """Upper end of an axis shared by several panels: 10, 25, 50 or 100 %."""
    highest = max(shares, default=1.0)
    return next((top for top in (0.1, 0.25, 0.5) if highest <= top), 1.0)


def percent(share: float, *, n: int | None = None) -> str:
    """A share in percent; without decimals for fewer than 100 answers, where they would be spurious."""
    value = 100 * share
    if n is not None and n < 100:
        return f"{value:.0f}"
    return f"{value:.1f}"


def estimate_text(estimate: Estimate | None) -> str:
    """Text of an estimate: "45 % [11–67], n = 20"."""
    if estimate is None:
        return "not asked"
    n = estimate.n
    interval = ""
    if estimate.low is not None and estimate.high is not None:
        interval = f" [{percent(estimate.low, n=n)}–{percent(estimate.high, n=n)}]"
    return f"{percent(estimate.mean, n=n)} %{interval}" + (f", n = {n:,}" if n is not None else "")


def same_count(estimates: Sequence[Estimate | None]) -> str:
    """ "n = 20" if all agree, "n = 18–20" if not, "" if there are none."""
    counts = sorted({found.n for found in estimates if found is not None and found.n is not None})
    if not counts:
        return ""
    return f"n = {counts[0]:,}" if len(counts) == 1 else f"n = {counts[0]:,}–{counts[-1]:,}"
