"""Dates in questions are recognised; facts of that day are given at their known precision."""

from __future__ import annotations

import numpy as np
import pytest

from kgedit.graph_memory.dates import (
    HOLDS,
    UNKNOWN_END,
    DatedQuestion,
    Period,
    date_number,
    date_text,
    holding,
    period_of,
    read_date,
    read_time,
)
from kgedit.graph_memory.languages import read_lexicon
from kgedit.graph_memory.longer_names import read_date_beside_names
from kgedit.wording.name_index import NameIndex


def _read(question: str) -> DatedQuestion:
    """Read a question to a memory that knows some names."""
    index = NameIndex()
    index.extend(names := ["Norway", "Bologna FC 1909", "Theresa May", "1917", "March"], range(len(names)))
    return read_date_beside_names(question, index.find)


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
        # Months in short, and figures. Only the year counts where either may be the month.
        ("Who led Norway on Sep 1, 2020?", "Who led Norway?", "2020-09-01"),
        ("Who led Norway in Sept. 2020?", "Who led Norway?", "2020-09"),
        ("3 Dez. 2020: who led Norway?", "who led Norway?", "2020-12-03"),
        ("Who led Norway on the 5th of March 2019?", "Who led Norway?", "2019-03-05"),
        ("Who led Norway on 5/3/2019?", "Who led Norway?", "2019"),
        ("Who led Norway on 05.03.2019?", "Who led Norway?", "2019"),
        ("Who led Norway on 31/12/2019?", "Who led Norway?", "2019-12-31"),
        ("Who led Norway on 12/31/2019?", "Who led Norway?", "2019-12-31"),
        ("Who led Norway in 03/2019?", "Who led Norway?", "2019-03"),
        # A year anywhere.
        ("Who led Norway (2019)?", "Who led Norway?", "2019"),
        ("Who led Norway (in 2019)?", "Who led Norway?", "2019"),
        ("2019: who led Norway?", "who led Norway?", "2019"),
        ("Norway leader 2019 name please", "Norway leader name please", "2019"),
        ("Leader of Norway 2019, who?", "Leader of Norway who?", "2019"),
        ("Who was the 2019 leader of Norway?", "Who was the leader of Norway?", "2019"),
        ("Who led 2019 Norway?", "Who led Norway?", "2019"),
        ("Who was Norway's 2019 leader?", "Who was Norway's leader?", "2019"),
        ("Who coached Norway at the 2022 World Cup?", "Who coached Norway at the World Cup?", "2022"),
        ("In March 2019, who was mayor of March?", "who was mayor of March?", "2019-03"),
        # Names, titles, numbers, and one end of a time.
        ("Did Bologna FC 1909 move?", "Did Bologna FC 1909 move?", ""),
        ("Who coached Bologna FC 1909 in 2019?", "Who coached Bologna FC 1909?", "2019"),
        ("Who plays the lead in 1917?", "Who plays the lead in 1917?", ""),
        ("Was Theresa May 2019 still in office?", "Was Theresa May still in office?", "2019"),
        ("Which 2022 FIFA World Cup did Norway win?", "Which 2022 FIFA World Cup did Norway win?", ""),
        ("Is Blade Runner 2049 set in Norway?", "Is Blade Runner 2049 set in Norway?", ""),
        ("What did resolution 2019 say to Norway?", "What did resolution 2019 say to Norway?", ""),
        ("Has Norway 2000 soldiers or 2000 people?", "Has Norway soldiers or 2000 people?", "2000"),
        ("Has Norway 2000 km of coast?", "Has Norway 2000 km of coast?", ""),
        ("My 2019 Norway is torn. Who leads it?", "My 2019 Norway is torn. Who leads it?", ""),
        ("Who led Norway before 2019, please?", "Who led Norway before 2019, please?", ""),
        ("What about 2019?", "What about?", "2019"),
        ("Which party was Norway's leader from in 2019?", "Which party was Norway's leader from?", "2019"),
    ],
)
def test_a_date_is_taken_out_of_a_question(question: str, text: str, as_of: str) -> None:
    assert _read(question) == DatedQuestion(text, as_of)


