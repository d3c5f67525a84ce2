"""The real entities of 2015 and 2021, written in another format, give the rows that the JSON dump gives."""

from __future__ import annotations

import bz2
import datetime
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any, get_args
from urllib.parse import quote
from xml.sax.saxutils import escape

import pyarrow.parquet as pq
import pytest
from world.rdf import PREFIXES, RdfWriter, as_turtle
from world.rows import rows_of
from world.shared_data import SHARED

from kgedit.loaders.detection import load_with
from kgedit.loaders.rdf_text import parse
from kgedit.store.ingest import ingest
from kgedit.store.schemas import LoaderOptions
from kgedit.store.snapshots import Snapshot, SnapshotTable
from kgedit.store.sources import DumpFile

pytestmark = pytest.mark.shared

Json = dict[str, Any]
DUMPS = {
    "2015": SHARED / "dump_1000_20151109" / "1000-entities-20151109.json.bz2",
    "2021": SHARED / "dump_20_2021" / "twenty_entities_20210222.json.bz2",
}

_LINE_BREAK = re.compile(rb'("https?:(?:[^"\\]|\\/)*)\\n"')
"""At the end of an address, as one of 2015 has it: RDF cannot write it."""


def entities_of(year: str, every: int = 1) -> list[Json]:
    lines = [line.strip().rstrip(b",") for line in bz2.decompress(DUMPS[year].read_bytes()).splitlines()]
    return [json.loads(_LINE_BREAK.sub(rb'\1"', line)) for line in lines if len(line) > 2][::every]


def with_properties(entities: list[Json]) -> list[Json]:
    """The entities, and of properties that are not among them their datatypes: in RDF only properties say them."""
    datatypes = {
        statement["mainsnak"]["property"]: statement["mainsnak"]["datatype"]
        for entity in entities
        for statements in dict(entity.get("claims") or {}).values()
        for statement in statements
    }
    known = {entity["id"] for entity in entities}
    return entities + [
        {"id": name, "type": "property", "datatype": datatype, "labels": {}, "claims": {}}
        for name, datatype in sorted(datatypes.items())
        if name not in known
    ]


def load(folder: Path, name: str, content: bytes, loader: str, date: str = "2021-02-22") -> Snapshot:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_bytes(content)
    order = load_with(loader, LoaderOptions(), date=datetime.date.fromisoformat(date))
    source = DumpFile(path, 1 << 20)
    return ingest(folder / loader, order, source, workers=1, overwrite=False)


def rows(snapshot: Snapshot, name: SnapshotTable, *without: str) -> list[Json]:
    """Sorted rows of a table, with ids instead of places."""
    read = [{key: value for key, value in row.items() if key not in without} for row in rows_of(snapshot, name)]
    return sorted(read, key=lambda row: json.dumps(row, sort_keys=True, ensure_ascii=False))


def differences(one: list[Json], other: list[Json]) -> list[tuple[str, Json]]:
    left, right = (
        Counter(json.dumps(row, sort_keys=True, ensure_ascii=False) for row in side) for side in (one, other)
    )
    return [("-", json.loads(row)) for row in (left - right).elements()] + [
        ("+", json.loads(row)) for row in (right - left).elements()
    ]


def in_json(entities: list[Json]) -> bytes:
    return b"\n".join(json.dumps(entity, ensure_ascii=False).encode() for entity in entities)


def assert_same_rows(one: Snapshot, other: Snapshot, *without: str) -> None:
    for name in get_args(SnapshotTable):
        assert differences(*(rows(snapshot, name, *without) for snapshot in (one, other))) == [], name


@pytest.mark.parametrize("year", DUMPS)
@pytest.mark.slow
def test_the_full_rdf_gives_the_rows_of_the_json(tmp_path: Path, year: str) -> None:
    entities = with_properties(entities_of(year))
    of_json = load(tmp_path, "dump.json", in_json(entities), "wikidata_json")
    of_rdf = load(tmp_path, "dump.nt", RdfWriter().dump(entities), "wikidata_rdf")
    assert_same_rows(of_json, of_rdf)
    assert of_rdf.manifest["left_out"] == {}
    assert of_json.manifest["statements"] == of_rdf.manifest["statements"] > 600


def as_document(triples: bytes, form: str) -> bytes:
    """N-Triples as rdflib writes them in another form, literals as they are."""
    graph = parse(triples, "nt")
    for prefix, address in PREFIXES.items():
        graph.bind(prefix, address)
    return graph.serialize(format=form, auto_compact=form == "json-ld").encode()


