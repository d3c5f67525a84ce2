"""Times are intervals with the precision of the data."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgedit.wikidata.times import DAY, DECADE, MONTH, YEAR, Time, day_number, parse_time

CENTURY, MILLENNIUM = 7, 6

years = st.integers(-9999, 9999).filter(bool)
days = st.dates(date(1, 1, 1), date(9999, 12, 30))


def written(year: int, month: int = 0, day: int = 0) -> str:
    return f"{'-' if year < 0 else '+'}{abs(year):04d}-{month:02d}-{day:02d}T00:00:00Z"


@pytest.mark.parametrize(
    ("text", "precision", "expected"),
    [
        ("+2021-01-04T00:00:00Z", DAY, Time("2021-01-04", DAY, 20210104, 20210105)),
        ("+2021-12-31T00:00:00Z", DAY, Time("2021-12-31", DAY, 20211231, 20220101)),
        ("+2020-02-28T00:00:00Z", DAY, Time("2020-02-28", DAY, 20200228, 20200229)),
        ("+2021-03-00T00:00:00Z", MONTH, Time("2021-03", MONTH, 20210301, 20210401)),
        ("+2021-12-00T00:00:00Z", MONTH, Time("2021-12", MONTH, 20211201, 20220101)),
        ("+2021-00-00T00:00:00Z", YEAR, Time("2021", YEAR, 20210101, 20220101)),
        ("+2021-07-09T00:00:00Z", YEAR, Time("2021", YEAR, 20210101, 20220101)),
        ("+1985-00-00T00:00:00Z", DECADE, Time("1985", DECADE, 19800101, 19900101)),
        ("+2000-00-00T00:00:00Z", CENTURY, Time("2000", CENTURY, 19010101, 20010101)),
        ("+2001-00-00T00:00:00Z", CENTURY, Time("2001", CENTURY, 20010101, 21010101)),
        ("+2000-00-00T00:00:00Z", MILLENNIUM, Time("2000", MILLENNIUM, 10010101, 20010101)),
        ("-0044-03-15T00:00:00Z", DAY, Time("-0044-03-15", DAY, -439685, -439684)),
        ("-0044-00-00T00:00:00Z", YEAR, Time("-0044", YEAR, -439899, -429899)),
        ("-0044-00-00T00:00:00Z", DECADE, Time("-0044", DECADE, -489899, -389899)),
        ("-0044-00-00T00:00:00Z", CENTURY, Time("-0044", CENTURY, -999899, 101)),
    ],
)
def test_an_interval_spans_what_the_precision_says(text: str, precision: int, expected: Time) -> None:
    assert parse_time(text, precision) == expected


@pytest.mark.parametrize("zeros", ["", "0000000", "000000000000"])
def test_the_zeros_that_dumps_of_2015_put_before_years_mean_nothing(zeros: str) -> None:
    assert parse_time(f"+{zeros}2015-11-09T00:00:00Z", DAY) == parse_time("+2015-11-09T00:00:00Z", DAY)
    assert parse_time(f"-{zeros}0044-03-15T00:00:00Z", DAY) == parse_time("-0044-03-15T00:00:00Z", DAY)


@pytest.mark.parametrize(
    ("text", "precision"), [("+2015-00-00T00:00:00Z", YEAR), ("+2015-03-00T00:00:00Z", MONTH), ("+2015-00-15", YEAR)]
)
def test_a_missing_month_or_day_lowers_the_precision(text: str, precision: int) -> None:
    assert parse_time(text, DAY).precision == precision


@pytest.mark.parametrize("precision", [12, 13, 14])
def test_hours_minutes_and_seconds_become_days(precision: int) -> None:
    assert parse_time("+2015-11-09T12:30:00Z", precision) == parse_time("+2015-11-09T00:00:00Z", DAY)


def test_a_leap_day_of_the_julian_calendar_lies_between_its_neighbours() -> None:
    before, leap, after = (parse_time(f"+1700-{day}T00:00:00Z", DAY) for day in ("02-28", "02-29", "03-01"))
    assert leap.text == "1700-02-29"
    assert before.first < leap.first < leap.until <= after.first


def test_the_age_of_the_universe_fits() -> None:
    big_bang = parse_time("-13798000000-00-00T00:00:00Z", 3)
    assert big_bang.first <= -13798000000 * 10000 + 101 < big_bang.until < parse_time("-9999-01-01", DAY).first


@pytest.mark.parametrize("precision", range(15))
@pytest.mark.parametrize("sign", "+-")
def test_every_time_fits_a_column_of_64_bits(sign: str, precision: int) -> None:
    time = parse_time(f"{sign}99999999999999-12-31T00:00:00Z", precision)
    assert -(2**63) <= time.first < time.until < 2**63


@pytest.mark.parametrize(
    ("text", "precision"),
    [
        ("", DAY),
        ("2021", DAY),
        ("+2021-13-01T00:00:00Z", DAY),
        ("+2021-01-32T00:00:00Z", DAY),
        ("+2021-01-04T00:00:00Z", -1),
        ("+2021-01-04T00:00:00Z", 15),
        ("+9999999999999999-01-01T00:00:00Z", DAY),
        ("+2021-01-04T00:00:00Z\n", 99),
        ("+2021-01-04 or so", DAY),
    ],
)
def test_what_is_no_time_is_an_error(text: str, precision: int) -> None:
    with pytest.raises(ValueError, match="not a Wikidata time"):
        parse_time(text, precision)


@given(years, st.integers(1, 12), st.integers(1, 31), st.integers(0, 14))
def test_an_interval_contains_the_day_and_every_finer_interval(year: int, month: int, day: int, precision: int) -> None:
    fine = parse_time(written(year, month, day), DAY)
    coarse = parse_time(written(year, month, day), precision)
    assert fine.first == year * 10000 + month * 100 + day
    assert coarse.first <= fine.first < fine.until <= coarse.until


@given(days, days)
def test_days_keep_their_order_and_do_not_overlap(one: date, other: date) -> None:
    earlier, later = (parse_time(written(*day.timetuple()[:3]), DAY) for day in sorted((one, other)))
    assert earlier == later or earlier.until <= later.first


@given(days)
def test_the_next_day_begins_where_a_day_ends(day: date) -> None:
    tomorrow = date.fromordinal(day.toordinal() + 1)
    assert parse_time(written(*day.timetuple()[:3]), DAY).until == day_number(tomorrow)


@given(years, years, st.integers(0, YEAR))
def test_coarse_intervals_are_equal_or_do_not_overlap(one: int, other: int, precision: int) -> None:
    earlier, later = (parse_time(written(year), precision) for year in sorted((one, other)))
    same = (earlier.first, earlier.until) == (later.first, later.until)
    assert same or earlier.until <= later.first


@given(years)
def test_a_year_ends_where_the_next_begins(year: int) -> None:
    next_year = year + 1 or 1
    until, first = parse_time(written(year), YEAR).until, parse_time(written(next_year), YEAR).first
    # There is no year 0: AD 1 follows 1 BC.
    assert until == first or (year, until) == (-1, 101)