@pytest.mark.parametrize(
    ("question", "text", "as_of", "until"),
    [
        ("Who led Norway: 2019 vs 2024?", "Who led Norway?", "2019", "2024"),
        ("Who led Norway in 2022 and in 2019?", "Who led Norway?", "2019", "2022"),
        ("Who led Norway in March 2019 or in May 2021?", "Who led Norway?", "2019-03", "2021-05"),
        ("Who led Norway, from 2019 to 2022, please?", "Who led Norway, please?", "2019", "2022"),
        ("Who led Norway 2019-2022?", "Who led Norway?", "2019", "2022"),
        ("Who coached Norway in the 2019/20 season?", "Who coached Norway?", "2019", "2020"),
        ("Who led Norway in 2019-12?", "Who led Norway?", "2019-12", ""),
        ("Who led Norway in 2019, in May 2019?", "Who led Norway in 2019?", "2019-05", ""),
        ("Who led Norway from June 2021 to December 2021?", "Who led Norway?", "2021-06", "2021-12"),
        ("Who led Norway between March 2006 and June 2009?", "Who led Norway?", "2006-03", "2009-06"),
        ("Who led Norway between 2006 and March 2009?", "Who led Norway?", "2006", "2009-03"),
        ("From 1 January 2021 to the 31st of May 2021 who led Norway?", "who led Norway?", "2021-01-01", "2021-05-31"),
        ("Who led Norway in september and october 2022?", "Who led Norway?", "2022-09", "2022-10"),
        ("Who led Norway from early to mid 2022?", "Who led Norway?", "2022-01", "2022-07"),
        ("Who led Norway March 2019 until May 2021?", "Who led Norway?", "2019-03", "2021-05"),
        ("Who led Norway since May 2020 until twenty twenty-two?", "Who led Norway?", "2020-05", "2022"),
        ("Who led Norway in May 2020 or in July 2020?", "Who led Norway?", "2020-05", "2020-07"),
        ("Who led Norway between 2021-02-01 and 2021-03-31?", "Who led Norway?", "2021-02-01", "2021-03-31"),
    ],
)
def test_several_years_are_one_period(question: str, text: str, as_of: str, until: str) -> None:
    assert _read(question) == DatedQuestion(text, as_of, until)


@pytest.mark.parametrize(
    ("language", "time"),
    [
        ("en", "before 2022"),
        ("en", "after 2022"),
        ("en", "since 2021"),
        ("en", "until 2021"),
        ("en", "prior to 2021"),
        ("en", "up to the end of 2021"),
        ("en", "before March 2006"),
        ("en", "since about twenty twenty-one"),
        ("en", "until 31/12/2021"),
        ("en", "from 2021 onwards"),
        ("de", "vor 2022"),
        ("de", "seit 2021"),
        ("de", "bis März 2021"),
        ("fr", "avant 2022"),
        ("fr", "depuis 2021"),
        ("fr", "jusqu'en 2021"),
        ("es", "antes de 2022"),
        ("es", "desde marzo de 2021"),
        ("es", "hasta 2021"),
    ],
)
def test_one_end_of_a_time_is_no_date_and_asks_for_the_history(language: str, time: str) -> None:
    lexicon = read_lexicon(language)
    time = time if lexicon is None else lexicon.read(time, ())
    for question in (f"Who led Norway {time}?", f"Who was {time} the leader of Norway?"):
        asked = read_time(_read(question), question)
        assert (asked.text, asked.period, asked.asks_history) == (question, None, True)


