"""Timelines agree with the snapshot of every date, and deltas applied one by one give the same as all at once."""

from __future__ import annotations

import tempfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from world.dumps import Json, entity, entity_value, load, snak, statement, text_value, write_dump

from kgedit.errors import GraphError
from kgedit.store.delta import DELTA_STEPS, write_delta, write_whole
from kgedit.store.digests import ENTITIES_KEPT, with_digests
from kgedit.store.facts import current_facts
from kgedit.store.schemas import CLAIMS_KEPT, ENTITIES
from kgedit.store.scope import Scope
from kgedit.store.snapshots import Snapshot
from kgedit.store.timeline import CLAIM_COLUMNS, FACT_COLUMNS, REDIRECT_COLUMNS, TERM_COLUMNS, open_timeline
from kgedit.wikidata.times import OPEN_END, parse_time

DATES = (20210104, 20230227, 20240603)
IDS = ("Q1", "Q2", "Q3", "Q4", "P1")
COLUMNS = {"facts": FACT_COLUMNS, "claims": CLAIM_COLUMNS, "redirects": REDIRECT_COLUMNS, "terms": TERM_COLUMNS}


@dataclass(frozen=True)
class Said:
    """A statement of one snapshot; an object that begins with a quote is a literal."""

    subject: str
    object: str
    rank: str = "normal"
    restricted: bool = False
    snak: str = "value"
    start: int | None = None
    end: int | None = None
    point: int | None = None
    property: str = "P1"


@dataclass(frozen=True)
class State:
    """One snapshot: statements by their id, labels of entities, redirects."""

    statements: dict[str, Said] = field(default_factory=dict)
    entities: dict[str, str] = field(default_factory=dict)
    redirects: dict[str, str] = field(default_factory=dict)


def times(name: str, year: int | None) -> Json:
    if year is None:
        return {}
    time = parse_time(f"+{year}-01-01T00:00:00Z", 9)
    parts = {"time": time.text, "precision": time.precision, "first": time.first, "until": time.until}
    return {f"{name}_{part}": value for part, value in parts.items()}


def claim(name: str, said: Said) -> Json:
    literal, has_value = said.object.startswith("'"), said.snak == "value"
    content = repr((said.subject, said.object, said.rank, said.snak, said.start, said.end, said.point))
    return (
        dict.fromkeys(CLAIMS_KEPT.names)
        | {
            "statement_id": name,
            "subject": said.subject,
            "property": said.property,
            "rank": said.rank,
            "snak": said.snak,
            "datatype": "string" if literal else "wikibase-item",
            "object": said.object if has_value and not literal else None,
            "value": said.object if has_value and literal else None,
            "qualifier_properties": [],
            "separators": [],
            "version": zlib.crc32(content.encode()),
            "restricted": said.restricted,
        }
        | times("start", said.start)
        | times("end", said.end)
        | times("point", said.point)
    )


def write(state: State, folder: Path) -> Snapshot:
    """A snapshot as a load would have written it."""
    folder.mkdir()
    made = [claim(*one) | {"place": 7 + place} for place, one in enumerate(state.statements.items())]
    claims = pa.Table.from_pylist(made, CLAIMS_KEPT)
    missing = dict.fromkeys(ENTITIES.names) | {"kind": "item", "aliases": []}
    entities = [missing | {"id": name, "label": label} for name, label in state.entities.items()]
    redirects = [missing | {"id": name, "redirect_target": target} for name, target in state.redirects.items()]
    with duckdb.connect() as connection:
        facts = current_facts(connection, claims, int(folder.name))
        known = with_digests(connection, pa.Table.from_pylist(entities, ENTITIES), claims, facts)
    known = pa.concat_tables([known, pa.Table.from_pylist(redirects, ENTITIES_KEPT)])
    for name, table in (("claims", claims), ("facts", facts), ("entities", known)):
        pq.write_table(table, folder / f"{name}.parquet")
    return Snapshot(folder, {})


