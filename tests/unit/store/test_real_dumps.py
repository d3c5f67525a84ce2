"""Real dumps load, and their counts are those that Python's own json module counts."""

from __future__ import annotations

import bz2
import gzip
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pytest
from world.dumps import load, write_dump
from world.shared_data import SHARED

from kgedit.store.scope import Scope
from kgedit.store.snapshots import Snapshot
from kgedit.store.timeline import open_timeline

pytestmark = pytest.mark.shared

DUMP_2015 = SHARED / "dump_1000_20151109" / "1000-entities-20151109.json.bz2"
DUMPS = {
    "2015": (DUMP_2015, "2015-11-09"),
    "2014, five": (SHARED / "dump_1000_20151109" / "five-entities-20140929.json", "2014-09-29"),
    "2021": (SHARED / "dump_20_2021" / "twenty_entities_20210222.json.bz2", "2021-02-22"),
    "pat": (SHARED / "slices" / "pat" / "20231230.json.gz", "2023-12-30"),
    "w12k": (SHARED / "slices" / "w12k" / "20100101.json.gz", "2010-01-01"),
}


def entities_of(path: Path) -> Iterator[dict[str, Any]]:
    opener: Any = {".bz2": bz2.open, ".gz": gzip.open}.get(path.suffix, open)
    with opener(path, "rt", encoding="utf-8") as file:
        for line in file:
            text = line.strip().rstrip(",")
            if text not in ("", "[", "]"):
                yield json.loads(text)


