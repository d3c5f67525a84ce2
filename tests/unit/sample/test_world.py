"""The source of the sample world: its errors name the line, its ids and labels are Wikidata's."""

from __future__ import annotations

import bz2
import csv
import gzip
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from world.shared_data import SHARED

from kgedit.errors import SourceError
from kgedit.sample import SOURCE, World, read_world
from kgedit.sample.generate import SNAPSHOT_DATES, check_world

SOME_OTHER_LABEL = {
    "Q43274": "Charles, Prince of Wales",
    "Q99602458": "None",
    "Q356773": "Gerardo Martino",
    "Q918": "X",
}
"""Labels that differ from the tables on purpose: see "Made up, or changed" in the README."""

UNCONFIRMED = {"Q19474404", "Q52060874", "Q96803616", "Q124641201"}
"""Ids without a label in the tables: two constraint types, and two items without an English label."""


@pytest.fixture(scope="module")
def world() -> World:
    return read_world()


def _read_changed(tmp_path: Path, old: str, new: str) -> World:
    text = SOURCE.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path = tmp_path / "world.yaml"
    path.write_text(text.replace(old, new), encoding="utf-8")
    return read_world(path)


def test_the_world_is_as_large_as_promised_and_holds_together(world: World) -> None:
    check_world(world)
    items = [identifier for identifier in world.entities if identifier.startswith("Q")]
    assert len(items) >= 150
    assert len(world.entities) - len(items) >= 40
    assert world.dates == tuple(day.isoformat() for day in SNAPSHOT_DATES)


def test_every_datatype_of_the_loaders_occurs_in_a_main_value(world: World) -> None:
    used = {
        world.entities[statement.property].datatype
        for entity in world.entities.values()
        for statement in entity.statements
    }
    assert used >= {
        "wikibase-item",
        "time",
        "quantity",
        "monolingualtext",
        "url",
        "external-id",
        "commonsMedia",
        "globe-coordinate",
        "string",
    }


def test_every_case_and_every_scenario_is_to_be_found(world: World) -> None:
    assert set(range(1, 27)) <= world.cases.keys()
    scenarios = {"ReplaceObject", "Archive", "AddObject", "AddRelation", "AddEntity", "Other"}
    assert world.scenarios.keys() == scenarios
    places = [place for _, see in world.cases.values() for place in see]
    assert all(place.split(":")[0] in world.entities for place in places)


def test_the_readme_tells_of_every_case(world: World) -> None:
    readme = SOURCE.with_name("README.md").read_text(encoding="utf-8")
    for case, (_, see) in world.cases.items():
        row = re.search(rf"^\| {case} \|.*$", readme, re.MULTILINE)
        assert row, f"case {case} is not in the README"
        assert all(place in row.group() for place in see), row.group()


def test_a_wrong_label_beside_an_id_is_told_with_its_line(tmp_path: Path) -> None:
    changed = _read_changed(tmp_path, "- Q61053 Olaf Scholz | start 2021-12-08 | P1365", "- Q61053 Scholz | P1365")
    with pytest.raises(SourceError, match=r"line \d+: Q61053 is called Olaf Scholz, not Scholz"):
        check_world(changed)


def test_a_value_that_is_not_in_the_world_is_told(tmp_path: Path) -> None:
    changed = _read_changed(tmp_path, "P106: Q33999 actor | becomes", "P106: Q9999 hero | becomes")
    with pytest.raises(SourceError, match="Q9999 hero is not in the world"):
        check_world(changed)


def test_a_value_in_a_snapshot_without_it_is_told(tmp_path: Path) -> None:
    changed = _read_changed(tmp_path, "- Q117442701 Eviden | in 3", "- Q117442701 Eviden | in 2..")
    with pytest.raises(SourceError, match="Eviden is not in snapshot 2"):
        check_world(changed)


def test_a_statement_written_twice_is_told(tmp_path: Path) -> None:
    old = "- Q188740 Museum of Modern Art | in 1\n"
    changed = _read_changed(tmp_path, old, old + "        - Q188740 Museum of Modern Art | in 2\n")
    with pytest.raises(SourceError, match="Q188740 Museum of Modern Art is already on line"):
        check_world(changed)


