"""Wilson's score interval of a proportion."""

from __future__ import annotations

from statistics import NormalDist


def wilson_interval(count: float, total: float, *, quantile: float | None = None) -> tuple[float, float]:
    """95 % score interval of count/total, which stays within [0, 1] and is accurate near both ends.

    Source: Wilson 1927, https://doi.org/10.1080/01621459.1927.10502953

    Args:
        count: Number of successes.
        total: Number of independent trials, more than 0; an effective sample size may be fractional.
        quantile: Number of standard errors to either side; None means the 0.975 quantile of the normal distribution.

    >>> [round(end, 3) for end in wilson_interval(46, 100)]
    [0.366, 0.557]
    """
    z = NormalDist().inv_cdf(0.975) if quantile is None else quantile
    share, squared = count / total, z * z
    middle = (share + squared / (2 * total)) / (1 + squared / total)
    half = z / (1 + squared / total) * (share * (1 - share) / total + squared / (4 * total * total)) ** 0.5
    # Exact at the ends, where the two terms differ only in their last digit.
    return 0.0 if share <= 0 else middle - half, 1.0 if share >= 1 else middle + half