@pytest.mark.parametrize(
    ("language", "time"),
    [
        ("de", "von Juni 2021 bis Dezember 2021"),
        ("de", "zwischen Juni und Dezember 2021"),
        ("fr", "de juin 2021 à décembre 2021"),
        ("fr", "entre juin 2021 et décembre 2021"),
        ("es", "de junio a diciembre de 2021"),
        ("es", "desde junio de 2021 hasta diciembre de 2021"),
        ("es", "entre junio de 2021 y diciembre de 2021"),
    ],
)
def test_a_period_within_a_year_is_read_in_other_languages(language: str, time: str) -> None:
    lexicon = read_lexicon(language)
    assert lexicon is not None
    assert _read(f"Who led Norway {lexicon.read(time, ())}?") == DatedQuestion("Who led Norway?", "2021-06", "2021-12")


@pytest.mark.parametrize(
    ("language", "time", "as_of", "until"),
    [
        ("en", "in the 1990s", "1990", "1999"),
        ("en", "during the late 2010s", "2010", "2019"),
        ("en", "in the year 2010", "2010", ""),
        ("de", "im Jahr 2010", "2010", ""),
        ("en", "in the 1800s", "1800", "1899"),
        ("en", "in the 1980s and 1990s", "1980", "1999"),
        ("en", "in the 80s and 90s", "1980", "1999"),
        ("en", "from the 1990s to 2010", "1990", "2010"),
        ("en", "in the 90s", "1990", "1999"),
        ("en", "in '19", "2019", ""),
        ("en", "in '98", "1998", ""),
        ("de", "in den 1990er Jahren", "1990", "1999"),
        ("de", "in den 90ern", "1990", "1999"),
        ("fr", "dans les années 2010", "2010", "2019"),
        ("fr", "dans les années 90", "1990", "1999"),
        ("es", "en los años 1990", "1990", "1999"),
        ("es", "en los años 90", "1990", "1999"),
    ],
)
def test_a_decade_and_a_year_of_two_figures_are_read(language: str, time: str, as_of: str, until: str) -> None:
    lexicon = read_lexicon(language)
    time = time if lexicon is None else lexicon.read(time, ())
    assert _read(f"Who led Norway {time}?") == DatedQuestion("Who led Norway?", as_of, until)
    assert _read(f"Who was {time} the leader of Norway?") == DatedQuestion(
        "Who was the leader of Norway?", as_of, until
    )


def test_a_number_of_years_and_one_end_of_a_time_are_no_decade() -> None:
    for question in (
        "Who led Norway for 20 years?",
        "Who led Norway before the 1990s?",
        "Who runs Norway in 60s?",
        "Who led Norway since the 90s?",
        "Which club of Norway has about 1500 to 2000 members?",
        "Is Norway more than 1800 to 2000 meters high?",
    ):
        assert _read(question).as_of == ""
    for question in ("Who led Norway since the 1990s?", "Who led Norway since the 90s?"):
        assert read_time(_read(question), question).asks_history


def test_a_period_of_several_dates_has_the_days_between_them() -> None:
    assert read_date("Who led Norway: 2019 vs March 2024?").period == Period(20190101, 20240399)
    assert read_date("Who leads Norway?").period is None


def test_many_spaces_and_years_take_no_longer_than_other_text() -> None:
    # Steps of a search that are quadratic in either take minutes.
    assert read_date(f"Who led Norway{' ' * 50_000}2019 {'2019 ' * 10_000}?").as_of == "2019"


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
        ("2005", "2005", "2004-12-31", False),
        ("2005", "2005", "2005-06", True),
        ("2005", "2005", "2006-01-01", False),
        ("2005-03-05", "2005", "2005-12-31", True),
        ("2005-03-05", "2005-03-05", "2005-03-05", True),
        ("2005-03-05", "2005-03-05", "2005-03-06", False),
    ],
)
def test_a_value_held_on_every_day_that_its_dates_allow(since: str, until: str, asked: str, held: bool) -> None:
    interval = np.array([date_number(since)], dtype=np.int32), np.array([date_number(until)], dtype=np.int32)
    assert holding(*interval, period_of(asked)).tolist() == [held]


def test_without_a_date_what_has_not_ended_holds() -> None:
    until = np.array([HOLDS, UNKNOWN_END, 20210101], dtype=np.int32)
    assert holding(np.zeros(3, dtype=np.int32), until, None).tolist() == [True, False, False]