def write_all(states: Sequence[State], folder: Path) -> list[Snapshot]:
    folder.mkdir(exist_ok=True)
    return [write(state, folder / str(date)) for date, state in zip(DATES, states, strict=False)]


def whole_graph(
    snapshots: Sequence[Snapshot], scope: Scope | None = None, *, names: Sequence[str] = tuple(COLUMNS)
) -> dict[str, list[Json]]:
    """All that a graph of these snapshots holds: facts, claims, redirects and terms, or those named."""
    held = {}
    with open_timeline(snapshots, scope or Scope(), spill=snapshots[0].folder / "spill") as connection:
        for name in names:
            columns = COLUMNS[name]
            rows = connection.execute(f"SELECT {', '.join(columns)} FROM whole_{name} ORDER BY ALL").fetchall()
            held[name] = [dict(zip(columns, row, strict=True)) for row in rows]
    return held


def whole(snapshots: Sequence[Snapshot], name: str, scope: Scope | None = None) -> list[Json]:
    """One part of it."""
    return whole_graph(snapshots, scope, names=[name])[name]


said = st.builds(
    Said,
    st.sampled_from(("Q1", "Q2")),
    st.sampled_from(("Q3", "Q4", "'a", "'b\nc")),
    st.sampled_from(("normal", "preferred", "deprecated")),
    st.booleans(),
    st.sampled_from(("value", "value", "value", "novalue")),
    st.sampled_from((None, 2019)),
    st.sampled_from((None, 2020, 2022)),
)


@st.composite
def snapshot_states(draw: st.DrawFn) -> State:
    statements = draw(st.dictionaries(st.sampled_from(("S1", "S2", "S3")), said))
    subjects = {made.subject for made in statements.values()}
    present = draw(st.dictionaries(st.sampled_from(IDS), st.sampled_from(("one", "two"))))
    present |= {subject: present.get(subject, "one") for subject in sorted(subjects)}
    absent = sorted(set(IDS) - set(present))
    redirects = draw(st.dictionaries(st.sampled_from(absent), st.sampled_from(("Q1", "Q2")))) if absent else {}
    return State(statements, present, redirects)


streams = st.lists(snapshot_states(), min_size=3, max_size=3)