@pytest.mark.parametrize("form", ["turtle", "xml", "json-ld"])
@pytest.mark.slow
def test_what_rdflib_reads_gives_the_rows_of_the_json(tmp_path: Path, form: str) -> None:
    entities = with_properties(entities_of("2021"))[:60]
    for entity in entities:
        for terms in dict(entity.get("aliases") or {}).values():
            terms.sort(key=lambda term: term["value"])  # rdflib keeps no order
    of_json = load(tmp_path, "dump.json", in_json(entities), "wikidata_json")
    triples = RdfWriter().dump(entities)
    text = as_turtle(triples) if form == "turtle" else as_document(triples, form)
    of_rdf = load(tmp_path, "dump.rdf", text, "wikidata_rdf")
    unordered = ("digest", "aliases", "datatype")  # those of properties that are not among these few
    tables: tuple[SnapshotTable, ...] = ("facts", "entities")
    for name in tables:
        have = set(pq.read_schema(of_json.facts if name == "facts" else of_json.entities).names)
        without = [column for column in unordered if column in have]
        assert differences(*(rows(one, name, *without) for one in (of_json, of_rdf))) == [], name
    assert of_rdf.manifest["left_out"] == {}


def test_the_truthy_rdf_gives_the_facts_of_the_json_but_dates_and_quantities(tmp_path: Path) -> None:
    entities = with_properties(entities_of("2021"))
    of_json = load(tmp_path, "dump.json", in_json(entities), "wikidata_json")
    of_truthy = load(tmp_path, "dump.nt", RdfWriter(truthy=True).dump(entities), "wikidata_truthy")
    kept = ("subject", "property", "value", "language", "object")
    truthy = {tuple(row[name] for name in kept) for row in rows(of_truthy, "claims") if row["snak"] == "value"}
    full = rows(of_json, "claims")
    preferred = {(row["subject"], row["property"]) for row in full if row["rank"] == "preferred"}
    best = [
        row
        for row in full
        if row["rank"] == ("preferred" if (row["subject"], row["property"]) in preferred else "normal")
    ]
    left = [row for row in best if row["datatype"] in ("time", "quantity")]
    assert truthy == {tuple(row[name] for name in kept) for row in best if row["snak"] == "value" and row not in left}
    assert sum(of_truthy.manifest["left_out"].values()) >= len(left) > 20
    assert set(of_truthy.manifest["left_out"]) <= {
        "date without precision", "quantity without unit", "repeated statement"
    }  # fmt: skip
    assert {"ranks", "qualifiers", "statement ids", "dates", "quantities"} <= set(of_truthy.manifest["lacks"])
    assert {row["rank"] for row in rows(of_truthy, "claims")} == {"normal"}
    again = load(tmp_path / "again", "dump.nt", RdfWriter(truthy=True).dump(entities), "wikidata_truthy")
    assert again.claims.read_bytes() == of_truthy.claims.read_bytes()
    assert rows(again, "entities", "digest") == rows(of_json, "entities", "digest")


def as_pages(entities: list[Json]) -> bytes:
    """Pages as the XML dumps have them: the entity's JSON without the datatypes of snaks, escaped, in a revision."""

    def bare(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                name: bare(part) for name, part in value.items() if not (name == "datatype" and "snaktype" in value)
            }
        return [bare(part) for part in value] if isinstance(value, list) else value

    pages = []
    for number, entity in enumerate(entities):
        title = f"Property:{entity['id']}" if entity["type"] == "property" else entity["id"]
        text = escape(json.dumps({name: bare(part) for name, part in entity.items() if name != "lastrevid"}))
        revision = entity.get("lastrevid", number)
        pages.append(
            f"  <page>\n    <title>{title}</title>\n    <ns>0</ns>\n    <id>{number}</id>\n    <revision>\n"
            f"      <id>{revision}</id>\n      <contributor><id>7</id></contributor>\n"
            f"      <model>wikibase-{entity['type']}</model>\n      <format>application/json</format>\n"
            f'      <text bytes="{len(text)}" xml:space="preserve">{text}</text>\n    </revision>\n  </page>\n'
        )
    head = '<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/">\n  <siteinfo>\n  </siteinfo>\n'
    return (head + "".join(pages) + "</mediawiki>\n").encode()


def test_the_pages_give_the_rows_of_the_json(tmp_path: Path) -> None:
    entities = with_properties(entities_of("2021"))
    streams = as_pages(entities).replace(b"  <page>", b"@@  <page>").split(b"@@")
    multistream = b"".join(bz2.compress(b"".join(streams[at : at + 50])) for at in range(0, len(streams), 50))
    of_json = load(tmp_path, "dump.json", in_json(entities), "wikidata_json")
    of_pages = load(tmp_path, "pages.xml.bz2", multistream, "wikidata_xml")
    without: dict[SnapshotTable, tuple[str, ...]] = {"claims": (), "facts": (), "entities": ("lastrevid",)}
    for name, columns in without.items():
        assert differences(*(rows(one, name, *columns) for one in (of_json, of_pages))) == [], name
    assert of_pages.manifest["left_out"] == {}


