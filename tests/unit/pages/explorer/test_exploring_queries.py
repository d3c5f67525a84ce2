"""Search, history and differences give what plain Python finds in the snapshots' files, on two hand-made worlds."""

from __future__ import annotations

import datetime
import random
import re
import unicodedata
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from world.dumps import Json, entity, entity_value, load, snak, statement, time_value, write_dump
from world.explored import DATES, DAYS, LEADER, write_explored

from kgedit.errors import StoreError
from kgedit.pages.explorer import Explorer, search
from kgedit.pages.explorer.differences import Differences, Filters, Windows
from kgedit.pages.explorer.history import History, read_history
from kgedit.store.snapshots import Snapshot, drop_snapshot


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_explored(tmp_path_factory.mktemp("explored"))


@pytest.fixture(scope="module")
def explorer(home: Path) -> Iterator[Explorer]:
    opened = Explorer(home)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def windows(explorer: Explorer) -> Windows:
    return Windows(explorer)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Explorer]:
    """Four snapshots drawn by lot: entities come and go, values change and come back, objects are merged."""
    folder, draw = tmp_path_factory.mktemp("many"), random.Random(4)
    objects, merged = [f"Q{number}" for number in range(1, 9)], {}
    for year in range(2020, 2024):
        if year > 2020:
            merged |= {f"Q{year - 2020}": draw.choice(["Q7", "Q8"])}
        redirects = folder / f"{year}.tsv"
        # Bots follow a redirect sooner or later; until then its old id is still a value.
        redirects.write_text("".join(f"{old}\t{new}\n" for old, new in merged.items()), encoding="utf-8")
        entities = [entity(name, label=f"Object {name}") for name in ("P1", "P2", *objects) if name not in merged]
        for number in range(100, 160):
            held = {f"P{pid}": draw.sample(objects, draw.choice([0, 1, 1, 2])) for pid in (1, 2)}
            said = [statement(snak(pid, entity_value(one))) for pid, ones in held.items() for one in ones]
            if draw.random() < 0.9:
                entities.append(entity(f"Q{number}", *said, label=f"Subject {number}"))
        load(folder, write_dump(folder / f"{year}.json", entities), f"{year}-01-01", redirects=redirects)
    opened = Explorer(folder)
    yield opened
    opened.close()


def facts(snapshot: Snapshot) -> dict[tuple[str, str], set[str]]:
    found: dict[tuple[str, str], set[str]] = {}
    for row in pq.read_table(snapshot.facts).to_pylist():
        found.setdefault((row["subject"], row["property"]), set()).add(row["object"])
    return found


def entities(snapshot: Snapshot) -> tuple[set[str], dict[str, str]]:
    """Ids that it describes, and its redirects."""
    rows = pq.read_table(snapshot.entities).to_pylist()
    redirects = {row["id"]: row["redirect_target"] for row in rows if row["redirect_target"]}
    return {row["id"] for row in rows} - set(redirects), redirects


def changed(old: Snapshot, new: Snapshot) -> dict[tuple[str, str], tuple[list[str], list[str], bool, bool]]:
    """Old and new objects under the newer snapshot's ids, and whether each of the two has the subject."""
    before, after = facts(old), facts(new)
    (there_before, _), (there_after, redirects) = entities(old), entities(new)
    found = {}
    for key in before.keys() | after.keys():
        sides = [sorted({redirects.get(one, one) for one in side.get(key, set())}) for side in (before, after)]
        if sides[0] != sides[1]:
            found[key] = (sides[0], sides[1], key[0] in there_before, key[0] in there_after)
    return found


@pytest.mark.parametrize("world", ["explorer", "many"])
@pytest.mark.slow
def test_differences_between_any_two_snapshots_are_those_of_their_facts(
    request: pytest.FixtureRequest, world: str
) -> None:
    asked: Explorer = request.getfixturevalue(world)
    windows = Windows(asked)
    for old, new in combinations(asked.snapshots, 2):
        rows = asked.table(f"FROM {windows.table_of(old.date, new.date)}").to_pylist()
        found = {
            (row["subject"], row["property"]): (row["old_objects"], row["new_objects"], row["in_old"], row["in_new"])
            for row in rows
        }
        assert found == changed(old, new), (old.name, new.name)
        assert len(rows) == len(found) > 5


