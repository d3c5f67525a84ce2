"""The naive difference: applied to the older facts it gives the newer ones, in any order of statements."""

from __future__ import annotations

from collections import Counter
from typing import Any

import duckdb
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from kgedit.timesteps.wikifactdiff.difference import compare
from kgedit.timesteps.wikifactdiff.values import moments

TIMES = {
    f"{field}_{part}": pa.string() if part == "time" else pa.int64()
    for field in ("start", "end", "point")
    for part in ("time", "precision", "first", "until")
}
KEPT = pa.schema(
    [
        *((name, pa.string()) for name in ("subject", "property", "term", "object", "value_type", "value")),
        *((name, pa.string()) for name in ("unit", "language", "precision", "calendar", "statement_id")),
        *TIMES.items(),
    ]
)

DATES = [("2021", "9"), ("2021-03", "10"), ("2021-03-12", "11"), ("2022-03", "10")]
VALUES = [("Q1", None, None), ("Q2", None, None), *((None, *date) for date in DATES)]


@st.composite
def statements(draw: st.DrawFn) -> list[dict[str, Any]]:
    drawn = draw(
        st.lists(
            st.tuples(st.sampled_from(["Q10", "Q11"]), st.sampled_from(VALUES), st.sampled_from([None, 2001, 2002]))
        )
    )
    return [
        {
            "subject": subject,
            "property": "P1",
            "term": item or f"V{value}",
            "object": item,
            "value_type": "string" if item else "time",
            "value": value,
            "precision": precision,
            "statement_id": f"{subject}$S{number}",
            "start_time": year and str(year),
            "start_precision": year and 9,
        }
        for number, (subject, (item, value, precision), year) in enumerate(drawn)
    ]


def facts(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    connection = duckdb.connect()
    for name, rows in (("old_kept", old), ("new_kept", new)):
        connection.register(name, pa.Table.from_pylist(rows, schema=KEPT))
    dates = moments(pa.table({"value": [text for text, _ in DATES], "precision": [said for _, said in DATES]}))
    connection.register("moment", dates)
    counts = compare(connection)
    rows = connection.sql("FROM fact").to_arrow_table().to_pylist()
    sides = Counter(row["side"] for row in rows)
    assert counts == {
        "only in the older": sides["old"],
        "only in the newer": sides["new"],
        "in both": sides["both"],
        "in both, date refined": sum(row["refined"] for row in rows),
    }
    return rows


def values(rows: list[dict[str, Any]]) -> Counter[tuple[str, str]]:
    return Counter((row["subject"], row["term"]) for row in rows)


@settings(max_examples=5, deadline=None)
@given(statements(), statements(), st.randoms(use_true_random=False))
def test_the_difference_applied_to_the_older_facts_gives_the_newer(
    old: list[dict[str, Any]], new: list[dict[str, Any]], random: Any
) -> None:
    found = facts(old, new)
    removed = [row for row in found if row["side"] == "old"]
    added = [row for row in found if row["side"] == "new"]
    refined = [row for row in found if row["refined"]]
    assert values([row for row in found if row["side"] != "old"]) == values(new)
    # The older snapshot has a refined date as another value.
    assert (values(old) - values(removed)).total() == len(found) - len(removed) - len(added)
    assert not values(removed) - values(old)
    assert not values(removed) & values(added)
    shuffled = [random.sample(rows, len(rows)) for rows in (old, new)]
    key = repr
    assert sorted(map(key, facts(*shuffled))) == sorted(map(key, found))
    assert all(row["value_type"] == "time" for row in refined)


def test_of_two_statements_of_one_value_those_of_the_same_dates_are_one_fact() -> None:
    def term(start: str, end: str | None, number: int) -> dict[str, Any]:
        row = {"subject": "Q10", "property": "P39", "term": "Q1", "object": "Q1", "value_type": "string"}
        return row | {"statement_id": f"Q10$S{number}", "start_time": start, "end_time": end}

    found = facts([term("2001", "2005", 7)], [term("2010", None, 1), term("2001", "2005", 2)])
    assert {(row["side"], row["new_start_time"]) for row in found} == {("both", "2001"), ("new", "2010")}


def test_a_date_within_another_is_a_refinement_and_one_beside_it_a_change() -> None:
    def born(text: str, precision: str) -> dict[str, Any]:
        row = {"subject": "Q10", "property": "P569", "term": f"V{text}", "value": text, "precision": precision}
        return row | {"value_type": "time", "statement_id": "Q10$S0"}

    (refined,) = facts([born("2021", "9")], [born("2021-03-12", "11")])
    assert (refined["side"], refined["refined"], refined["value"]) == ("both", True, "2021-03-12")
    moved = facts([born("2021", "9")], [born("2022-03", "10")])
    assert sorted(row["side"] for row in moved) == ["new", "old"]
