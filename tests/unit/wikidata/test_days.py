from __future__ import annotations

import datetime

import pytest

from kgedit.wikidata.times import read_day


@pytest.mark.parametrize("text", ["2021-01-04", "20210104", "2021/01/04", "2021-1-4", "2021.1.4", " 2021-01-04 "])
def test_a_day_with_its_year_first_is_read_whatever_separates_it(text: str) -> None:
    assert read_day(text) == datetime.date(2021, 1, 4)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("2021-02-30", "'2021-02-30' is not a date: February 2021 has 28 days."),
        ("20240230", "February 2024 has 29 days."),
        ("2021-04-31", "April 2021 has 30 days."),
        ("2021-13-04", "there is no month 13. Write the month before the day: 2021-04-13."),
        ("2021-13-32", "there is no month 13."),
        ("0000-01-01", "there is no year 0000."),
        ("4 Jan 2021", "Write 2021-01-04."),
        ("January 4th, 2021", "Write 2021-01-04."),
        ("24.12.2021", "Write 2021-12-24."),
        ("12/24/2021", "Write 2021-12-24."),
        ("04/01/2021", "Write 2021-01-04 or 2021-04-01."),
        ("30/02/2021", "There is no such day: February 2021 has 28 days."),
        ("2021-01-04T00:00:00Z", "Write 2021-01-04."),
        ("2021-01", "Write the day too, such as 2021-01-01."),
        ("2021", "Write month and day too, such as 2021-12-01."),
        ("30 Feb 2021", "Write YYYY-MM-DD, such as 2021-01-04."),
        ("2021-W01-1", "Write YYYY-MM-DD, such as 2021-01-04."),
        ("yesterday", "'yesterday' is not a date that kgedit reads. Write YYYY-MM-DD, such as 2021-01-04."),
        ("", "Write YYYY-MM-DD"),
        ("٢٠٢١-٠١-٠٤", "Write YYYY-MM-DD"),
    ],
)
def test_what_is_not_read_is_answered_with_the_reason_or_the_form_to_write(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match="is not a date") as error:
        read_day(text)
    assert reason in str(error.value)
