"""Bootstrap intervals clustered by relation: questions about one relation succeed or fail together."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float64]]
Integers = np.ndarray[Any, np.dtype[np.int64]]

REPLICATES = 2000
SEED = 20240331
"""Resamples and seed of every interval in scores.json."""


def clustered_interval(values: Floats, clusters: Integers) -> tuple[float, float] | None:
    """95 % percentile interval of the mean, whole clusters resampled with replacement.

    Args:
        values: One per answer.
        clusters: The cluster of each, as small integers.

    Returns:
        Both ends; None with fewer than two clusters, which say nothing about the spread between clusters.
    """
    sizes = np.bincount(clusters)
    sums = np.bincount(clusters, weights=values)[sizes > 0]
    sizes = sizes[sizes > 0]
    if len(sizes) < 2:
        return None
    drawn = _draws(len(sizes))
    low, high = np.percentile((drawn @ sums) / (drawn @ sizes), [2.5, 97.5])
    return float(low), float(high)


@lru_cache(maxsize=8)
def _draws(clusters: int) -> Floats:
    # How often each cluster is drawn, one row a resample; the same draws for every group of equally many clusters.
    generator = np.random.default_rng(SEED)
    counts = generator.multinomial(clusters, np.full(clusters, 1 / clusters), size=REPLICATES)
    return counts.astype(np.float64)