def rows_of(found: Differences) -> dict[str, dict[str, Any]]:
    return {f"{row['subject']}:{row['property']}": row for row in found.rows.to_pylist()}


def test_a_change_has_labels_dates_and_what_happened(windows: Windows) -> None:
    rows = rows_of(windows.differences(DAYS[0], DAYS[1], Filters(), limit=100))
    leader = rows["Q1:P6"]
    assert (leader["subject_label"], leader["property_label"]) == ("Arvika", "head")
    assert (leader["old_labels"], leader["new_labels"]) == (["Leader 21"], ["Leader 22"])
    assert (leader["old_times"], leader["new_times"], leader["year"]) == (["2019-05-01"], ["2022-02-02"], "2022")
    assert rows["Q1:P1082"]["new_labels"] == ["120 heads"]
    acts = {key: (row["act"], row["presence"]) for key, row in rows.items() if not key.startswith("Q80")}
    assert acts == {
        "Q1:P6": ("replaced", "in both"),
        "Q1:P1082": ("replaced", "in both"),
        "Q2:P6": ("none", "in both"),
        "Q3:P47": ("added", "in both"),
        "Q4:P6": ("first", "new"),
        "Q5:P6": ("none", "gone"),
    }


def test_the_year_of_a_change_is_the_latest_among_the_added_values(tmp_path: Path) -> None:
    def led(*leaders: tuple[str, str]) -> Json:
        since = {leader: snak("P580", time_value(f"+{day}T00:00:00Z", 11)) for leader, day in leaders}
        return entity("Q1", *(statement(snak("P6", entity_value(one)), start) for one, start in since.items()))

    contents = {"2021-01-04": led(("Q2", "2023-01-01")), "2023-02-27": led(("Q3", "2020-05-01"), ("Q4", "2022-02-02"))}
    for day, land in contents.items():
        load(tmp_path, write_dump(tmp_path / f"{day}.json", [land, entity("P6", label="head")]), day)
    opened = Explorer(tmp_path)
    try:
        (row,) = rows_of(Windows(opened).differences(20210104, 20230227, Filters())).values()
    finally:
        opened.close()
    assert (row["new_times"], row["year"]) == (["2020-05-01", "2022-02-02"], "2022")


def test_what_came_back_or_was_merged_is_no_change(windows: Windows) -> None:
    assert "Q1:P6" not in rows_of(windows.differences(DAYS[1], DAYS[2], Filters(), limit=100))
    whole = rows_of(windows.differences(DAYS[0], DAYS[2], Filters(), limit=100))
    assert whole["Q1:P6"]["new_objects"] == ["Q24"]
    assert "Q2:P6" not in whole
    assert whole["Q3:P47"]["act"] == "replaced"


def test_counts_of_a_facet_follow_the_other_filters(windows: Windows) -> None:
    found = windows.differences(DAYS[0], DAYS[1], Filters(chosen={"relation": ["P6"], "act": ["none"]}))
    counts: dict[str, dict[str, int]] = {}
    for row in found.facets.to_pylist():
        counts.setdefault(row["facet"], {})[row["value"]] = row["count"]
    assert (found.total, found.found) == (13, 2)
    assert set(rows_of(found)) == {"Q2:P6", "Q5:P6"}
    assert counts["relation"] == {"P6": 2}
    assert counts["act"] == {"replaced": 8, "none": 2, "first": 1}
    assert counts["subject"] == {"in both": 1, "gone": 1}