@settings(max_examples=10, deadline=None)
@given(streams)
@pytest.mark.slow
def test_what_holds_at_a_date_is_exactly_what_its_snapshot_says_and_intervals_of_a_fact_never_touch(
    states: list[State],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        snapshots = write_all(states, Path(folder))
        held = whole_graph(snapshots)
        facts = [pq.read_table(snapshot.facts).to_pylist() for snapshot in snapshots]
    terms = {term["id"]: term for term in held["terms"]}
    assert len(terms) == len(held["terms"])
    keys = ("subject", "property", "object")
    for date, state, of_date in zip(DATES, states, facts, strict=True):
        alive = {
            name: [row for row in rows if row["since"] <= date < row["until"]]
            for name, rows in held.items()
            if name != "terms"
        }
        assert sorted(tuple(f[key] for key in keys) for f in alive["facts"]) == sorted(
            tuple(f[key] for key in keys) for f in of_date
        )
        assert {
            (c["statement_id"], terms[c["object"]]["value"] or c["object"], c["rank"]) for c in alive["claims"]
        } == {
            (name, one.object.replace("\n", " "), one.rank)
            for name, one in state.statements.items()
            if one.snak == "value"
        }
        assert {(r["source"], r["target"]) for r in alive["redirects"]} == set(state.redirects.items())
        present = {term["id"] for term in held["terms"] if sum(d <= date for d in term["presence"] or []) % 2}
        assert present == set(state.entities)
    assert all(row[end] in terms for name in ("facts", "claims") for row in held[name] for end in ("subject", "object"))
    for fact in held["facts"]:
        assert fact["since"] < fact["until"]
        assert {fact["since"], fact["until"]} <= {*DATES, OPEN_END}
        same = [f for f in held["facts"] if all(f[key] == fact[key] for key in keys)]
        assert not [f for f in same if f is not fact and f["since"] <= fact["until"] and fact["since"] <= f["until"]]


def apply(graph: dict[str, dict[Any, Json]], files: dict[str, Path], date: int) -> None:
    """What the queries of cypher/write do with a delta, on dictionaries."""
    rows = {step: pq.read_table(path).to_pylist() for step, path in files.items()}
    words = [name for name in TERM_COLUMNS if name not in ("id", "presence")]
    for row in rows["terms"]:
        term = graph["terms"].setdefault(row["id"], {"id": row["id"], "presence": None})
        term |= {name: row.get(name) for name in words}
        if row["presence"] is not None:
            term["presence"] = (term["presence"] or []) + row["presence"]
    for row in rows["named"]:
        graph["terms"].setdefault(row["id"], dict.fromkeys(TERM_COLUMNS) | row)
    for row in rows["left"]:
        graph["terms"][row["id"]]["presence"] += [date]
    for row in rows["redirects_ended"]:
        open_one(graph["redirects"], row, ("source", "target"))["until"] = date
    for row in rows["claims_ended"]:
        open_one(graph["claims"], row, ("subject", "statement_id"))["until"] = date
    for row in rows["facts_ended"] + rows["facts_changed"]:
        fact = open_one(graph["facts"], row, ("subject", "property", "object"))
        times = ("statement_id", "start_time", "end_time", "point_in_time")
        fact |= {name: row[name] for name in times if name in row}
        seen = f", seen {str(fact['since'])[:4]}-{str(fact['since'])[4:6]} to {str(date)[:4]}-{str(date)[4:6]}"
        lasting = "" if fact["since"] == DATES[0] else seen.replace("seen", "seen since").partition(" to ")[0]
        ends = row in rows["facts_ended"]
        fact["caption"] = fact["property_label"] + (row["years"] or (seen if ends else lasting))
        fact["until"] = date if ends else OPEN_END
    for name in ("redirects", "facts", "claims"):
        for row in rows[f"{name}_begun"]:
            graph[name][tuple(map(repr, row.values()))] = {column: row[column] for column in COLUMNS[name]}


def open_one(rows: dict[Any, Json], row: Json, key: tuple[str, ...]) -> Json:
    (found,) = [one for one in rows.values() if one["until"] == OPEN_END and all(one[k] == row[k] for k in key)]
    return found


@settings(max_examples=8, deadline=None)
@given(streams)
@pytest.mark.slow
def test_deltas_applied_one_by_one_give_what_all_snapshots_give(states: list[State]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        snapshots = write_all(states, Path(folder))
        graph: dict[str, dict[Any, Json]] = {n: dict(enumerate(rows)) for n, rows in whole_graph(snapshots[:1]).items()}
        graph["terms"] = {row["id"]: row for row in graph["terms"].values()}
        for count in (2, 3):
            delta = Path(folder) / f"delta-{count}"
            delta.mkdir()
            files = write_delta(*snapshots[count - 2 : count], Scope(), delta)
            assert tuple(files) == DELTA_STEPS
            apply(graph, files, snapshots[count - 1].date)
            for name, rows in whole_graph(snapshots[:count]).items():
                found = [{column: row.get(column) for column in COLUMNS[name]} for row in graph[name].values()]
                assert sorted(map(repr, found)) == sorted(map(repr, rows))


def test_a_fact_that_comes_back_begins_on_the_day_of_its_return(tmp_path: Path) -> None:
    there, gone = State({"S1": Said("Q1", "Q3")}, {"Q1": "one"}), State({}, {"Q1": "one"})
    dates = (20200101, *DATES)
    snapshots = [write(s, tmp_path / str(day)) for day, s in zip(dates, (gone, there, gone, there), strict=True)]
    found = [(fact["since"], fact["until"]) for fact in whole(snapshots, "facts")]
    assert sorted(found) == [(dates[1], dates[2]), (dates[3], OPEN_END)]


def test_a_delta_reads_the_two_newest_snapshots_alone(tmp_path: Path) -> None:
    states = [State({"S1": Said("Q1", "Q3")}, {"Q1": "one"}), State({}, {"Q1": "one"}), State({}, {"Q1": "uno"})]
    snapshots = write_all(states, tmp_path)
    for path in snapshots[0].folder.iterdir():
        path.unlink()
    files = write_delta(snapshots[1], snapshots[2], Scope(), tmp_path)
    assert pq.read_table(files["terms"])["label"].to_pylist() == ["uno"]


def only_terms(states: Sequence[State], folder: Path) -> dict[str, Json]:
    return {term["id"]: term for term in whole(write_all(states, folder), "terms")}


def test_an_entity_that_reappears_has_two_stretches_of_presence(tmp_path: Path) -> None:
    there, gone = State(entities={"Q1": "one", "Q2": "two"}), State(entities={"Q2": "two"})
    terms = only_terms([there, gone, State(entities={"Q1": "new"})], tmp_path)
    assert terms["Q1"]["presence"] == [DATES[0], DATES[1], DATES[2]]
    assert terms["Q2"]["presence"] == [DATES[0], DATES[2]]
    assert terms["Q1"]["label"] == "new"


def test_an_entity_that_becomes_a_redirect_keeps_its_words(tmp_path: Path) -> None:
    states = [
        State(entities={"Q1": "one", "Q2": "two"}),
        State(entities={"Q1": "one"}, redirects={"Q2": "Q1", "Q4": "Q1"}),
    ]
    snapshots = write_all(states, tmp_path)
    terms = {term["id"]: term for term in whole(snapshots, "terms")}
    assert (terms["Q2"]["label"], terms["Q2"]["presence"]) == ("two", [DATES[0], DATES[1]])
    assert (terms["Q4"]["label"], terms["Q4"]["presence"]) == (None, None)
    redirects = [(r["source"], r["since"], r["until"]) for r in whole(snapshots, "redirects")]
    assert redirects == [("Q2", DATES[1], OPEN_END), ("Q4", DATES[1], OPEN_END)]


def test_a_redirect_that_becomes_an_entity_again_has_ended(tmp_path: Path) -> None:
    snapshots = write_all([State(redirects={"Q2": "Q1"}), State(entities={"Q2": "two"})], tmp_path)
    assert [(r["since"], r["until"]) for r in whole(snapshots, "redirects")] == [(DATES[0], DATES[1])]
    assert {term["id"]: term["presence"] for term in whole(snapshots, "terms")} == {"Q1": None, "Q2": [DATES[1]]}


def test_an_object_that_no_dump_holds_is_a_term_without_words(tmp_path: Path) -> None:
    term = only_terms([State({"S1": Said("Q1", "Q4")}, {"Q1": "one"})], tmp_path)["Q4"]
    assert (term["kind"], term["label"], term["presence"]) == ("item", None, None)


def test_captions_tell_years_that_are_said_from_dates_that_were_seen(tmp_path: Path) -> None:
    first = {
        "S1": Said("Q1", "Q3"),
        "S2": Said("Q1", "Q4", start=2019),
        "S3": Said("Q2", "Q3", start=2019),
        "S4": Said("Q2", "Q4"),
        "S7": Said("Q3", "Q1", point=2020),
    }
    second = {
        "S1": first["S1"],
        "S2": Said("Q1", "Q4", start=2019, end=2022),
        "S5": Said("Q1", "Q2"),
        "S6": Said("Q2", "Q1", start=2019),
        "S8": Said("Q3", "Q2", point=2022),
    }
    entities = {"Q1": "one", "Q2": "two", "Q3": "three", "P1": "head"}
    facts = whole(write_all([State(first, entities), State(second, entities)], tmp_path), "facts")
    assert {(f["subject"], f["object"]): f["caption"] for f in facts} == {
        ("Q1", "Q3"): "head",
        ("Q1", "Q4"): "head, 2019–2022",
        ("Q2", "Q3"): "head, since 2019, seen until 2023-02",
        ("Q2", "Q4"): "head, seen 2021-01 to 2023-02",
        ("Q1", "Q2"): "head, seen since 2023-02",
        ("Q2", "Q1"): "head, since 2019",
        ("Q3", "Q1"): "head, in 2020, seen until 2023-02",
        ("Q3", "Q2"): "head, in 2022",
    }


def test_the_name_of_a_property_on_a_fact_is_the_one_of_when_it_was_first_seen(tmp_path: Path) -> None:
    statements = {"S1": Said("Q1", "Q3")}
    states = [State(statements, {"Q1": "one", "P1": name}) for name in ("head", "leader")]
    facts = whole(write_all(states, tmp_path), "facts")
    assert [f["property_label"] for f in facts] == ["head"]


def test_a_scope_leaves_out_what_it_says(tmp_path: Path) -> None:
    first = {"S1": Said("Q1", "Q3"), "S2": Said("Q1", "'a"), "S3": Said("Q2", "Q4")}
    second = {"S1": first["S1"], "S2": first["S2"], "S4": Said("Q2", "Q3")}
    entities = {"Q1": "one", "Q2": "two", "Q3": "three", "Q4": "four", "Q9": "nine"}
    snapshots = write_all([State(first, entities), State(second, entities)], tmp_path)

    def objects(scope: Scope) -> set[tuple[str, str]]:
        return {(f["subject"], f["object"][0]) for f in whole(snapshots, "facts", scope)}

    assert objects(Scope()) == {("Q1", "Q"), ("Q1", "V"), ("Q2", "Q")}
    assert objects(Scope(items_only=True)) == {("Q1", "Q"), ("Q2", "Q")}
    assert objects(Scope(properties=("P2",))) == set()
    assert objects(Scope(around_changes=True)) == {("Q2", "Q")}
    near = {term["id"] for term in whole(snapshots, "terms", Scope(around_changes=True))}
    assert near == {"Q2", "Q3", "Q4"}
    assert objects(Scope(changed_pairs=True)) == {("Q2", "Q")}
    assert "claims_begun" not in write_whole(snapshots, Scope(evidence=False), tmp_path)


def test_around_changes_a_redirect_brings_its_target_from_outside(tmp_path: Path) -> None:
    entities = {"Q1": "one", "Q2": "two", "Q3": "three", "Q4": "four", "Q9": "nine"}
    states = [
        State({"S1": Said("Q1", "Q3"), "S2": Said("Q9", "Q9")}, entities),
        State(
            {"S3": Said("Q1", "Q4"), "S2": Said("Q9", "Q9")},
            {k: entities[k] for k in entities if k != "Q3"},
            {"Q3": "Q9"},
        ),
    ]
    held = whole_graph(write_all(states, tmp_path), Scope(around_changes=True))
    (redirect,) = held["redirects"]
    assert (redirect["source"], redirect["target"]) == ("Q3", "Q9")
    terms = [term["id"] for term in held["terms"]]
    assert sorted(terms) == ["Q1", "Q3", "Q4", "Q9"]
    assert not [fact for fact in held["facts"] if fact["subject"] == "Q9"]


def test_changed_pairs_leave_out_what_else_a_changed_subject_has(tmp_path: Path) -> None:
    """Q1's head changed; around it are its country, which did not change, and the country's facts."""
    kept = {"S2": Said("Q1", "Q9", property="P2"), "S5": Said("Q9", "Q8"), "S6": Said("Q8", "Q7")}
    first = kept | {"S1": Said("Q1", "Q3"), "S3": Said("Q1", "Q5")}
    second = kept | {"S4": Said("Q1", "Q4"), "S3": Said("Q1", "Q5")}
    entities = {name: name.lower() for name in ("Q1", "Q3", "Q4", "Q5", "Q7", "Q8", "Q9", "P1", "P2")}
    held = whole_graph(
        write_all([State(first, entities), State(second, entities)], tmp_path), Scope(changed_pairs=True)
    )
    assert {(f["subject"], f["property"], f["object"], f["since"], f["until"]) for f in held["facts"]} == {
        ("Q1", "P1", "Q3", DATES[0], DATES[1]),
        ("Q1", "P1", "Q4", DATES[1], OPEN_END),
        ("Q1", "P1", "Q5", DATES[0], OPEN_END),
    }
    assert sorted(claim["statement_id"] for claim in held["claims"]) == ["S1", "S3", "S4"]
    assert sorted(term["id"] for term in held["terms"]) == ["P1", "Q1", "Q3", "Q4", "Q5"]


def test_a_redirect_of_one_snapshot_may_lead_to_a_redirect_of_another(tmp_path: Path) -> None:
    """Q3 redirects to Q9 in the newer snapshot, where Q9 has an entity again; in the older one it led to Q10."""
    entities = {"Q1": "one", "Q4": "four", "Q10": "ten"}
    states = [
        State({"S1": Said("Q1", "Q3")}, entities | {"Q3": "three"}, {"Q9": "Q10"}),
        State({"S3": Said("Q1", "Q4")}, entities | {"Q9": "nine"}, {"Q3": "Q9"}),
    ]
    for scope in (Scope(around_changes=True), Scope(changed_pairs=True)):
        held = whole_graph(write_all(states, tmp_path / scope.describe()), scope)
        terms = {term["id"] for term in held["terms"]}
        assert {(redirect["source"], redirect["target"]) for redirect in held["redirects"]} == {("Q3", "Q9")}
        assert {end for r in held["redirects"] for end in (r["source"], r["target"])} <= terms


def test_a_scope_follows_one_kind_of_change() -> None:
    with pytest.raises(GraphError, match="Give one of the two"):
        Scope(around_changes=True, changed_pairs=True)


def test_the_spelling_of_another_year_changes_nothing(tmp_path: Path) -> None:
    """Case 33: a datatype is renamed, the value stays."""
    old_value = {"type": "wikibase-entityid", "value": {"entity-type": "item", "numeric-id": 5}}
    old = entity("Q1", statement(snak("P31", old_value)), statement(snak("P2", text_value("x"), "string")))
    new = entity(
        "Q1",
        statement(snak("P31", entity_value("Q5"), "wikibase-item")),
        statement(snak("P2", text_value("x"), "external-id")),
    )
    snapshots = [
        load(tmp_path, write_dump(tmp_path / f"{date}.json", [item]), date)
        for date, item in (("2015-11-09", old), ("2021-01-04", new))
    ]
    for name in ("facts", "claims"):
        assert [(row["since"], row["until"]) for row in whole(snapshots, name)] == [(20151109, OPEN_END)] * 2
    files = write_delta(*snapshots, Scope(), tmp_path)
    assert [pq.read_metadata(path).num_rows for path in files.values()] == [0] * len(DELTA_STEPS)


def test_nothing_changed_makes_an_empty_delta(tmp_path: Path) -> None:
    state = State({"S1": Said("Q1", "'a")}, {"Q1": "one"})
    files = write_delta(*write_all([state, state], tmp_path), Scope(), tmp_path)
    assert [pq.read_metadata(path).num_rows for path in files.values()] == [0] * len(DELTA_STEPS)


def test_a_delta_is_the_same_bytes_each_time(tmp_path: Path) -> None:
    states = [State({"S1": Said("Q1", "'a")}, {"Q1": "one"}), State({"S2": Said("Q1", "Q4")}, {"Q1": "two"})]
    snapshots = write_all(states, tmp_path)
    written = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        files = write_delta(*snapshots, Scope(), tmp_path / name)
        written.append([path.read_bytes() for path in files.values()])
    assert written[0] == written[1]
