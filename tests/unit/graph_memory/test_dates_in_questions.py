"""Dates in questions are recognised; facts of that day are given at their known precision."""

from __future__ import annotations

import numpy as np
import pytest

from kgedit.graph_memory.dates import HOLDS, UNKNOWN_END, date_number, date_text, holding, period_of, read_date


@pytest.mark.parametrize(
    ("question", "text", "as_of"),
    [
        ("Who led Norway in 2019?", "Who led Norway?", "2019"),
        ("As of March 2021, who leads Norway?", "who leads Norway?", "2021-03"),
        ("As of 27 February 2023, who leads Norway?", "who leads Norway?", "2023-02-27"),
        ("Who led Norway on May 5, 2020?", "Who led Norway?", "2020-05-05"),
        ("Who led Norway on 2020-05-05?", "Who led Norway?", "2020-05-05"),
        ("Who led Norway at the end of two thousand twenty-three?", "Who led Norway?", "2023-12"),
        ("Who led Norway in March of twenty twenty-two?", "Who led Norway?", "2022-03"),
        ("Who led Norway in two thousand and five?", "Who led Norway?", "2005"),
        ("Who ran Norway in twenty one minutes?", "Who ran Norway in twenty one minutes?", ""),
        ("Who leads Norway?", "Who leads Norway?", ""),
        ("Who won the 2019 Tour de France?", "Who won the 2019 Tour de France?", ""),
        ("Who lives in 20190 Oslo?", "Who lives in 20190 Oslo?", ""),
    ],
)
def test_a_date_is_taken_out_of_a_question(question: str, text: str, as_of: str) -> None:
    dated = read_date(question)
    assert (dated.text, dated.as_of) == (text, as_of)


@pytest.mark.parametrize("text", ["2021", "2021-03", "2021-03-31", ""])
def test_a_date_is_written_as_it_was_read(text: str) -> None:
    assert date_text(date_number(text)) == text


@pytest.mark.parametrize(
    ("since", "until", "asked", "held"),
    [
        ("2014-01-01", "2021-10-14", "2019", True),
        ("2014-01-01", "2021-10-14", "2021-10-14", False),
        ("2014-01-01", "2021-10-14", "2021-10-13", True),
        ("2014-01-01", "2021-10-14", "2021-10", True),
        ("2014-01-01", "2021-01-01", "2021", False),
        ("2014-01-01", "2021", "2021-06-30", True),
        ("2014", "2021-10-14", "2013-12-31", False),
        ("2014", "2021-10-14", "2014-01-01", True),
        ("", "2021-10-14", "1900", True),
    ],
)
def test_a_value_held_on_every_day_that_its_dates_allow(since: str, until: str, asked: str, held: bool) -> None:
    interval = np.array([date_number(since)], dtype=np.int32), np.array([date_number(until)], dtype=np.int32)
    assert holding(*interval, period_of(asked)).tolist() == [held]


def test_without_a_date_what_has_not_ended_holds() -> None:
    until = np.array([HOLDS, UNKNOWN_END, 20210101], dtype=np.int32)
    assert holding(np.zeros(3, dtype=np.int32), until, None).tolist() == [True, False, False]