def test_changes_are_searched_by_part_of_a_label_without_case_and_accents(windows: Windows) -> None:
    for text, expected in (("EKERO", {"Q3:P47"}), ("leader 22", {"Q1:P6"}), ("Q5", {"Q5:P6"}), ("%", set())):
        assert expected == set(rows_of(windows.differences(DAYS[0], DAYS[1], Filters(text=text)))) - {
            "Q803:P6",
            "Q802:P6",
        }


def test_rows_come_in_pages_and_orders(windows: Windows) -> None:
    whole = list(rows_of(windows.differences(DAYS[0], DAYS[1], Filters(), limit=100)))
    pages = [list(rows_of(windows.differences(DAYS[0], DAYS[1], Filters(), offset=at, limit=5))) for at in (0, 5, 10)]
    assert [*pages[0], *pages[1], *pages[2]] == whole
    by_relation = rows_of(windows.differences(DAYS[0], DAYS[1], Filters(), order="relation", limit=100)).values()
    assert [row["property"] for row in by_relation] == ["P6"] * 11 + ["P47", "P1082"]


@pytest.mark.parametrize(
    ("older", "newer", "said"),
    [(1, 2, "No snapshot of 1"), (DAYS[1], DAYS[0], "not before"), (DAYS[0], DAYS[0], "not before")],
)
def test_a_window_without_two_snapshots_is_refused(windows: Windows, older: int, newer: int, said: str) -> None:
    with pytest.raises(StoreError, match=said):
        windows.differences(older, newer, Filters())


def _words(name: str) -> list[str]:
    plain = unicodedata.normalize("NFKD", name.lower())
    return re.findall(r"[^\W_]+", "".join(one for one in plain if not unicodedata.combining(one)))


def test_search_finds_all_whose_names_have_words_that_begin_so(explorer: Explorer) -> None:
    rows = explorer.table("FROM term").to_pylist()
    words = {row["id"]: {w for name in (row["label"], *row["aliases"]) if name for w in _words(name)} for row in rows}
    typed = ["a", "l", "lead 2", "leader 21", "EKERÖ", "old t", "isle ekero", "window hacked", "x", "borg", "2 lea"]
    for text in typed:
        expected = {one for one, own in words.items() if all(any(w.startswith(t) for w in own) for t in _words(text))}
        assert {found.term.id for found in search(explorer, text, limit=100)} == expected, text


def test_whole_names_come_first_and_then_what_is_in_most_facts(explorer: Explorer) -> None:
    assert [(one.term.id, one.match) for one in search(explorer, "old town")] == [("Q1", "alias")]
    assert [(one.term.id, one.match) for one in search(explorer, "q2")] == [("Q2", "id")]
    leaders = [(one.term.id, one.term.popularity) for one in search(explorer, "leader")]
    assert leaders == [("Q23", 2), ("Q24", 1), ("Q21", 0), ("Q22", 0)]
    assert search(explorer, "'; DROP TABLE term --") == []
    assert search(explorer, " . ") == []


def test_an_entity_is_known_as_its_newest_snapshot_describes_it(explorer: Explorer) -> None:
    terms = explorer.terms(["Q2", "Q22", "Q5", "Q404", "'"])
    assert sorted(terms) == ["Q2", "Q22", "Q5"]
    assert (terms["Q2"].label, terms["Q22"].merged_into, terms["Q22"].date, terms["Q5"].date) == (
        "Borgå",
        "Q24",
        DAYS[1],
        DAYS[0],
    )


def _history(explorer: Explorer, entity_id: str) -> History:
    found = read_history(explorer, entity_id)
    assert found is not None
    return found


