"""Intervals of shares where resampling has none to give."""

from __future__ import annotations

from kgedit.analysis.cells import Estimate
from kgedit.proportions import wilson_interval


def widened(estimate: Estimate) -> Estimate:
    """An estimate with Wilson's interval where it has none, or one without width.

    That is with a single relation, and where all answers are alike, which a bootstrap calls certain.
    """
    low, high, n = estimate.low, estimate.high, estimate.n
    if n and (low is None or high is None or low == high) and 0.0 <= estimate.mean <= 1.0:
        low, high = wilson_interval(estimate.mean * n, n)
    return Estimate(estimate.mean, low, high, n)
