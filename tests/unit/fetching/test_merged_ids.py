"""Ids that were merged: a slice from an endpoint has the items that replace them."""

from __future__ import annotations

import gzip
from pathlib import Path

import rdflib
from world.dumps import entity, entity_value, snak, statement
from world.endpoints import Answer, query_in, serving
from world.rdf import RdfWriter

from kgedit.fetching.manners import Manners
from kgedit.fetching.sparql import WD, FetchedSlice, SliceOrder, fetch_slice

WORLD = [
    entity("Q2", statement(snak("P131", entity_value("Q30")))),
    entity("Q3", statement(snak("P131", entity_value("Q4")))),
    entity("Q6", statement(snak("P131", entity_value("Q31")))),
    *(entity(name) for name in ("Q4", "Q5")),
    entity("P131", datatype="wikibase-item"),
]
MERGED = {"Q1": "Q2", "Q30": "Q3", "Q10": "Q5", "Q31": "Q30"}


def fetched(folder: Path, *ids: str, ancestors: int = 0) -> FetchedSlice:
    lines = [line for line in RdfWriter().dump(WORLD).decode().splitlines() if "schema.org/Dataset>" not in line]
    lines += [f"<{WD}{source}> <http://www.w3.org/2002/07/owl#sameAs> <{WD}{to}> ." for source, to in MERGED.items()]
    graph = rdflib.Graph().parse(data="\n".join(lines), format="nt")

    def answer(path: str, headers: dict[str, str], body: bytes) -> Answer:
        return 200, {}, graph.query(query_in(body)).serialize(format="json") or b""

    with serving(answer) as endpoint:
        order = SliceOrder(endpoint=endpoint.address, ids=ids, ancestors=ancestors, page=2,
                           manners=Manners(sleep=lambda _: None))  # fmt: skip
        return fetch_slice(order, folder / "slice.nt.gz")


def described(made: FetchedSlice) -> list[str]:
    text = gzip.decompress(made.path.read_bytes()).decode()
    return [line.split()[0][32:-1] for line in text.splitlines() if line.endswith(("#Item> .", "#Property> ."))]


def test_the_target_of_a_redirect_is_fetched_and_the_redirect_is_no_entity(tmp_path: Path) -> None:
    made = fetched(tmp_path, "Q1", "Q5", "Q10")
    assert described(made) == ["Q5", "Q2", "P131"]
    assert (made.entities, made.redirected, made.unknown) == (3, 2, ())


def test_the_containers_of_a_value_that_was_merged_are_those_of_its_target(tmp_path: Path) -> None:
    made = fetched(tmp_path, "Q1", ancestors=1)
    assert sorted(described(made)) == ["P131", "Q2", "Q3", "Q4"]
    assert (made.entities, made.redirected, made.beyond) == (4, 2, 0)


def test_redirects_lead_on_to_further_ones(tmp_path: Path) -> None:
    made = fetched(tmp_path, "Q6", ancestors=1)
    assert sorted(described(made)) == ["P131", "Q3", "Q4", "Q6"]
    assert (made.redirected, made.beyond) == (2, 0)
