"""Redirects lead to the end of their chain; contradictions are counted, in every format."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest
from world.dumps import entity, lines, load, write_dump
from world.rdf import RdfWriter

from kgedit.errors import SourceError
from kgedit.loaders.detection import load_with
from kgedit.store.ingest import ingest
from kgedit.store.redirects import read_redirects
from kgedit.store.schemas import LoaderOptions
from kgedit.store.snapshots import Snapshot
from kgedit.store.sources import DumpFile


def redirected(tmp_path: Path, *pairs: str) -> Snapshot:
    tmp_path.mkdir(exist_ok=True)
    dump = write_dump(tmp_path / "dump.json", [entity("Q1", label="one"), entity("Q12", label="twelve")])
    (tmp_path / "redirects.tsv").write_text("".join("\t".join(pair.split()) + "\n" for pair in pairs))
    return load(tmp_path, dump, "2021-01-04", redirects=tmp_path / "redirects.tsv")


def targets(snapshot: Snapshot) -> dict[str, str]:
    query = f"SELECT id, redirect_target FROM '{snapshot.entities}' WHERE redirect_target IS NOT NULL"
    return dict(duckdb.sql(query).fetchall())


@pytest.mark.parametrize("pairs", [("Q10 Q11", "Q11 Q12"), ("Q11 Q12", "Q10 Q11")])
def test_case_31_a_redirect_of_a_redirect_is_one_entity(tmp_path: Path, pairs: tuple[str, ...]) -> None:
    assert targets(redirected(tmp_path, *pairs)) == {"Q10": "Q12", "Q11": "Q12"}


def test_case_31_a_long_chain_ends_at_its_end(tmp_path: Path) -> None:
    pairs = [f"Q{number} Q{number + 1}" for number in range(100, 400)]
    snapshot = redirected(tmp_path, *pairs, "Q400 Q1")
    assert set(targets(snapshot).values()) == {"Q1"}
    assert snapshot.manifest["redirected"] == 301


def test_case_31_a_cycle_is_counted_and_not_followed_for_ever(tmp_path: Path) -> None:
    snapshot = redirected(tmp_path, "Q20 Q21", "Q21 Q20", "Q22 Q20", "Q23 Q23", "Q10 Q1")
    assert targets(snapshot) == {"Q10": "Q1"}
    assert snapshot.manifest["left_out"]["redirect in a cycle"] == 4


def test_a_chain_ends_at_an_entity_that_the_dump_holds(tmp_path: Path) -> None:
    """Q12 is an entity of the dump: that it redirects elsewhere is not believed."""
    assert targets(redirected(tmp_path, "Q10 Q12", "Q12 Q1")) == {"Q10": "Q12"}
    assert redirected(tmp_path / "again", "Q10 Q12", "Q12 Q1").manifest["left_out"] == {OF_AN_ENTITY: 1}


OF_AN_ENTITY = "redirect of an entity that the dump holds"
TO_SEVERAL = "redirect to another target as well"

COLLIDING = [("Q12", "Q1"), ("Q10", "Q12"), ("Q10", "Q1"), ("Q11", "Q1"), ("Q11", "Q1")]
"""Q12 is an entity, Q10 has two targets, Q11 is there twice."""


def in_pages(block: int) -> bytes:
    """A dump of pages; the block's size decides whether both sides of a collision are in one block."""
    texts = [(f"Q{n}", json.dumps(entity(f"Q{n}", label=str(n)))) for n in (1, 12)]
    texts += [(source, json.dumps({"entity": source, "redirect": target})) for source, target in COLLIDING]
    pages = (
        f"<page><title>{name}</title><revision><id>7</id><model>wikibase-item</model>"
        f"<text>{text.replace('<', '&lt;')}</text></revision></page>\n"
        for name, text in texts
    )
    return f"<mediawiki>\n{''.join(pages)}</mediawiki>\n".encode()


