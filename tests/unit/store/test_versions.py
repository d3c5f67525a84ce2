"""Versions say of every date what its snapshot said, and deltas applied one by one give the same as all at once."""

from __future__ import annotations

import tempfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st
from world.dumps import Json, entity, entity_value, load, snak, statement, text_value, write_dump

from kgedit.store.joining import CLAIMS_KEPT
from kgedit.store.schemas import ENTITIES
from kgedit.store.snapshots import Snapshot
from kgedit.store.versions import CLAIM_COLUMNS, TERM_COLUMNS, connect, write_delta
from kgedit.wikidata.times import OPEN_END

DATES = (20210104, 20230227, 20240603)
IDS = ("Q1", "Q2", "Q3", "Q4", "P1")


@dataclass(frozen=True)
class Said:
    """A statement of one snapshot; an object that begins with a quote is a literal."""

    subject: str
    object: str
    rank: str
    restricted: bool
    snak: str


@dataclass(frozen=True)
class State:
    """One snapshot: statements by their id, labels of entities, redirects."""

    statements: dict[str, Said] = field(default_factory=dict)
    entities: dict[str, str] = field(default_factory=dict)
    redirects: dict[str, str] = field(default_factory=dict)

    def values(self) -> set[tuple[Any, ...]]:
        return {
            (name, said.subject, said.object, said.rank, said.restricted)
            for name, said in self.statements.items()
            if said.snak == "value"
        }


def write(state: State, folder: Path) -> Snapshot:
    """A snapshot as a load would have written it."""
    folder.mkdir()
    claims = []
    for name, said in state.statements.items():
        literal = said.object.startswith("'")
        has_value = said.snak == "value"
        claims.append(
            dict.fromkeys(CLAIMS_KEPT.names)
            | {
                "statement_id": name,
                "subject": said.subject,
                "property": "P1",
                "rank": said.rank,
                "snak": said.snak,
                "datatype": "string" if literal else "wikibase-item",
                "object": said.object if has_value and not literal else None,
                "value": said.object if has_value and literal else None,
                "qualifier_properties": [],
                "separators": [],
                "version": zlib.crc32(repr((said.subject, said.object, said.rank, said.snak)).encode()),
                "restricted": said.restricted,
            }
        )
    missing = dict.fromkeys(ENTITIES.names) | {"kind": "item", "aliases": []}
    entities = [missing | {"id": name, "label": label} for name, label in state.entities.items()]
    entities += [missing | {"id": name, "redirect_target": target} for name, target in state.redirects.items()]
    pq.write_table(pa.Table.from_pylist(claims, CLAIMS_KEPT), folder / "claims.parquet")
    pq.write_table(pa.Table.from_pylist(entities, ENTITIES), folder / "entities.parquet")
    return Snapshot(folder, {})


def write_all(states: Sequence[State], folder: Path) -> list[Snapshot]:
    return [write(state, folder / str(date)) for date, state in zip(DATES, states, strict=False)]


def table(snapshots: Sequence[Snapshot], name: str) -> list[Json]:
    columns = TERM_COLUMNS if name == "terms" else CLAIM_COLUMNS
    with connect(snapshots) as connection:
        found = connection.execute(f"SELECT {', '.join(columns)} FROM {name}").fetchall()
    return [dict(zip(columns, row, strict=True)) for row in found]


