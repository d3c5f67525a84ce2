"""The rules: every fact gets a class for any dates, and the order of facts does not matter."""

from __future__ import annotations

from typing import Any, get_args

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgedit.timesteps.profiles import PAPER, RELEASED_2024, Behaviour
from kgedit.timesteps.wikifactdiff.classification import (
    NO_RULE,
    PREDICATES,
    RULES,
    RULES_RELEASED_2024,
    ClassRule,
    Decision,
    classify,
)
from kgedit.wikidata.times import UNKNOWN_TIME, Time, parse_time

OLD, NEW = 20210104, 20230227

TEXTS = ["1999-00-00", "2015-06-01", "2021-00-00", "2021-01-04", "2022-02-00", "2023-02-27", "2023-00-00", "2026-00-00"]
MOMENTS = [None, UNKNOWN_TIME, *(parse_time(text, 11) for text in TEXTS)]
SIDES = {"old": ("old",), "new": ("new",), "both": ("old", "new")}

SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("subject", "property", "object", "value_type", "value", "unit")),
        *((name, pa.string()) for name in ("language", "precision", "calendar", "term", "side")),
        ("refined", pa.bool_()),
        *(
            (f"{side}_{field}_{part}", pa.string() if part == "time" else pa.int64())
            for side in ("old", "new")
            for field in ("start", "end", "point")
            for part in ("time", "precision", "first", "until")
        ),
        ("old_statement_id", pa.string()),
        ("new_statement_id", pa.string()),
    ]
)


def fact(place: int, side: str, **more: Any) -> dict[str, Any]:
    """A row of `fact`; times are given as start, end and point."""
    times: dict[str, Time | None] = {name: more.pop(name, None) for name in ("start", "end", "point")}
    row = {"subject": "Q1", "property": "P6", "object": f"Q{place}", "term": f"Q{place}", "value_type": "string"}
    row |= {"side": side, "refined": False} | more
    for snapshot in SIDES[side]:
        row[f"{snapshot}_statement_id"] = f"S{place}"
        for name, time in times.items():
            parts = time or Time(None, None, None, None)  # type: ignore[arg-type]
            row |= {f"{snapshot}_{name}_{part}": said for part, said in zip(parts._fields, parts, strict=True)}
            row[f"{snapshot}_{name}_time"] = row.pop(f"{snapshot}_{name}_text")
    return row


def classes(rows: list[dict[str, Any]], behaviour: Behaviour = PAPER) -> dict[str, tuple[str, str]]:
    """By object: decision and rule. P6 is temporal functional; Q900 and Q901 are new entities."""
    connection = duckdb.connect()
    connection.register("fact", pa.Table.from_pylist(rows, schema=SCHEMA))
    connection.execute("CREATE TABLE new_entity AS SELECT unnest(['Q900', 'Q901']) AS id")
    connection.execute("CREATE TABLE functional AS SELECT 'P6' AS property, true AS temporal, false AS by_point")
    connection.execute(
        "CREATE TABLE moment AS SELECT '2022' AS value, '9' AS precision, 20220101 AS first, 20230101 AS until"
    )
    classify(connection, behaviour, old=OLD, new=NEW)
    found = connection.sql("SELECT term, decision, rule FROM classified").fetchall()
    assert len(found) == len(rows)
    return {term: (decision, rule) for term, decision, rule in found}


@st.composite
def groups(draw: st.DrawFn) -> list[dict[str, Any]]:
    time = st.sampled_from(MOMENTS)
    drawn = draw(
        st.lists(
            st.tuples(
                st.sampled_from(["Q1", "Q2", "Q900"]), st.sampled_from(["P6", "P54", "P570"]),
                st.sampled_from(sorted(SIDES)), time, time, time, st.booleans(),
            ),
            min_size=6,
            max_size=40,
        )
    )  # fmt: skip
    return [
        fact(
            place, side, subject=subject, property=name, start=start, end=end, point=point,
            value_type="time" if dated else "string", value="2022" if dated else None, precision="9",
            object=None if dated else f"Q{place}",
        )
        for place, (subject, name, side, start, end, point, dated) in enumerate(drawn)
    ]  # fmt: skip


@pytest.mark.parametrize("behaviour", [PAPER, RELEASED_2024], ids=["paper", "released code"])
@settings(max_examples=4, deadline=None)
@given(rows=groups(), random=st.randoms(use_true_random=False))
def test_every_fact_gets_one_class_whatever_the_order(
    behaviour: Behaviour, rows: list[dict[str, Any]], random: Any
) -> None:
    found = classes(rows, behaviour)
    assert {decision for decision, _ in found.values()} <= set(get_args(Decision))
    assert classes(random.sample(rows, len(rows)), behaviour) == found
    if behaviour is PAPER:
        gone = {row["term"] for row in rows if row["side"] == "old" and row["subject"] != "Q900"}
        assert all(decision not in {"new", "static"} for term, (decision, _) in found.items() if term in gone)


def test_the_first_rule_that_holds_decides() -> None:
    # By rule 8 it would be static; rule 1 comes first.
    assert classes([fact(1, "new", subject="Q900", start=parse_time("1999-00-00", 9))])["Q1"][0] == "new"
    assert classes([fact(1, "new", start=parse_time("1999-00-00", 9))])["Q1"][0] == "static"
    assert classes([fact(1, "new")])["Q1"] == ("unknown", NO_RULE)


def test_an_object_that_is_a_new_entity_makes_an_added_fact_new() -> None:
    assert classes([fact(901, "new")])["Q901"][0] == "new"
    assert classes([fact(901, "both")])["Q901"][0] == "unknown"


def test_the_value_that_gave_way_is_obsolete_in_a_functional_relation_only() -> None:
    began = parse_time("2022-02-00", 10)
    for name, expected in (("P6", "obsolete"), ("P54", "unknown")):
        found = classes([fact(1, "old", property=name), fact(2, "new", property=name, start=began)])
        assert (found["Q1"][0], found["Q2"][0]) == (expected, "new")
    three = classes([fact(1, "old"), fact(2, "new", start=began), fact(3, "old")])
    assert three["Q1"][0] == "unknown"


def test_the_released_code_judges_functional_relations_by_the_first_rules_only() -> None:
    ended = [fact(1, "both", start=parse_time("1999-00-00", 9), end=parse_time("2022-02-00", 10))]
    assert classes(ended)["Q1"][0] == "obsolete"
    assert classes(ended, RELEASED_2024)["Q1"] == ("unknown", "6: any other of a single-valued relation")


@pytest.mark.parametrize("rule", [*RULES, *RULES_RELEASED_2024], ids=lambda rule: f"{rule.number} {rule.meaning}")
def test_a_rule_asks_what_is_a_predicate(rule: ClassRule) -> None:
    words = rule.condition.replace("(", " ").replace(")", " ").split()
    assert {word for word in words if word not in {"AND", "OR", "NOT"}} <= set(PREDICATES)