@pytest.mark.parametrize(
    ("new", "complaint"),
    [
        ("- Q188740 Museum of Modern Art | within 1\n", "'within 1' is not a clause of a statement"),
        ("- Q188740 Museum of Modern Art | in 4\n", "'4' is not a range of snapshots"),
    ],
)
def test_a_clause_that_says_nothing_is_told(tmp_path: Path, new: str, complaint: str) -> None:
    with pytest.raises(SourceError, match=complaint):
        _read_changed(tmp_path, "- Q188740 Museum of Modern Art | in 1\n", new)


def test_a_date_that_is_none_is_told(tmp_path: Path) -> None:
    changed = _read_changed(tmp_path, "start 2022-12-05 | end 2023-04-03", "start May 2022 | end 2023-04-03")
    with pytest.raises(SourceError, match="Q4512 P580: 'May 2022' is not a date"):
        check_world(changed)


def test_an_item_is_in_no_snapshot_before_its_number_was_given_out(world: World) -> None:
    first_numbers = {1: 104_650_000, 2: 116_950_000}
    early = [
        (entity.id, number)
        for entity in world.entities.values()
        for number, limit in first_numbers.items()
        if entity.id.startswith("Q") and number in entity.reach and int(entity.id[1:]) > limit
    ]
    assert early == []


@pytest.mark.shared
@pytest.mark.slow
def test_every_id_bears_a_label_that_wikidata_gave_it(world: World) -> None:
    labels: dict[str, set[str]] = defaultdict(set)
    for identifier, label in _shared_labels():
        if label != identifier:
            labels[identifier].add(label.strip())
    unconfirmed = {identifier for identifier in world.entities if identifier not in labels}
    assert unconfirmed == UNCONFIRMED
    differing = {
        (entity.id, label.text)
        for entity in world.entities.values()
        for label in entity.labels
        if entity.id in labels and label.text not in labels[entity.id]
    }
    assert differing <= set(SOME_OTHER_LABEL.items())


def _shared_labels() -> Iterator[tuple[str, str]]:
    """(id, English label) of every table of ../shared/data that has them."""
    for name in ("kgtk_arnold/labels.en.tsv.gz", "property_catalogue_kgtk/labels.property.en.tsv.gz"):
        with gzip.open(SHARED / name, "rt", encoding="utf-8") as table:
            for line in table:
                cells = line.rstrip("\n").split("\t")
                if len(cells) == 4:
                    yield cells[0], cells[2].rpartition("@")[0].strip("'").replace("\\'", "'")
    for name in ("pat_slices/pat_labels_en.tsv", "wikidata12k/labels_en_partial.tsv"):
        for line in (SHARED / name).read_text(encoding="utf-8").splitlines():
            identifier, label = line.split("\t")[:2]
            yield identifier, label
    leaders = SHARED / "world_leaders"
    for path in [
        *leaders.glob("wikidata-*.csv"),
        *leaders.glob("all_versions/*.csv"),
        leaders / "missing-successors.csv",
    ]:
        pairs = [("countryid", "country"), ("position", "positionLabel"), ("officeholder", "officeholderLabel")]
        yield from _csv_labels(path, [*pairs, ("item", "itemLabel"), ("predecessor", "predecessorLabel")])
    for row in _rows(SHARED / "wd_change_gold" / "edits.csv"):
        yield f"Q{row['entity_id']}", row["entity_label"]
        for side in ("old_value", "new_value"):
            if matched := re.search(r"Q\d+", row[side]):
                yield matched.group(), row[f"{side}_label"]
    for row in _rows(SHARED / "wd_change_gold" / "property_labels.csv"):
        yield f"P{row['id']}", row["label"]
    yield from _dump_labels()


def _dump_labels() -> Iterator[tuple[str, str]]:
    for path in sorted(SHARED.glob("dump_*/*.json.bz2")):
        for line in bz2.decompress(path.read_bytes()).decode("utf-8").splitlines():
            if line.startswith("{"):
                entity = json.loads(line.rstrip().removesuffix(","))
                yield entity["id"], dict(entity["labels"]).get("en", {"value": entity["id"]})["value"]


def _csv_labels(path: Path, pairs: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    for row in _rows(path):
        for identifier, label in pairs:
            if row.get(identifier) and row.get(label):
                yield row[identifier], row[label]


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as table:
        yield from csv.DictReader(table)