def statements_of(entity: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for group in dict(entity.get("claims") or {}).values():
        yield from group


def counted(entities: list[dict[str, Any]]) -> dict[str, Any]:
    """What a snapshot of these entities must hold, by the json module alone; equal statements count once."""
    seen = {}
    for entity in entities:
        for made in statements_of(entity):
            seen[msgspec.json.encode([entity["id"], made], order="sorted")] = (entity["id"], made)
    made = [statement for _, statement in seen.values()]
    return {
        "entities": len({entity["id"] for entity in entities}),
        "labels": sum("en" in dict(entity.get("labels") or {}) for entity in entities),
        "claims": len(made),
        "ranks": Counter(statement["rank"] for statement in made),
        "snaks": Counter(statement["mainsnak"]["snaktype"] for statement in made),
        "properties": Counter(statement["mainsnak"]["property"] for statement in made),
        "qualifiers": Counter(name for statement in made for name in dict(statement.get("qualifiers") or {})),
        "objects": sum(
            statement["mainsnak"].get("datavalue", {}).get("type") == "wikibase-entityid" for statement in made
        ),
    }


def held(snapshot: Snapshot) -> dict[str, Any]:
    def first(query: str) -> int:
        return int(duckdb.sql(query).fetchall()[0][0])

    def per(expression: str) -> Counter[str]:
        query = f"SELECT x, count(*) FROM (SELECT {expression} AS x FROM '{snapshot.claims}') GROUP BY x"
        return Counter(dict(duckdb.sql(query).fetchall()))

    return {
        "entities": first(f"SELECT count(*) FROM '{snapshot.entities}'"),
        "labels": first(f"SELECT count(*) FROM '{snapshot.entities}' WHERE label_language = 'en'"),
        "claims": first(f"SELECT count(*) FROM '{snapshot.claims}'"),
        "ranks": per("rank"),
        "snaks": per("snak"),
        "properties": per("property"),
        "qualifiers": per("unnest(qualifier_properties)"),
        "objects": first(f"SELECT count(object) FROM '{snapshot.claims}'"),
    }


@pytest.mark.parametrize("name", DUMPS)
@pytest.mark.slow
def test_a_real_dump_holds_what_json_counts(request: pytest.FixtureRequest, tmp_path: Path, name: str) -> None:
    path, date = DUMPS[name]
    entities = list(entities_of(path))
    snapshot = request.getfixturevalue("snapshot_2015") if name == "2015" else load(tmp_path, path, date)
    assert held(snapshot) == counted(entities)
    manifest = snapshot.manifest
    assert manifest["lines"] == len(entities) == manifest["entities"]
    assert manifest["statements"] == sum(len(list(statements_of(entity))) for entity in entities)
    assert manifest["statements"] == manifest["claims"] + manifest["left_out"].get("repeated statement", 0)


@pytest.fixture(scope="module")
def snapshot_2015(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    return load(tmp_path_factory.mktemp("home"), DUMP_2015, "2015-11-09")


@pytest.mark.slow
def test_the_dump_of_2015_is_as_its_readme_counts_it(snapshot_2015: Snapshot) -> None:
    found = held(snapshot_2015)
    assert (found["entities"], found["claims"], found["objects"]) == (1000, 21_876, 12_092)
    assert found["ranks"] == {"normal": 21_662, "preferred": 168, "deprecated": 46}
    assert (found["snaks"]["novalue"], found["snaks"]["somevalue"]) == (12, 2)
    assert [found["qualifiers"][name] for name in ("P585", "P580", "P582")] == [2115, 1072, 432]


@pytest.mark.slow
def test_processes_and_compression_change_no_byte_of_a_real_dump(tmp_path: Path, snapshot_2015: Snapshot) -> None:
    plain = write_dump(tmp_path / "dump.json", bz2.decompress(DUMP_2015.read_bytes()))
    two = load(tmp_path, plain, "2015-11-09", workers=2, block_bytes=12 << 20)
    assert two.claims.read_bytes() == snapshot_2015.claims.read_bytes()
    assert two.entities.read_bytes() == snapshot_2015.entities.read_bytes()
    assert two.facts.read_bytes() == snapshot_2015.facts.read_bytes()


def test_every_revision_of_an_entity_can_be_read(tmp_path: Path) -> None:
    rounds: dict[int, list[dict[str, Any]]] = {}
    met: Counter[str] = Counter()
    for path in sorted((SHARED / "entity_revisions").glob("*.json")):
        entity = json.loads(path.read_text(encoding="utf-8"))
        rounds.setdefault(met[entity["id"]], []).append(entity)
        met[entity["id"]] += 1
    assert len(rounds) > 2
    for entities in rounds.values():
        snapshot = load(tmp_path, write_dump(tmp_path / "dump.json", entities), "2020-01-01", overwrite=True)
        assert held(snapshot) == counted(entities)


def test_five_entities_of_2014_and_2015_change_only_where_their_statements_did(tmp_path: Path) -> None:
    folder = SHARED / "dump_1000_20151109"
    files = [(folder / f"five-entities-{date.replace('-', '')}.json", date) for date in ("2014-09-29", "2015-11-09")]
    old, new = (load(tmp_path, path, date) for path, date in files)
    kept, ids = 0, [{s["id"]: s for e in entities_of(path) for s in statements_of(e)} for path, _ in files]
    for name in ids[0].keys() & ids[1].keys():
        kept += essence(ids[0][name]) == essence(ids[1][name])
    with open_timeline([old, new], Scope(), spill=tmp_path / "spill") as connection:
        both = "SELECT count(*) FROM whole_claims WHERE since = 20140929 AND until > 20151109"
        valued = connection.execute(both).fetchall()[0][0]
    assert 0 < valued == kept


def essence(made: dict[str, Any]) -> str:
    """A statement without what only its spelling, its references or its datatypes say."""

    def plain(snak: dict[str, Any]) -> Any:
        value = snak.get("datavalue", {}).get("value")
        if isinstance(value, dict):
            value = {k: v for k, v in value.items() if k not in ("id", "before", "after", "timezone", "altitude")}
        return [snak["snaktype"], snak["property"], value]

    qualifiers = {p: sorted(json.dumps(plain(q)) for q in qs) for p, qs in dict(made.get("qualifiers") or {}).items()}
    return json.dumps([plain(made["mainsnak"]), made["rank"], qualifiers], sort_keys=True)
