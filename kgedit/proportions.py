"""How sure a share is: the interval of a proportion counted in a sample."""

from __future__ import annotations

from statistics import NormalDist


def wilson_interval(count: float, total: int, *, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval of count/total, which stays sensible near 0 and 1 and in small samples.

    Source: Wilson 1927, https://doi.org/10.1080/01621459.1927.10502953

    Args:
        count: How many of the total; the sum of shares, where each of the total has one: the interval is then wider
            than it need be.
        total: More than 0.
        confidence: Share of such intervals that hold the true proportion.

    >>> [round(end, 3) for end in wilson_interval(46, 100)]
    [0.366, 0.557]
    """
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share, squared = count / total, z * z
    middle = (share + squared / (2 * total)) / (1 + squared / total)
    half = z / (1 + squared / total) * (share * (1 - share) / total + squared / (4 * total * total)) ** 0.5
    return max(0.0, middle - half), min(1.0, middle + half)