def in_kgtk(value: Any) -> str:
    """A value of the JSON in KGTK's spelling, which has neither calendars nor the precision of coordinates."""
    kind, said = value["type"], value["value"]
    if kind == "wikibase-entityid":
        return str(said.get("id") or f"{'P' if said['entity-type'] == 'property' else 'Q'}{said['numeric-id']}")
    if kind == "time":
        return f"^{said['time'].removeprefix('+')}/{said['precision']}"
    if kind == "quantity":
        bounds = f"[{said['lowerBound']},{said['upperBound']}]" if "upperBound" in said else ""
        return f"{said['amount']}{bounds}{said['unit'].rpartition('/')[2] if said['unit'] != '1' else ''}"
    if kind == "globecoordinate":
        return f"@{said['latitude']!r}/{said['longitude']!r}"
    text = said["text"] if kind == "monolingualtext" else said
    text = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")
    if kind == "monolingualtext":
        return f"'{text.replace(chr(39), chr(92) + chr(39))}'@{said['language']}"
    return '"' + text.replace('"', '\\"') + '"'


def of_snak(snak: Json) -> str:
    return in_kgtk(snak["datavalue"]) if snak["snaktype"] == "value" else str(snak["snaktype"])


def as_edges(entities: list[Json]) -> bytes:
    """Labels, descriptions, aliases, datatypes, sitelinks, statements with ranks, and qualifiers, as edges."""
    rows = [("id", "node1", "label", "node2", "rank", "node2;wikidatatype")]
    for entity in entities:
        name = entity["id"]
        terms = [(kind, dict(entity.get(f"{kind}s") or {}).get("en")) for kind in ("label", "description")]
        terms += [("alias", one) for one in dict(entity.get("aliases") or {}).get("en", [])]
        for at, (kind, term) in enumerate(terms):
            if term:
                text = in_kgtk({"type": "monolingualtext", "value": {"text": term["value"], "language": "en"}})
                rows.append((f"{name}-{kind}-{at}", name, kind, text, "", ""))
        if "datatype" in entity:
            rows.append((f"{name}-datatype", name, "datatype", entity["datatype"], "", ""))
        link = dict(entity.get("sitelinks") or {}).get("enwiki")
        if link:
            address = "http://en.wikipedia.org/wiki/" + quote(link["title"].replace(" ", "_"))
            rows.append((f"{name}-link", name, "wikipedia_sitelink", address, "", ""))
        for statement in (one for group in dict(entity.get("claims") or {}).values() for one in group):
            main, edge = statement["mainsnak"], f"{name}-{statement['mainsnak']['property']}-{len(rows)}"
            rows.append((edge, name, main["property"], of_snak(main), statement["rank"], main.get("datatype", "")))
            for snak in (one for group in dict(statement.get("qualifiers") or {}).values() for one in group):
                rows.append((f"{edge}-{len(rows)}", edge, snak["property"], of_snak(snak), "", ""))
    return "\n".join("\t".join(row) for row in rows).encode() + b"\n"


@pytest.mark.parametrize(("year", "every"), [("2021", 1), pytest.param("2015", 16, marks=pytest.mark.slow)])
def test_the_edges_of_kgtk_give_the_rows_of_the_json_but_what_kgtk_does_not_keep(
    tmp_path: Path, year: str, every: int
) -> None:
    entities = entities_of(year, every)
    of_json = load(tmp_path, "dump.json", in_json(entities), "wikidata_json")
    of_edges = load(tmp_path, "edges.tsv", as_edges(entities), "kgtk")
    lost = ("statement_id", "version", "calendar", "precision", "restricted")
    said = [rows(one, "claims", *lost) for one in (of_json, of_edges)]
    for row in (row for side in said for row in side if row["datatype"] == "globe-coordinate"):
        row["unit"] = None  # the globe
    assert differences(*said) == []
    assert differences(*(rows(one, "entities", "lastrevid", "digest") for one in (of_json, of_edges))) == []
    assert of_edges.manifest["statements"] == of_json.manifest["statements"] > 600
    assert {
        "calendars",
        "precision of coordinates",
        "globes of coordinates",
        "revisions",
        "Wikidata's statement ids",
    } <= set(of_edges.manifest["lacks"])
