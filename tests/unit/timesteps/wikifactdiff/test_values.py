"""Literals in words, and the days that dates may mean."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

from kgedit.timesteps.wikifactdiff.values import moments, prepare_wording_of_literals, word_literals

GivenLiteral = tuple[str | None, str | None, str | None, str | None]
"""Type, value, precision and name of the unit."""


def worded(literal: GivenLiteral) -> tuple[str, list[str], str]:
    """A literal in words, its spellings, and the name of its kind."""
    connection = duckdb.connect()
    prepare_wording_of_literals(connection)
    given = "SELECT $1::VARCHAR AS value_type, $2::VARCHAR AS value, $3::VARCHAR AS precision, $4::VARCHAR AS unit_name"
    query = f"SELECT said, spelled, name_literal(value_type, precision) FROM ({word_literals(given)})"
    (row,) = connection.execute(query, list(literal)).fetchall()
    return row


@pytest.mark.parametrize(
    ("literal", "words", "kind"),
    [
        (("quantity", "83190556", None, None), "83,190,556", "Quantity"),
        (("quantity", "1.5", None, "kilometre"), "1.5 kilometres", "Quantity"),
        (("quantity", "-1234.25", None, None), "-1,234.25", "Quantity"),
        (("quantity", "999", None, None), "999", "Quantity"),
        (("quantity", "0.00000012", None, None), "0.00000012", "Quantity"),
        (("quantity", "-0.000012345678", None, None), "-0.000012", "Quantity"),
        (("quantity", "50", None, "pound sterling"), "50 pounds sterling", "Quantity"),
        (("quantity", "73", None, "yottagram"), "73 yottagrams", "Quantity"),
        (("quantity", "3", None, "square foot"), "3 square feet", "Quantity"),
        (("quantity", "3", None, "kilowatt hour"), "3 kilowatt hours", "Quantity"),
        (("quantity", "3", None, "Japanese yen"), "3 Japanese yen", "Quantity"),
        (("time", "2021-03-12", "11", None), "12 March 2021", "Date"),
        (("time", "2021-03", "10", None), "March 2021", "Month"),
        (("time", "2021", "9", None), "2021", "Year"),
        (("time", "1995", "8", None), "1990s", "Year"),
        (("time", "1950", "7", None), "20th century", "Year"),
        (("time", "1001", "7", None), "11th century", "Year"),
        (("time", "2500", "6", None), "3rd millennium", "Year"),
        (("time", "-0044-03-15", "11", None), "15 March 44 BC", "Date"),
        (("time", "0014", "9", None), "14 AD", "Year"),
        (("time", "-65000000", "3", None), "65,000,000 BC", "Year"),
        (("string", "Ex lege libertas", None, None), "Ex lege libertas", "String"),
        (("monolingualtext", "la République", None, None), "la République", "String"),
    ],
)
def test_a_literal_is_written_as_people_write_it(literal: GivenLiteral, words: str, kind: str) -> None:
    said, _, kind_of_literal = worded(literal)
    assert (said, kind_of_literal) == (words, kind)


def test_a_date_means_all_days_of_its_precision_and_what_is_none_is_left_out() -> None:
    table = pa.table({"value": ["2021", "2021-03", "-0044-03-15", "soon"], "precision": ["9", "10", "11", "9"]})
    assert [(row["first"], row["until"]) for row in moments(table).to_pylist()] == [
        (20210101, 20220101),
        (20210301, 20210401),
        (-439685, -439684),
    ]


@pytest.mark.parametrize(
    ("literal", "spellings"),
    [
        (("quantity", "+83190556", None, None), ["83190556", "83,190,556"]),
        (("quantity", "+1", None, "kilometre"), ["1", "1 kilometre"]),
        (
            ("quantity", "+1200", None, "United States dollar"),
            [
                *("1200", "1,200", "1200 United States dollar", "1200 United States dollars"),
                *("1,200 United States dollar", "1,200 United States dollars"),
            ],
        ),
        (
            ("time", "2021-03-12", "11", None),
            [
                *("12 March 2021", "12th March 2021", "12 Mar 2021", "2021-03-12"),
                *("March 12, 2021", "March 12th, 2021", "Mar 12, 2021"),
            ],
        ),
        (("time", "2021-03", "10", None), ["March 2021", "Mar 2021", "2021-03"]),
        (("time", "2021", "9", None), ["2021"]),
        (("time", "-0427", "9", None), ["427 BC", "427 BCE"]),
        (("time", "0080", "9", None), ["80 AD", "80 CE", "AD 80", "80"]),
        (("time", "1995", "8", None), ["the 1990s"]),
        (("time", "1850", "7", None), ["the 19th century"]),
        (("string", "Ex lege libertas", None, None), []),
    ],
)
def test_a_literal_has_other_accepted_spellings(literal: GivenLiteral, spellings: list[str]) -> None:
    assert worded(literal)[1] == sorted(spellings)


def test_a_quantity_has_at_most_six_decimals_and_one_of_a_unit_is_singular() -> None:
    quantities = (("3.14159265358979", None), ("1", "metre"), ("20", "metre per second"), ("2", "hertz"))
    said = [worded(("quantity", value, None, unit))[0] for value, unit in quantities]
    assert said == ["3.141592", "1 metre", "20 metres per second", "2 hertz"]
