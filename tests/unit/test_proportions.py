"""Wilson's interval, against published values and its own symmetry."""

from __future__ import annotations

import pytest

from kgedit.proportions import wilson_interval


def test_it_is_the_published_interval() -> None:
    # Newcombe 1998, table I, method 3: 81/263, 15/148, 0/20 and 1/29.
    published = {
        (81, 263): (0.2553, 0.3662),
        (15, 148): (0.0624, 0.1605),
        (0, 20): (0, 0.1611),
        (1, 29): (0.0061, 0.1718),
    }
    for (count, total), ends in published.items():
        assert wilson_interval(count, total) == pytest.approx(ends, abs=5e-5)


def test_it_mirrors_and_narrows() -> None:
    low, high = wilson_interval(3, 10)
    assert wilson_interval(7, 10) == pytest.approx((1 - high, 1 - low))
    assert wilson_interval(300, 1000)[0] > low
    assert wilson_interval(300, 1000)[1] < high
    assert wilson_interval(3, 10, quantile=2.6)[1] > high
    assert wilson_interval(10, 10)[1] == 1
