"""A slice from a local endpoint over real entities has the rows of their JSON, despite failures on the way."""

from __future__ import annotations

import bz2
import datetime
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import rdflib
from world.dumps import Json
from world.endpoints import Answer, query_in, serving
from world.rdf import RdfWriter
from world.rows import rows_of
from world.shared_data import SHARED

from kgedit.errors import SourceError
from kgedit.fetching import sparql
from kgedit.fetching.manners import Manners
from kgedit.fetching.slices import slice_note
from kgedit.fetching.sparql import FetchedSlice, SliceOrder, fetch_slice
from kgedit.loaders.detection import load_with
from kgedit.store.ingest import ingest
from kgedit.store.schemas import LoaderOptions
from kgedit.store.snapshots import Snapshot
from kgedit.store.sources import DumpFile

pytestmark = pytest.mark.shared

REAL = SHARED / "dump_20_2021" / "twenty_entities_20210222.json.bz2"
CHOSEN = 5


@pytest.fixture(scope="module")
def entities() -> list[Json]:
    lines = [line.strip().rstrip(b",") for line in bz2.decompress(REAL.read_bytes()).splitlines()]
    found = sorted((json.loads(line) for line in lines if len(line) > 2), key=lambda one: len(json.dumps(one)))[:CHOSEN]
    used = {
        name: group[0]["mainsnak"]["datatype"] for one in found for name, group in dict(one["claims"] or {}).items()
    }
    stubs = [{"id": n, "type": "property", "datatype": t, "labels": {}, "claims": {}} for n, t in sorted(used.items())]
    return found + stubs


@pytest.fixture(scope="module")
def graph(entities: list[Json]) -> rdflib.Graph:
    """As endpoints hold it: without the types of items and without Datasets."""
    made = rdflib.Graph()
    for line in RdfWriter().dump(entities).decode().split("\n"):
        if "schema.org/Dataset>" not in line and "ontology#Item>" not in line and "ontology#Statement>" not in line:
            try:
                made.parse(data=line, format="nt")
            except Exception:  # an address with a space, which no endpoint would hold
                continue
    return made


def answering(graph: rdflib.Graph, *faults: Answer | None) -> Callable[[str, dict[str, str], bytes], Answer]:
    """Answers of an endpoint; the first ones are these faults, None being a good one."""
    left = list(faults)

    def answer(path: str, headers: dict[str, str], body: bytes) -> Answer:
        fault = left.pop(0) if left else None
        if fault is not None:
            return fault
        found = graph.query(query_in(body)).serialize(format="json")
        return 200, {"Content-Type": "application/sparql-results+json"}, found or b""

    return answer


WAITED: list[float] = []
PATIENT = Manners(contact="tests", pause=0.01, attempts=3, sleep=WAITED.append)


def fetched(folder: Path, address: str, items: list[Json], **changes: Any) -> FetchedSlice:
    order: Json = {"endpoint": address, "ids": tuple(one["id"] for one in items if one["type"] == "item"), "page": 3}
    return fetch_slice(SliceOrder(**(order | {"manners": PATIENT} | changes)), folder / "slice.nt.gz")


def loaded(folder: Path, path: Path, loader: str) -> Snapshot:
    order = load_with(loader, LoaderOptions(), date=datetime.date(2021, 2, 22), slice_of=slice_note(path))
    return ingest(folder / loader, order, DumpFile(path), workers=1, overwrite=False)


def facts(snapshot: Snapshot) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows_of(snapshot, "facts"))


def test_a_slice_has_the_facts_of_the_json_and_says_that_it_is_one(
    tmp_path: Path, graph: rdflib.Graph, entities: list[Json]
) -> None:
    cut = b'{"head": {"vars": ["item"]}, "results": {"bindings": [{"item": {"type": "uri", java.util.TimeoutException'
    busy: Answer = (429, {"Retry-After": "7"}, b"slow down")
    WAITED.clear()
    with serving(
        answering(
            graph,
            (200, {}, cut),
            busy,
            None,
            (500, {}, b"oops"),
            (200, {"Content-Length": "999"}, b"{"),
            None,
            (200, {"Content-Type": "text/html"}, b"<html>busy</html>"),
        )
    ) as endpoint:
        made = fetched(tmp_path, endpoint.address, entities)
    assert 7.0 in WAITED
    assert all("kgedit/" in headers["user-agent"] and "tests" in headers["user-agent"] for headers in endpoint.headers)
    assert (made.unknown, made.entities) == ((), len(entities))
    (tmp_path / "dump.json").write_bytes(b"\n".join(json.dumps(one).encode() for one in entities))
    of_slice = loaded(tmp_path, made.path, "wikidata_rdf")
    assert facts(of_slice) == facts(loaded(tmp_path, tmp_path / "dump.json", "wikidata_json"))
    assert of_slice.manifest["slice_of"] == f"{CHOSEN} items, by {endpoint.address}"
    assert not list(tmp_path.glob(".*pages"))


