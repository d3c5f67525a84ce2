"""Projections of a dump to earlier days: facts by their own dates, and facts that no date decides."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from world.dumps import (
    Json,
    entity,
    entity_value,
    hashes,
    load,
    load_of,
    snak,
    statement,
    text_value,
    time_value,
    write_dump,
)

from kgedit.errors import StoreError
from kgedit.store.as_of import VALUE_COMES
from kgedit.store.ingest import ingest_as_of
from kgedit.store.snapshots import Snapshot
from kgedit.store.sources import DumpFile
from kgedit.timesteps.kinds.snapshot_tables import ENDINGS, FIXED_AT_END
from kgedit.wikidata.ids import END_DATES, TRUE_SINCE_THE_END
from kgedit.wikidata.times import parse_time


def time(text: str) -> Json:
    """ "2005", "2005-03" or "2005-03-12" at its precision."""
    return time_value("+" + text + "-00" * (2 - text.count("-")) + "T00:00:00Z", 9 + text.count("-"))


def start(text: str) -> Json:
    return snak("P580", time(text))


def end(text: str) -> Json:
    return snak("P582", time(text))


def point(text: str) -> Json:
    return snak("P585", time(text))


def held(name: str, *qualifiers: Json, **more: str) -> Json:
    return statement(snak("P6", entity_value(name)), *qualifiers, **more)


def as_of(folder: Path, entities: list[Json], *days: str, **changes: Any) -> list[Snapshot]:
    """The entities of a dump, projected."""
    dump = write_dump(folder / "dump.json", entities)
    return ingest_as_of(
        folder / "home",
        load_of("2015-11-09"),
        DumpFile(dump, changes.pop("block_bytes", 1 << 20)),
        days=[datetime.date.fromisoformat(day) for day in days],
        workers=1,
        overwrite=changes.pop("overwrite", False),
        progress=lambda done, counted: None,
    )


def objects(snapshot: Snapshot, property_id: str = "P6") -> set[str]:
    rows = pq.read_table(snapshot.facts).to_pylist()
    return {row["value"] or row["object"] for row in rows if row["property"] == property_id}


def objects_by_day(folder: Path, statements: list[Json], *days: str) -> dict[str, set[str]]:
    return {snapshot.name: objects(snapshot) for snapshot in as_of(folder, [entity("Q1", *statements)], *days)}


def test_a_handover_in_a_year_leaves_both_holders_in_it(tmp_path: Path) -> None:
    terms = [held("Q2", start("1998"), end("2005")), held("Q3", start("2005"))]
    assert objects_by_day(tmp_path, terms, "1997-12-31", "1998-01-01", "2004-12-31", "2005-01-01", "2006-01-01") == {
        "1997-12-31": set(),
        "1998-01-01": {"Q2"},
        "2004-12-31": {"Q2"},
        "2005-01-01": {"Q2", "Q3"},
        "2006-01-01": {"Q3"},
    }


@pytest.mark.parametrize(
    ("said", "day", "current"),
    [
        ("2005", "2004-12-31", {"Q2"}),
        ("2005", "2005-01-01", {"Q2", "Q3", "Q4"}),
        ("2005", "2005-12-31", {"Q2", "Q3", "Q4"}),
        ("2005", "2006-01-01", {"Q3"}),
        ("2005-03", "2005-02-28", {"Q2"}),
        ("2005-03", "2005-03-01", {"Q2", "Q3", "Q4"}),
        ("2005-03", "2005-04-01", {"Q3"}),
        ("2005-03-15", "2005-03-14", {"Q2"}),
        ("2005-03-15", "2005-03-15", {"Q3"}),
        ("2005-03-15", "2005-03-16", {"Q3"}),
    ],
)
@pytest.mark.slow
def test_a_projection_to_a_day_has_the_facts_of_a_real_snapshot_of_it(
    tmp_path: Path, said: str, day: str, current: set[str]
) -> None:
    terms = [held("Q2", start("1998"), end(said)), held("Q3", start(said)), held("Q4", start(said), end(said))]
    founded = entity("Q2", statement(snak("P571", time(said))))
    (projected,) = as_of(tmp_path, [entity("Q1", *terms), founded], day)
    real = load(tmp_path / "real", tmp_path / "dump.json", day)

    assert objects(projected) == objects(real) == current
    assert bool(objects(projected, "P571")) == ("Q3" in current)


def test_on_the_day_of_a_handover_the_successor_holds(tmp_path: Path) -> None:
    terms = [held("Q2", end("2005-03-01")), held("Q3", start("2005-03-01"))]
    assert objects_by_day(tmp_path, terms, "2005-02-28", "2005-03-01") == {"2005-02-28": {"Q2"}, "2005-03-01": {"Q3"}}


def test_what_has_no_dates_holds_on_every_day_and_what_was_observed_holds_since(tmp_path: Path) -> None:
    terms = [held("Q2"), held("Q3", point("2010-05"))]
    assert objects_by_day(tmp_path, terms, "1900-01-01", "2010-04-30", "2010-05-01") == {
        "1900-01-01": {"Q2"},
        "2010-04-30": {"Q2"},
        "2010-05-01": {"Q2", "Q3"},
    }


def test_an_unknown_start_has_come_and_an_unknown_end_too(tmp_path: Path) -> None:
    terms = [held("Q2", snak("P580", "somevalue")), held("Q3", start("1990"), snak("P582", "somevalue"))]
    (snapshot,) = as_of(tmp_path, [entity("Q1", *terms)], "2000-01-01")
    assert objects(snapshot) == {"Q2"}
    counts = snapshot.manifest["projected"]["statements_not_placed_by_dates"]
    assert {reason: count for reason, count in counts.items() if count} == {
        "ended at an unknown time: no fact on any day": 1,
        "holds, and began at an unknown time": 1,
    }


def test_an_end_is_told_once_it_has_come(tmp_path: Path) -> None:
    term = held("Q2", start("1998"), end("2005"), statement_id="Q1$S")
    before, after = as_of(tmp_path, [entity("Q1", term)], "2000-01-01", "2010-01-01")
    (open_ended,), (ended,) = (pq.read_table(snapshot.claims).to_pylist() for snapshot in (before, after))
    assert (open_ended["end_time"], open_ended["end_until"]) == (None, None)
    assert open_ended["qualifier_properties"] == ["P580"]
    assert (ended["end_time"], ended["qualifier_properties"]) == ("2005", ["P580", "P582"])
    assert open_ended["version"] != ended["version"]
    assert (objects(before), objects(after)) == ({"Q2"}, set())


def test_a_date_to_come_and_what_is_true_since_it_are_not_told(tmp_path: Path) -> None:
    person = entity(
        "Q1",
        statement(snak("P570", time("2006-12-10"))),
        statement(snak("P20", entity_value("Q9"))),
        statement(snak("P19", entity_value("Q8"))),
    )
    before, after = as_of(tmp_path, [person], "2006-12-09", "2006-12-10")
    assert (objects(before, "P570"), objects(before, "P20"), objects(before, "P19")) == (set(), set(), {"Q8"})
    assert (objects(after, "P570"), objects(after, "P20"), objects(after, "P19")) == ({"2006-12-10"}, {"Q9"}, {"Q8"})


def test_an_item_is_there_from_its_earliest_date_of_creation(tmp_path: Path) -> None:
    born = entity("Q1", statement(snak("P569", time("2010-03-04"))), held("Q5"), label="Child")
    founded = entity("Q2", *(statement(snak("P571", time(year))) for year in ("2012", "1990")))
    parent = entity("Q3", held("Q1"), held("Q1", start("1999"), statement_id="Q3$B"), held("Q2"))
    before, after = as_of(tmp_path, [born, founded, parent, entity("P6")], "2005-01-01", "2011-01-01")
    there = [{row["id"] for row in pq.read_table(one.entities).to_pylist()} for one in (before, after)]
    assert there == [{"Q2", "Q3", "P6"}, {"Q1", "Q2", "Q3", "P6"}]
    # The undated statement about the child is left out, the one that has a start is trusted.
    said = [[row["statement_id"] for row in pq.read_table(one.claims).to_pylist() if row["object"] == "Q1"]
            for one in (before, after)]  # fmt: skip
    assert (len(said[0]), len(said[1])) == (1, 2)
    assert before.manifest["projected"]["entities_that_came_later"] == 1
    assert after.manifest["entities"] == 4


DAYS = ("1999-12-31", "2004-06-15", "2005-12-31", "2012-02-29")
DESCRIPTIONS = ("manifest.json", "SHA256SUMS")
"""Files that name the dump, and with it how it was loaded."""

YEARS = st.sampled_from((None, "1999", "2004", "2004-06", "2004-06-15", "2005-12-31", "2012"))


@st.composite
def dumps(draw: st.DrawFn) -> list[Json]:
    made = []
    for number in (1, 2, 3):
        terms = draw(
            st.lists(st.tuples(st.integers(1, 5), YEARS, YEARS, YEARS, st.sampled_from(("normal", "preferred"))))
        )
        said = [
            held(
                f"Q{target}",
                *([start(a)] if a else []),
                *([end(b)] if b else []),
                *([point(c)] if c else []),
                rank=rank,
                statement_id=f"Q{number}$S{place}",
            )
            for place, (target, a, b, c, rank) in enumerate(terms)
        ]
        created = draw(YEARS)
        made.append(entity(f"Q{number}", *said, *([statement(snak("P571", time(created)))] if created else [])))
    return made


@settings(max_examples=2, deadline=None)
@given(dumps())
@pytest.mark.slow
def test_several_days_in_one_pass_are_what_each_gives_alone_and_the_counts_add_up(
    tmp_path_factory: pytest.TempPathFactory, entities: list[Json]
) -> None:
    folder = tmp_path_factory.mktemp("as of")
    together = as_of(folder / "together", entities, *DAYS, block_bytes=200)
    for day, snapshot in zip(DAYS, together, strict=True):
        (alone,) = as_of(folder / day, entities, day)
        assert {name: digest for name, digest in hashes(alone.folder).items() if name not in DESCRIPTIONS} == {
            name: digest for name, digest in hashes(snapshot.folder).items() if name not in DESCRIPTIONS
        }
        projected = snapshot.manifest["projected"]
        placed, not_placed = (projected[f"statements_{how}_by_dates"] for how in ("placed", "not_placed"))
        assert sum(placed.values()) + sum(not_placed.values()) == snapshot.manifest["statements"]


@settings(max_examples=3, deadline=None)
@given(dumps())
@pytest.mark.slow
def test_once_all_dates_have_come_a_projection_has_the_facts_of_the_dump(
    tmp_path_factory: pytest.TempPathFactory, entities: list[Json]
) -> None:
    folder = tmp_path_factory.mktemp("whole")
    (projected,) = as_of(folder, entities, "2014-01-01")
    plain = load(folder / "plain", folder / "dump.json", "2014-01-01")
    for name in ("facts", "claims", "entities"):
        assert pq.read_table(getattr(projected, name)).equals(pq.read_table(getattr(plain, name)))


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 2100), st.integers(1, 12), st.integers(1, 28), st.integers(4, 11))
def test_a_date_may_have_come_on_its_first_day(year: int, month: int, day: int, precision: int) -> None:
    said = parse_time(f"+{year:04d}-{month:02d}-{day:02d}T00:00:00Z", precision)
    ((comes,),) = duckdb.execute(
        f"SELECT {VALUE_COMES} FROM (SELECT 'time' AS datatype, ? AS value, ? AS precision)",
        [said.text, str(said.precision)],
    ).fetchall()
    assert comes == said.first


def test_the_same_command_again_changes_nothing_and_more_days_are_added(tmp_path: Path) -> None:
    entities = [entity("Q1", held("Q2", start("2001")))]
    as_of(tmp_path, entities, "2000-01-01", "2005-01-01")
    first = hashes(tmp_path / "home")
    assert [one.name for one in as_of(tmp_path, entities, "2005-01-01", "2010-01-01")] == ["2005-01-01", "2010-01-01"]
    assert first.items() <= hashes(tmp_path / "home").items()
    assert len(hashes(tmp_path / "home")) == 3 * 5


def test_a_projection_and_the_dump_of_a_day_are_not_taken_for_one_another(tmp_path: Path) -> None:
    as_of(tmp_path, [entity("Q1")], "2005-01-01")
    with pytest.raises(StoreError, match="projected from a later dump then, a dump of this day now"):
        load(tmp_path / "home", tmp_path / "dump.json", "2005-01-01")
    load(tmp_path / "home", tmp_path / "dump.json", "2015-11-09")
    before = hashes(tmp_path / "home")
    with pytest.raises(StoreError, match="Nothing was changed"):
        as_of(tmp_path, [entity("Q1")], "2010-01-01", "2015-11-09")
    assert hashes(tmp_path / "home") == before
    replaced = as_of(tmp_path, [entity("Q1")], "2010-01-01", "2015-11-09", overwrite=True)
    assert [one.is_projected for one in replaced] == [True, True]


def test_a_load_that_was_interrupted_parses_nothing_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entities = [entity(f"Q{number}", held("Q2"), statement(snak("P1", text_value("x" * 50)))) for number in range(1, 9)]

    def dies(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("kgedit.store.builds.join_parts", dies)
        with pytest.raises(KeyboardInterrupt):
            as_of(tmp_path, entities, "2000-01-01", "2005-01-01", block_bytes=500)
    monkeypatch.setattr("kgedit.store.blocks._parse", dies)
    resumed = as_of(tmp_path, entities, "2000-01-01", "2005-01-01", block_bytes=500)
    assert [one.manifest["entities"] for one in resumed] == [8, 8]
    assert not list((tmp_path / "home" / "snapshots").glob(".*.loading"))


def test_what_is_true_since_the_end_is_what_kinds_of_change_take_for_it() -> None:
    assert set(TRUE_SINCE_THE_END) == set(FIXED_AT_END)
    assert set(END_DATES) == set(ENDINGS)