@pytest.mark.parametrize("world", ["explorer", "many"])
@pytest.mark.slow
def test_a_history_has_every_statement_in_every_snapshot(request: pytest.FixtureRequest, world: str) -> None:
    asked: Explorer = request.getfixturevalue(world)
    stood: dict[str, set[tuple[Any, ...]]] = {}
    for snapshot in asked.snapshots:
        as_fact = {
            one
            for row in pq.read_table(snapshot.facts).to_pylist()
            for one in row["statement_places"] or [row["statement_place"]]
        }
        for row in pq.read_table(snapshot.claims).to_pylist():
            key = (row["statement_id"], row["object"], row["value"], row["rank"], row["end_time"], snapshot.date)
            stood.setdefault(row["subject"], set()).add((*key, row["place"] in as_fact))
    for subject in sorted(stood)[:: len(stood) // 7]:
        found = {
            (
                one.id,
                version.object,
                version.value,
                version.rank,
                version.times.get("end"),
                date,
                date in version.current,
            )
            for one in _history(asked, subject).statements
            for version in one.versions
            for date in version.dates
        }
        assert found == stood[subject], subject


def test_a_statement_that_was_ended_has_two_versions_and_is_a_fact_in_the_first(explorer: Explorer) -> None:
    history = _history(explorer, "Q1")
    (ended,) = (one for one in history.statements if one.id == LEADER)
    assert [(one.dates, one.current, dict(one.times)) for one in ended.versions] == [
        (DAYS[:1], DAYS[:1], {"start": "2019-05-01"}),
        (DAYS[1:], (), {"start": "2019-05-01", "end": "2022-02-02"}),
    ]
    assert [(one.state, one.revision) for one in history.presence] == [("there", 11), ("there", 12), ("there", 13)]
    assert history.terms["P6"].label == "head"
    assert history.terms["Q90"].label == "heads"


def test_presence_tells_missing_and_merged(explorer: Explorer) -> None:
    assert [one.state for one in _history(explorer, "Q4").presence] == ["missing", "there", "there"]
    merged = _history(explorer, "Q22").presence
    assert [(one.state, one.merged_into) for one in merged] == [("there", None), ("there", None), ("merged", "Q24")]
    assert [one.label for one in _history(explorer, "Q2").presence] == ["Borga", "Borgå", "Borgå"]
    assert read_history(explorer, "Q404") is None


@pytest.mark.slow
def test_derived_files_are_made_once_and_anew_for_another_snapshot(tmp_path: Path) -> None:
    def dump(day: str, leader: str) -> None:
        content = [entity("P6", label="head"), entity("Q1", statement(snak("P6", entity_value(leader))), label="Land")]
        load(tmp_path, write_dump(tmp_path / f"{day}.json", content), day, overwrite=True)

    def made() -> list[str]:
        reported: list[str] = []
        Explorer(tmp_path, announce=reported.append).close()
        folders = [Path(line.removeprefix("Making ").partition(" (")[0]) for line in reported]
        return [str(folder.relative_to(tmp_path / "explore")) for folder in folders]

    with pytest.raises(StoreError, match="has no snapshot"):
        Explorer(tmp_path)
    for day, leader in zip(DATES, ("Q7", "Q8", "Q9"), strict=True):
        dump(day, leader)
    first, second, third = map(str, DAYS)
    assert made() == [
        *("names/all", f"places/{first}", f"places/{second}", f"places/{third}"),
        *(f"changes/{first}_{second}", f"changes/{second}_{third}"),
        *(f"windows/{first}_{second}", f"windows/{second}_{third}"),
    ]
    assert made() == []
    opened = Explorer(tmp_path)
    assert Windows(opened).differences(DAYS[0], DAYS[2], Filters()).total == 1
    opened.close()
    dump(DATES[2], "Q7")
    assert made() == ["names/all", f"places/{third}", f"changes/{second}_{third}", f"windows/{second}_{third}"]
    opened = Explorer(tmp_path)
    assert Windows(opened).differences(DAYS[0], DAYS[2], Filters()).total == 0
    opened.close()
    drop_snapshot(tmp_path, datetime.date.fromisoformat(DATES[1]))
    assert made() == ["names/all", f"changes/{first}_{third}", f"windows/{first}_{third}"]
    kept = {str(one.relative_to(tmp_path / "explore")) for one in (tmp_path / "explore").glob("*/*/")}
    assert kept == {
        *("names/all", f"places/{first}", f"places/{third}", f"changes/{first}_{third}", f"windows/{first}_{third}"),
    }
