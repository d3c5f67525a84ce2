"""Agreement of two ways of judging."""

from __future__ import annotations

import pytest

from kgedit.metrics.scores import cohens_kappa


def test_kappa_of_a_textbook_table() -> None:
    # 20 both yes, 5 only the first, 10 only the second, 15 both no: observed 0.7, expected 0.5.
    one = [True] * 25 + [False] * 25
    other = [True] * 20 + [False] * 5 + [True] * 10 + [False] * 15
    assert cohens_kappa(one, other) == pytest.approx(0.4)


def test_kappa_is_1_for_equal_verdicts_and_below_0_for_opposite_ones() -> None:
    assert cohens_kappa([True, False], [True, False]) == 1.0
    assert cohens_kappa([True, False], [False, True]) == -1.0


def test_kappa_says_nothing_where_one_side_never_varies() -> None:
    assert cohens_kappa([True, True], [True, False]) is None
