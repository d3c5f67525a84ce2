"""Current facts on the day of a snapshot: the numbered cases of the rules; all others by a second implementation."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from world.dumps import Json, entity, entity_value, load, snak, statement, text_value, time_value, write_dump

from kgedit.store.facts import current_facts
from kgedit.store.schemas import CLAIMS_KEPT
from kgedit.store.snapshots import Snapshot
from kgedit.wikidata.ids import END_TIME, POINT_IN_TIME, START_TIME
from kgedit.wikidata.times import parse_time

DATE = "2021-01-04"
DAY = 20210104


def value(name: str, *qualifiers: Json, **more: str) -> Json:
    main = name if name in ("novalue", "somevalue") else entity_value(name)
    return statement(snak("P6", main), *qualifiers, **more)


def start(day: str, precision: int = 11) -> Json:
    return snak(START_TIME, time_value(f"+{day}T00:00:00Z", precision))


def end(day: str, precision: int = 11) -> Json:
    return snak(END_TIME, time_value(f"+{day}T00:00:00Z", precision))


RESTRICTIVE = entity("P9", statement(snak("P31", entity_value("Q61719275"))))
RESTRICTED = snak("P9", "somevalue")


def objects(tmp_path: Path, *statements: Json) -> list[str]:
    """Objects of the facts of one item and property, after a real load."""
    dump = write_dump(tmp_path / "dump.json", [entity("Q1", *statements), RESTRICTIVE])
    rows = pq.read_table(load(tmp_path, dump, DATE).facts).to_pylist()
    return [row["object"] for row in rows if row["property"] == "P6"]


def test_best_rank_counts(tmp_path: Path) -> None:
    """Case 10."""
    assert objects(tmp_path, value("Q2"), value("Q3", rank="preferred"), value("Q4", rank="deprecated")) == ["Q3"]


def test_what_has_ended_or_not_begun_does_not_count_whatever_its_rank(tmp_path: Path) -> None:
    ended = value("Q2", end("2020-12-31"), rank="preferred")
    assert objects(tmp_path, ended, value("Q3", start("2021-01-05")), value("Q4", start("2021-01-04"))) == ["Q4"]


def test_an_unknown_end_has_come(tmp_path: Path) -> None:
    """Case 11."""
    assert objects(tmp_path, value("Q2", snak(END_TIME, "somevalue")), value("Q3", snak(END_TIME, "novalue"))) == ["Q3"]


def test_what_the_day_cannot_decide_stays(tmp_path: Path) -> None:
    """Case 22: a start or an end in the year of the snapshot."""
    assert objects(tmp_path, value("Q2", start("2021-00-00", 9)), value("Q3", end("2021-00-00", 9))) == ["Q2", "Q3"]


@pytest.mark.parametrize("snak_kind", ["novalue", "somevalue"])
def test_case_28_a_preferred_unknown_or_no_value_leaves_no_current_value(tmp_path: Path, snak_kind: str) -> None:
    assert objects(tmp_path, value("Q2"), value(snak_kind, rank="preferred")) == []


@pytest.mark.parametrize("snak_kind", ["novalue", "somevalue"])
def test_a_normal_unknown_or_no_value_takes_nothing_away(tmp_path: Path, snak_kind: str) -> None:
    assert objects(tmp_path, value("Q2"), value(snak_kind)) == ["Q2"]
    assert objects(tmp_path / "ended", value("Q2"), value(snak_kind, end("2020-01-01"), rank="preferred")) == ["Q2"]


@pytest.mark.parametrize("first", [True, False])
def test_case_29_a_restricted_statement_is_no_fact_and_makes_nothing_ambiguous(tmp_path: Path, first: bool) -> None:
    statements = [value("Q2", RESTRICTED), value("Q3")]
    assert objects(tmp_path, *(statements if first else statements[::-1])) == ["Q3"]


@pytest.mark.parametrize("ids", [("Q1$A", "Q1$B"), ("Q1$B", "Q1$A")])
def test_case_29_of_two_statements_of_one_value_the_plain_one_counts(tmp_path: Path, ids: tuple[str, str]) -> None:
    statements = [value("Q2", RESTRICTED, statement_id=ids[0]), value("Q2", statement_id=ids[1])]
    dump = write_dump(tmp_path / "dump.json", [entity("Q1", *statements), RESTRICTIVE])
    snapshot = load(tmp_path, dump, DATE)
    (fact,) = [row for row in pq.read_table(snapshot.facts).to_pylist() if row["property"] == "P6"]
    assert (fact["object"], ids_of(snapshot, [fact["statement_place"]]), fact["statement_places"]) == (
        "Q2", [ids[1]], None,
    )  # fmt: skip


def test_case_29_a_restricted_preferred_statement_does_not_hide_a_plain_one(tmp_path: Path) -> None:
    assert objects(tmp_path, value("Q2", RESTRICTED, rank="preferred"), value("Q3")) == ["Q3"]


def test_case_30_on_the_day_of_a_handover_the_successor_holds(tmp_path: Path) -> None:
    assert objects(tmp_path, value("Q2", end(DATE)), value("Q3", start(DATE))) == ["Q3"]
    assert objects(tmp_path / "ranked", value("Q2", end(DATE), rank="preferred"), value("Q3", start(DATE))) == ["Q3"]


def test_case_30_without_a_successor_that_day_an_end_on_it_has_not_come(tmp_path: Path) -> None:
    assert objects(tmp_path, value("Q2", end(DATE))) == ["Q2"]
    assert objects(tmp_path / "other", value("Q2", end(DATE)), value("Q3", start("2020-01-01"))) == ["Q2", "Q3"]
    assert objects(tmp_path / "month", value("Q2", end("2021-01-00", 10)), value("Q3", start(DATE))) == ["Q2", "Q3"]
    again = value("Q2", start(DATE), statement_id="Q1$X")
    assert objects(tmp_path / "again", value("Q2", end(DATE)), again) == ["Q2"]
    one_day = [value("Q2", start(DATE), end(DATE)), value("Q3", start(DATE), end(DATE))]
    assert objects(tmp_path / "one day", *one_day) == ["Q2", "Q3"]


def test_case_13_an_entity_in_a_qualifier_or_reference_is_no_fact(tmp_path: Path) -> None:
    reference = {"snaks": {"P248": [snak("P248", entity_value("Q8"))]}, "snaks-order": ["P248"]}
    made = value("Q2", snak("P642", entity_value("Q9")))
    made["references"] = [reference]
    assert objects(tmp_path, made) == ["Q2"]


def test_a_fact_has_the_times_of_its_latest_statement_and_names_all(tmp_path: Path) -> None:
    terms = [
        value("Q2", start("2009-01-01"), statement_id="Q1$B"),
        value("Q2", start("2019-01-01"), statement_id="Q1$C"),
        value("Q2", snak(POINT_IN_TIME, time_value("+2020-00-00T00:00:00Z", 9)), statement_id="Q1$A"),
    ]
    dump = write_dump(tmp_path / "dump.json", [entity("Q1", *terms)])
    snapshot = load(tmp_path, dump, DATE)
    (fact,) = pq.read_table(snapshot.facts).to_pylist()
    assert ids_of(snapshot, fact["statement_places"]) == ["Q1$A", "Q1$B", "Q1$C"]
    assert ids_of(snapshot, [fact["statement_place"]]) == ["Q1$C"]
    assert (fact["start_time"], fact["point_time"]) == ("2019-01-01", None)


def ids_of(snapshot: Snapshot, places: Sequence[int]) -> list[str]:
    """Ids of the statements with these places, in their order."""
    ids = {row["place"]: row["statement_id"] for row in pq.read_table(snapshot.claims).to_pylist()}
    return [ids[place] for place in places]


def test_literals_are_facts_with_an_id_that_the_datatype_does_not_change(tmp_path: Path) -> None:
    """Case 33."""
    ids = set()
    for datatype in ("string", "external-id", "url"):
        dump = write_dump(
            tmp_path / datatype / "d.json", [entity("Q1", statement(snak("P6", text_value("x"), datatype)))]
        )
        (fact,) = pq.read_table(load(tmp_path / datatype, dump, DATE).facts).to_pylist()
        assert (fact["kind"], fact["value_type"], fact["value"]) == ("value", "string", "x")
        ids.add(fact["object"])
    assert len(ids) == 1


@dataclass(frozen=True)
class Said:
    object: str | None
    rank: str
    restricted: bool
    start: tuple[str, int] | None
    end: tuple[str, int] | None


TIMES = [None, ("+2020-12-31T00:00:00Z", 11), ("+2021-01-04T00:00:00Z", 11), ("+2021-01-05T00:00:00Z", 11)]
TIMES += [("+2020-00-00T00:00:00Z", 9), ("+2021-01-00T00:00:00Z", 10), ("", -1)]
said = st.builds(
    Said,
    st.sampled_from(("Q2", "Q3", None)),
    st.sampled_from(("normal", "normal", "preferred", "deprecated")),
    st.sampled_from((False, False, True)),
    st.sampled_from(TIMES),
    st.sampled_from(TIMES),
)


def second_opinion(statements: list[Said]) -> set[str]:
    """A second implementation of the rule, statement by statement, in plain Python."""

    def days(time: tuple[str, int] | None) -> tuple[int, int] | None:
        if time is None or time[1] < 0:
            return None
        read = parse_time(*time)
        assert read.first is not None
        assert read.until is not None
        return read.first, read.until

    today = (DAY, DAY + 1)
    alive = [
        one
        for one in statements
        if one.rank != "deprecated"
        and not one.restricted
        and ((begins := days(one.start)) is None or begins[0] <= DAY)
        and not (one.end is not None and one.end[1] < 0)
        and ((ends := days(one.end)) is None or ends[1] > DAY)
    ]
    alive = [
        one
        for one in alive
        if days(one.end) != today
        or not [b for b in alive if b.object != one.object and days(b.start) == today != days(b.end)]
    ]
    if any(one.rank == "preferred" for one in alive):
        alive = [one for one in alive if one.rank == "preferred"]
    return {one.object for one in alive if one.object is not None}


def row(number: int, one: Said) -> Json:
    filled: Json = {"statement_id": f"Q1$S{number}", "subject": "Q1", "property": "P6", "rank": one.rank}
    filled |= {"snak": "value" if one.object else "novalue", "object": one.object, "restricted": one.restricted}
    for name, time in (("start", one.start), ("end", one.end)):
        if time is not None and time[1] < 0:
            filled[f"{name}_precision"] = -1
        elif time is not None:
            parts = parse_time(*time)
            filled |= {f"{name}_time": parts.text, f"{name}_precision": parts.precision}
            filled |= {f"{name}_first": parts.first, f"{name}_until": parts.until}
    return dict.fromkeys(CLAIMS_KEPT.names) | filled | {"place": number}


@pytest.fixture(scope="module")
def engine() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        yield connection


@settings(max_examples=80, deadline=None)
@given(st.lists(said, max_size=5), st.randoms())
@pytest.mark.slow
def test_facts_are_what_a_second_opinion_says_in_whatever_order(
    engine: duckdb.DuckDBPyConnection, statements: list[Said], random: object
) -> None:
    rows = [row(number, one) for number, one in enumerate(statements)]
    random.shuffle(rows)  # type: ignore[attr-defined]
    facts = current_facts(engine, pa.Table.from_pylist(rows, CLAIMS_KEPT), DAY)
    assert len(facts) == len(set(facts["object"].to_pylist()))
    assert set(facts["object"].to_pylist()) == second_opinion(statements)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(said, st.sampled_from(("P6", "P7", "P8"))), max_size=9))
@pytest.mark.slow
def test_facts_are_the_same_if_all_pairs_are_judged_as_contested(
    engine: duckdb.DuckDBPyConnection, statements: list[tuple[Said, str]]
) -> None:
    rows = [row(number, one) | {"property": name} for number, (one, name) in enumerate(statements)]
    claims = pa.Table.from_pylist(rows, CLAIMS_KEPT)
    facts = current_facts(engine, claims, DAY)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kgedit.store.facts._are_contested", lambda _claims, pair, *_: np.ones(len(pair), np.bool_))
        assert current_facts(engine, claims, DAY).equals(facts)


_FEW_FACTS_OF_FAR_PLACES = """
    import resource, sys
    import duckdb
    from kgedit.store.facts import with_statement_ids

    connection = duckdb.connect(config={"threads": 1})
    columns = ", ".join(f"'a text of the column {number} ' || n AS column_{number}" for number in range(14))
    subject = "'Q' || n AS subject, n * 999 AS"
    connection.execute(f"CREATE TABLE fact AS SELECT {subject} statement_place, {columns} FROM range(1000) r(n)")
    connection.execute(f"CREATE TABLE claim AS SELECT {subject} place, n AS statement_id FROM range(20000) r(n)")
    query = f"SELECT max(COLUMNS(*)) FROM ({with_statement_ids('fact', 'claim')})"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert connection.execute(query).fetchall()[0][-1] == 999
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems measure the peak of memory in other units")
def test_ids_of_few_statements_take_little_memory_however_far_apart_their_places_are() -> None:
    script = textwrap.dedent(_FEW_FACTS_OF_FAR_PLACES)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=True)
    assert int(done.stdout) < 40, "megabytes; a table of all places takes 60 and more"