said = st.builds(
    Said,
    st.sampled_from(("Q1", "Q2")),
    st.sampled_from(("Q3", "Q4", "'a", "'b\nc")),
    st.sampled_from(("normal", "preferred")),
    st.booleans(),
    st.sampled_from(("value", "value", "value", "novalue")),
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


@settings(max_examples=12, deadline=None)
@given(streams)
def test_versions_valid_at_a_date_are_exactly_that_snapshots_claims(states: list[State]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        snapshots = write_all(states, Path(folder))
        versions, terms = table(snapshots, "versions"), table(snapshots, "terms")
    literals = {term["id"]: term["value"] for term in terms if term["kind"] == "value"}
    assert len({term["id"] for term in terms}) == len(terms)
    assert len({version["version_id"] for version in versions}) == len(versions)
    for date, state in zip(DATES, states, strict=True):
        valid = {
            (v["statement_id"], v["subject"], literals.get(v["object"], v["object"]), v["rank"], v["restricted"])
            for v in versions
            if v["valid_from"] <= date < v["valid_to"]
        }
        assert valid == {(*row[:2], row[2].replace("\n", " "), *row[3:]) for row in state.values()}
    assert {version["subject"] for version in versions} <= {term["id"] for term in terms}
    assert {version["object"] for version in versions} <= {term["id"] for term in terms}


@settings(max_examples=12, deadline=None)
@given(streams)
def test_intervals_of_a_statement_never_overlap_and_meet_only_where_it_changed(states: list[State]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        versions = table(write_all(states, Path(folder)), "versions")
    for version in versions:
        assert version["valid_from"] < version["valid_to"]
        assert {version["valid_from"], version["valid_to"]} <= {*DATES, OPEN_END}
    for name in {version["statement_id"] for version in versions}:
        own = sorted((v for v in versions if v["statement_id"] == name), key=lambda v: v["valid_from"])
        for earlier, later in pairwise(own):
            assert earlier["valid_to"] <= later["valid_from"]
            if earlier["valid_to"] == later["valid_from"]:
                changing = ("subject", "object", "rank", "restricted")
                assert [earlier[n] for n in changing] != [later[n] for n in changing]


@settings(max_examples=5, deadline=None)
@given(streams)
def test_deltas_applied_one_by_one_give_what_all_snapshots_give(states: list[State]) -> None:
    versions: dict[str, Json] = {}
    terms: dict[str, Json] = {}
    with tempfile.TemporaryDirectory() as folder:
        snapshots = write_all(states, Path(folder))
        for count in (1, 2, 3):
            delta = Path(folder) / f"delta-{count}"
            delta.mkdir()
            write_delta(snapshots[:count], delta)
            assert sorted(path.name for path in delta.glob("*.parquet")) == [
                "added.parquet",
                "closed.parquet",
                "terms.parquet",
            ]
            for row in pq.read_table(delta / "terms.parquet").to_pylist():
                assert terms.get(row["id"]) != row
                terms[row["id"]] = row
            for row in pq.read_table(delta / "closed.parquet").to_pylist():
                assert versions[row["version_id"]]["valid_to"] == OPEN_END
                versions[row["version_id"]]["valid_to"] = row["valid_to"]
            for row in pq.read_table(delta / "added.parquet").to_pylist():
                assert row["version_id"] not in versions
                versions[row["version_id"]] = row
            assert versions == {row["version_id"]: row for row in table(snapshots[:count], "versions")}
            assert terms == {row["id"]: row for row in table(snapshots[:count], "terms")}


def only_terms(states: Sequence[State], folder: Path) -> dict[str, Json]:
    return {term["id"]: term for term in table(write_all(states, folder), "terms")}


def test_an_entity_that_reappears_has_two_stretches_of_presence(tmp_path: Path) -> None:
    there, gone = State(entities={"Q1": "one", "Q2": "two"}), State(entities={"Q2": "two"})
    terms = only_terms([there, gone, State(entities={"Q1": "new"})], tmp_path)
    assert terms["Q1"]["presence"] == [DATES[0], DATES[1], DATES[2], OPEN_END]
    assert terms["Q2"]["presence"] == [DATES[0], DATES[2]]
    assert terms["Q1"]["label"] == "new"


def test_an_entity_that_becomes_a_redirect_keeps_its_words(tmp_path: Path) -> None:
    merged = State(entities={"Q1": "one"}, redirects={"Q2": "Q1", "Q4": "Q1"})
    terms = only_terms([State(entities={"Q1": "one", "Q2": "two"}), merged], tmp_path)
    names = ("label", "redirect_to", "redirected_at", "presence")
    assert [terms["Q2"][name] for name in names] == ["two", "Q1", DATES[1], [DATES[0], DATES[1]]]
    assert [terms["Q4"][name] for name in names] == [None, "Q1", DATES[1], None]
    assert [terms["Q1"][name] for name in names] == ["one", None, None, [DATES[0], OPEN_END]]


def test_a_redirect_that_becomes_an_entity_again_is_no_redirect(tmp_path: Path) -> None:
    terms = only_terms([State(redirects={"Q2": "Q1"}), State(entities={"Q2": "two"})], tmp_path)
    assert (terms["Q2"]["redirect_to"], terms["Q2"]["redirected_at"]) == (None, None)
    assert terms["Q2"]["presence"] == [DATES[1], OPEN_END]


def test_an_object_that_no_dump_holds_is_a_term_without_words(tmp_path: Path) -> None:
    state = State({"S1": Said("Q1", "Q4", "normal", False, "value")}, {"Q1": "one"})
    term = only_terms([state], tmp_path)["Q4"]
    assert (term["kind"], term["label"], term["presence"]) == ("item", None, None)


def test_the_spelling_of_another_year_opens_no_version(tmp_path: Path) -> None:
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
    assert {(v["valid_from"], v["valid_to"]) for v in table(snapshots, "versions")} == {(20151109, OPEN_END)}


def test_nothing_changed_makes_an_empty_delta(tmp_path: Path) -> None:
    state = State({"S1": Said("Q1", "'a", "normal", False, "value")}, {"Q1": "one"})
    write_delta(write_all([state, state], tmp_path), tmp_path)
    assert [pq.read_metadata(tmp_path / f"{name}.parquet").num_rows for name in ("added", "closed", "terms")] == [
        0,
        0,
        0,
    ]


def test_a_delta_is_the_same_bytes_each_time(tmp_path: Path) -> None:
    first = State({"S1": Said("Q1", "'a", "normal", False, "value")}, {"Q1": "one"})
    second = State({"S2": Said("Q1", "Q4", "normal", False, "value")}, {"Q1": "two"})
    snapshots = write_all([first, second], tmp_path)
    written = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write_delta(snapshots, tmp_path / name)
        written.append([path.read_bytes() for path in sorted((tmp_path / name).glob("*.parquet"))])
    assert written[0] == written[1]
