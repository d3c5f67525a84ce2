"""The choice of locality probes, from tables alone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from world.dumps import entity, entity_value, snak, statement, time_value
from world.small_timestep import write_timestep
from world.two_days import about, item, two_snapshots

from kgedit.store.window import Window
from kgedit.timesteps.engines.store import StoreEngine
from kgedit.timesteps.locality import CHOSEN, assign, choose_probes, find_locality, read_families, related_relations
from kgedit.timesteps.tables import find_evidence

CASES = pa.schema(
    [(name, pa.string()) for name in ("case_id", "subject", "subject_label", "property", "object")]
    + [("old_objects", pa.list_(pa.string()))]
)
FACTS = pa.schema(
    [
        *((name, pa.string()) for name in ("subject", "subject_label", "property", "property_label")),
        *((name, pa.string()) for name in ("object", "object_label", "evidence")),
        ("object_aliases", pa.list_(pa.string())),
        *((name, pa.bool_()) for name in ("pooled", "untouched", "changed")),
    ]
)
SIMILAR = pa.schema(
    [*((name, pa.string()) for name in ("case_id", "subject", "property", "object")), ("score", pa.float64())]
)
CLASSES = pa.schema([("id", pa.string()), ("classes", pa.list_(pa.string()))])
RELATIONS = pa.schema([("property", pa.string()), ("other", pa.string()), ("likeness", pa.float64())])


def cases(*ids: str, **changes: Any) -> pa.Table:
    """Cases Q1:P6, Q2:P6 ...: of subjects named Borgholm."""
    rows = [
        {
            "case_id": name,
            "subject": name,
            "subject_label": "Borgholm",
            "property": "P6",
            "object": "Q20",
            "old_objects": [],
        }
        | changes
        for name in ids or ("Q1",)
    ]
    return pa.Table.from_pylist(rows, schema=CASES)


def fact(subject: str, label: str, end: str, **changes: Any) -> dict[str, Any]:
    return {
        "subject": subject,
        "subject_label": label,
        "property": "P6",
        "property_label": "head",
        "object": end,
        "object_label": f"Item {end}",
        "object_aliases": [],
        "pooled": True,
        "untouched": True,
        "changed": False,
    } | changes


def chosen(
    given: pa.Table,
    facts: list[dict[str, Any]],
    likened: dict[str, float] | None = None,
    relations: list[tuple[str, str, float]] | None = None,
    max_uses: int = 3,
    classes: dict[str, str] | None = None,
) -> list[tuple[str, str]]:
    """Subject and basis of the probe of each case that has one; `likened` are the scores of facts, by subject."""
    similar = [
        {name: row[name] for name in ("subject", "property", "object")}
        | {"case_id": case, "score": likened[row["subject"]]}
        for case in given["case_id"].to_pylist()
        for row in facts
        if likened and row["subject"] in likened
    ]
    others = [dict(zip(RELATIONS.names, row, strict=True)) for row in relations or []]
    numbered = pa.Table.from_pylist(facts, schema=FACTS)
    tables = {
        "asked_case": given.append_column("place", pa.array(range(given.num_rows))),
        "similar_fact": pa.Table.from_pylist(similar, schema=SIMILAR),
        "near_fact": numbered.append_column("number", pa.array(range(numbered.num_rows))),
        "class_of": pa.Table.from_pylist(
            [{"id": name, "classes": [of]} for name, of in (classes or {}).items()], schema=CLASSES
        ),
    }
    with duckdb.connect() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        choose_probes(connection, pa.Table.from_pylist(others, schema=RELATIONS), max_uses=max_uses)
        probes = connection.sql("FROM probe ORDER BY case_id").to_arrow_table()
    return [(row["subject"], row["basis"]) for row in probes.to_pylist()]


def test_a_timestep_of_an_earlier_version_is_read_without_its_column_fresh(tmp_path: Path) -> None:
    timestep = write_timestep(tmp_path / "step", towns=range(2))
    written = timestep.table("locality")
    path = timestep.folder / "locality.parquet"
    pq.write_table(written.append_column("fresh", pa.array([True] * written.num_rows)), path)
    assert "fresh" not in written.column_names
    assert timestep.table("locality").equals(written)


def test_a_page_of_wikimedia_is_no_subject_and_no_answer_of_a_probe(tmp_path: Path) -> None:
    pages = [item("Q40", about("P31", "Q17633526"), label="News"), item("Q41", about("P31", "Q42"), label="Main page")]
    classes = [item("Q42", about("P279", "Q4663261"), label="page class")]
    things = [item("P6", label="head"), item("Q20", label="Ann Lee"), item("Q21", label="Bo Ek"), *pages, *classes]
    static = [
        item("Q2", about("P6", "Q40"), label="Borgholm"),
        item("Q3", about("P6", "Q41"), label="Borgholmen"),
        item("Q41", about("P31", "Q42"), about("P6", "Q21"), label="Main page"),
        item("Q4", about("P6", "Q21"), label="Falun"),
    ]
    world = [one for one in things if one["id"] != "Q41"] + static
    before, after = two_snapshots(
        tmp_path, [item("Q1", label="Borgholm"), *world], [item("Q1", about("P6", "Q20"), label="Borgholm"), *world]
    )
    with Window(before, after, spill=tmp_path / "spill") as window:
        window.add("worded_case", cases())
        find_locality(StoreEngine(), window, pool=10, max_df=10, max_uses=3)
        probes = window.select("FROM probe").to_pylist()
    assert [(row["subject_label"], row["object_label"]) for row in probes] == [("Falun", "Bo Ek")]


def test_the_most_similar_fact_is_taken_and_of_equals_the_first() -> None:
    facts = [fact("Q2", "b", "Q50"), fact("Q3", "c", "Q30"), fact("Q4", "d", "Q40"), fact("Q9", "Borgholm", "Q90")]
    assert chosen(cases(), facts, {"Q4": 2.0, "Q3": 2.0, "Q2": 1.0}) == [("Q3", "graph")]


@pytest.mark.parametrize(
    ("scores", "first"), [((2.04, 2.0, 2.01), "Q4"), ((2.04, 2.03, 1.0), "Q3"), ((2.2, 2.0, 2.0), "Q2")]
)
def test_of_equally_similar_facts_a_dated_one_comes_first_then_one_of_an_edited_item(
    scores: tuple[float, ...], first: str
) -> None:
    """Similarities that differ by more than a tenth are not equal: evidence does not outweigh them."""
    facts = [
        fact("Q2", "b", "Q50"),
        fact("Q3", "c", "Q30", evidence="edited"),
        fact("Q4", "d", "Q40", evidence="dated"),
    ]
    likened = dict(zip(("Q2", "Q3", "Q4"), scores, strict=True))
    assert chosen(cases(), facts, likened) == [(first, "graph")]


def test_evidence_is_a_date_of_the_statement_or_an_edit_of_its_item_that_kept_it(tmp_path: Path) -> None:
    since = snak("P580", time_value("+2015-01-01T00:00:00Z", 11))
    dated = entity("Q2", statement(snak("P6", entity_value("Q21")), since), label="Falun", lastrevid=7)
    kept = [entity("Q3", about("P6", "Q21"), label="Rättvik", lastrevid=number) for number in (7, 8)]
    plain = entity("Q4", about("P6", "Q21"), label="Ystad", lastrevid=7)
    before, after = two_snapshots(tmp_path, [dated, kept[0], plain], [dated, kept[1], plain])
    with Window(before, after, spill=tmp_path / "spill") as window:
        found = window.select(
            find_evidence("given"), given=window.select("SELECT * FROM new_facts WHERE property = 'P6'")
        )
    assert {(row["subject"], row["evidence"]) for row in found.to_pylist()} == {
        ("Q2", "dated"), ("Q3", "edited"), ("Q4", None)
    }  # fmt: skip


def test_where_none_is_similar_the_subject_most_alike_in_name_is_taken() -> None:
    assert chosen(cases(), [fact("Q2", "Falun", "Q30"), fact("Q3", "Borgholmen", "Q31")]) == [("Q3", "label")]


@pytest.mark.parametrize(
    "change",
    [
        {"subject": "Q1"},
        {"object": "Q20"},
        {"object": "Q21"},
        {"pooled": False},
        {"untouched": False},
        {"property": "P7"},
    ],
)
def test_a_probe_by_name_has_another_subject_another_object_and_was_not_edited(change: dict[str, Any]) -> None:
    given = cases(old_objects=["Q21"])
    assert chosen(given, [fact("Q2", "Borgholm", "Q30")]) == [("Q2", "label")]
    assert chosen(given, [fact("Q2", "Borgholm", "Q30") | change]) == []


def test_where_a_relation_has_no_fact_left_its_family_gives_one_about_a_subject_of_the_same_class() -> None:
    facts = [fact("Q2", "Borgholm", "Q30", property="P7"), fact("Q3", "Falun", "Q31", property="P8")]
    near, towns = [("P6", "P7", 0.1), ("P6", "P8", 0.9)], {"Q1": "Q515", "Q2": "Q515", "Q3": "Q515"}
    assert chosen(cases(), facts, relations=near, classes=towns) == [("Q3", "relation")]
    assert chosen(cases(), facts, relations=near, classes=towns | {"Q3": "Q5"}) == [("Q2", "relation")]
    assert chosen(cases(), facts, relations=near, classes={}) == []
    assert chosen(cases(), facts, relations=[("P9", "P7", 0.9)], classes=towns) == []


def test_a_relation_is_in_one_family_at_most() -> None:
    members = [name for names in read_families().values() for name in names]
    assert len(members) == len(set(members))
    assert all(re.fullmatch(r"P[1-9]\d*", name) for name in members)


def test_families_are_the_shipped_ones_and_those_of_subproperties(tmp_path: Path) -> None:
    world = [item("P900", about("P1647", "P902")), item("P901", about("P1647", "P902")), item("P902"), item("P903")]
    with Window(*two_snapshots(tmp_path, world, world), spill=tmp_path / "spill") as window:
        pairs = {(row["property"], row["other"]) for row in related_relations(window).to_pylist()}
    assert {("P900", "P901"), ("P901", "P900"), ("P900", "P902"), ("P902", "P901"), ("P6", "P35")} <= pairs
    assert not [pair for pair in pairs if "P903" in pair]
    assert ("P488", "P39") not in pairs  # a committee's chair is no office of a person


def test_a_fact_serves_no_more_cases_than_allowed() -> None:
    facts = [fact("Q10", "Borgholm", "Q30"), fact("Q11", "Falun", "Q31")]
    ids = ("Q1", "Q2", "Q3", "Q4", "Q5")
    assert chosen(cases(*ids), facts, max_uses=2) == [("Q10", "label")] * 2 + [("Q11", "label")] * 2
    # A fact that is used up as a similar one is used up for the others too.
    assert chosen(cases(*ids), facts[:1], {"Q10": 1.0}, max_uses=2) == [("Q10", "graph")] * 2


def test_of_two_cases_that_want_one_fact_the_better_suited_has_it_and_the_other_its_next_choice() -> None:
    with duckdb.connect() as connection:
        connection.execute(CHOSEN)
        connection.execute(
            "CREATE TABLE candidate AS FROM (VALUES (0, 5, 1.0, 1), (0, 6, 0.5, 2), (1, 5, 2.0, 1), (1, 6, 0.1, 2)) "
            "AS v(place, number, score, rank)"
        )
        assign(connection, "graph", max_uses=1)
        connection.execute("CREATE OR REPLACE TABLE candidate AS SELECT 2 AS place, * EXCLUDE (place) FROM candidate")
        assign(connection, "label", max_uses=1)
        assert connection.sql("SELECT place, number, basis FROM chosen ORDER BY ALL").fetchall() == [
            (0, 6, "graph"),
            (1, 5, "graph"),
        ]
        assign(connection, "label", max_uses=2)
        assert connection.sql("SELECT place, number, basis FROM chosen ORDER BY ALL").fetchall()[2:] == [
            (2, 5, "label")
        ]