def in_triples(block: int) -> bytes:
    address = "<http://www.wikidata.org/entity/{}>"
    same = (
        f"<https://www.wikidata.org/wiki/Special:EntityData/{source}> "
        "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://schema.org/Dataset> .\n"
        f"{address.format(source)} <http://www.w3.org/2002/07/owl#sameAs> {address.format(target)} .\n"
        for source, target in COLLIDING
    )
    return RdfWriter().dump([entity("Q1", label="1"), entity("Q12", label="12")]) + "".join(same).encode()


def in_json(block: int) -> bytes:
    return lines([entity("Q1", label="1"), entity("Q12", label="12")])


@pytest.mark.parametrize("block", [64, 1 << 20])
@pytest.mark.parametrize(
    ("loader", "dump"),
    [
        ("wikidata_json", in_json),
        ("wikidata_rdf", in_triples),
        ("wikidata_truthy", in_triples),
        ("wikidata_xml", in_pages),
    ],
)
@pytest.mark.slow
def test_collisions_are_counted_alike_in_every_format(
    tmp_path: Path, loader: str, dump: Callable[[int], bytes], block: int
) -> None:
    (tmp_path / "dump").write_bytes(dump(block))
    file = tmp_path / "redirects.tsv"
    file.write_text("".join(f"{source}\t{target}\n" for source, target in COLLIDING))
    order = load_with(
        loader,
        LoaderOptions(),
        date=datetime.date(2021, 1, 4),
        redirects=file if loader == "wikidata_json" else None,
        max_error_rate=0,
    )
    source = DumpFile(tmp_path / "dump", block)
    snapshot = ingest(tmp_path / "home", order, source, workers=1, overwrite=False)
    assert snapshot.manifest["left_out"] == {OF_AN_ENTITY: 1, TO_SEVERAL: 1}
    assert targets(snapshot) == {"Q10": "Q1", "Q11": "Q1"}
    assert snapshot.manifest["entities"] == 2


def test_what_the_dump_says_goes_before_the_file_and_a_later_day_is_no_contradiction(tmp_path: Path) -> None:
    snapshot = redirected(tmp_path, "Q10 Q1 2020-01-01", "Q10 Q12 2020-06-01", "Q10 Q3 2020-06-01", "Q10 Q1 2020-06-01")
    assert targets(snapshot) == {"Q10": "Q1"}
    assert snapshot.manifest["left_out"] == {TO_SEVERAL: 2}
    assert redirected(tmp_path / "two days", "Q10 Q1 2020-01-01", "Q10 Q12 2020-06-01").manifest["left_out"] == {}


@pytest.mark.parametrize("first", ["Q10 Q1", "Q10\tQ1\t2020"])
def test_a_wrong_first_line_is_an_error_and_a_heading_is_not(tmp_path: Path, first: str) -> None:
    file = tmp_path / "redirects.tsv"
    file.write_text("Q-id\ttarget\nQ11\tQ2\n")
    assert read_redirects(file, 20210104).targets == {"Q11": "Q2"}
    file.write_text(f"{first}\nQ11\tQ2\n")
    with pytest.raises(SourceError, match=r"Line 1 of .* is not a redirect: 'Q10"):
        read_redirects(file, 20210104)


@pytest.mark.parametrize(
    "line",
    [
        "Q012 Q1",
        "Q1 Q99999999999999999999999",
        "P9 Q183",
        "Q5 L5",
        "Q1 Q2 2020-13-45",
        "Q1 Q2 20210229",
        "Q1 Q2 00000101",
    ],
)
def test_impossible_ids_other_kinds_and_impossible_days_are_errors(tmp_path: Path, line: str) -> None:
    file = tmp_path / "redirects.tsv"
    file.write_text("Q11\tQ2\nL1\tL2\t20210228\n" + "\t".join(line.split(" ")) + "\n")
    with pytest.raises(SourceError, match=r"Line 3 of .* is not a redirect: .*two ids of one kind"):
        read_redirects(file, 20210104)