def test_a_fetch_that_fails_leaves_no_file_and_asks_only_for_the_rest_when_it_is_resumed(
    tmp_path: Path, graph: rdflib.Graph, entities: list[Json]
) -> None:
    down: Answer = (503, {}, b"down")
    good: Callable[..., Answer] = answering(graph)
    asked: list[str] = []

    def failing(path: str, headers: dict[str, str], body: bytes) -> Answer:
        asked.append(query_in(body))
        return good(path, headers, body) if len(asked) == 1 or len(asked) > 40 else down

    with serving(failing) as endpoint:
        with pytest.raises(SourceError, match=r"failed 3 times, most recently with: HTTP 503 .*resumes"):
            fetched(tmp_path, endpoint.address, entities)
        assert not (tmp_path / "slice.nt.gz").exists()
        first, asked[:] = asked[0], ["resumed"] * 41
        made = fetched(tmp_path, endpoint.address, entities)
    assert first not in asked
    assert made.entities == len(entities)
    with pytest.raises(SourceError, match="already exists"):
        fetched(tmp_path, endpoint.address, entities)


def test_items_are_those_of_a_class_or_of_a_query_in_pages(
    tmp_path: Path, graph: rdflib.Graph, entities: list[Json], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kgedit.fetching.sparql._PAGE_OF_IDS", 2)
    of_class = next(
        str(o).rpartition("/")[2] for o in graph.objects(None, rdflib.URIRef("http://www.wikidata.org/prop/direct/P31"))
    )
    query = "SELECT ?item WHERE { ?item <http://www.wikidata.org/prop/direct/P31> ?class }"
    with serving(answering(graph)) as endpoint:
        small = fetched(tmp_path, endpoint.address, entities, ids=None, of_class=of_class)
        (tmp_path / "all").mkdir()
        whole = fetched(tmp_path / "all", endpoint.address, entities, ids=None, query=query)
    assert 0 < small.entities <= whole.entities
    assert f"instances of {of_class}" in str(slice_note(small.path))


def test_rows_without_an_item_end_no_page(
    tmp_path: Path, graph: rdflib.Graph, entities: list[Json], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows without ?item come first in their order."""
    monkeypatch.setattr("kgedit.fetching.sparql._PAGE_OF_IDS", 2)
    items = [one["id"] for one in entities if one["type"] == "item"][:3]
    values = " ".join(["UNDEF", *(f"<http://www.wikidata.org/entity/{name}>" for name in items)])
    query = f"SELECT ?item WHERE {{ VALUES ?item {{ {values} }} }}"
    with serving(answering(graph)) as endpoint:
        made = fetched(tmp_path, endpoint.address, entities, ids=None, query=query)
        one = fetched(tmp_path / "one", endpoint.address, entities, ids=None, query=query, limit=1)
    kept = gzip.decompress(made.path.read_bytes()).decode()
    assert [name for name in items if f"/Special:EntityData/{name}>" not in kept] == []
    assert gzip.decompress(one.path.read_bytes()).count(b"Special:EntityData/Q") == 2  # the two lines of one Dataset


def test_rows_without_items_are_read_in_whole_pages_despite_a_limit(
    tmp_path: Path, graph: rdflib.Graph, entities: list[Json], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kgedit.fetching.sparql._PAGE_OF_IDS", 50)
    pages = []
    ask = sparql._ask
    monkeypatch.setattr(sparql, "_ask", lambda *given: pages.append(1) or ask(*given))
    statements = " ".join(f"<http://www.wikidata.org/entity/statement/{number}>" for number in range(90))
    query = f"SELECT ?item WHERE {{ VALUES ?item {{ {statements} }} }}"
    with serving(answering(graph)) as endpoint, pytest.raises(SourceError):
        fetched(tmp_path, endpoint.address, entities, ids=None, query=query, limit=1)
    assert len(pages) == 3


def test_ids_of_which_the_endpoint_knows_nothing_are_told(
    tmp_path: Path, graph: rdflib.Graph, entities: list[Json]
) -> None:
    with serving(answering(graph)) as endpoint:
        made = fetched(tmp_path, endpoint.address, entities, ids=(entities[0]["id"], "Q999999999"))
        assert made.unknown == ("Q999999999",)
        with pytest.raises(SourceError, match="knows none of these items"):
            fetched(tmp_path / "none", endpoint.address, entities, ids=("Q999999999",))
        with pytest.raises(SourceError, match="Not an id of an item or a property: drop table"):
            fetched(tmp_path / "wrong", endpoint.address, entities, ids=("drop table",))


def test_a_refused_query_is_told_at_once(tmp_path: Path, entities: list[Json]) -> None:
    with serving(lambda path, headers, body: (400, {}, b"MalformedQueryException: line 1")) as endpoint:
        with pytest.raises(SourceError, match=r"refuses the query: .*Check the address and the query"):
            fetched(tmp_path, endpoint.address, entities, ids=None, query="SELECT rubbish")
        assert len(endpoint.paths) == 1
