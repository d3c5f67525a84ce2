"""RDF/XML, JSON-LD and Turtle: whole documents become the N-Triples of a dump, or one sentence that says why not."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from world.rdf import as_turtle

from kgedit.errors import SourceError
from kgedit.loaders import rdf_text as rdf_documents
from kgedit.loaders.rdf_text import RDF, blocks_of_document, parse, triples_of

WD = "http://www.wikidata.org"
DATA = "https://www.wikidata.org/wiki/Special:EntityData"
TRIPLES = f"""
<{DATA}/Q2> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://schema.org/Dataset> .
<{DATA}/Q2> <http://schema.org/about> <{WD}/entity/Q2> .
<{WD}/entity/Q2> <{WD}/prop/P6> <{WD}/entity/statement/Q2-A> .
<{WD}/entity/statement/Q2-A> <{WD}/prop/statement/P6> <{WD}/entity/Q1> .
<{WD}/entity/statement/Q2-A> <{WD}/prop/qualifier/value/P580> <{WD}/value/v> .
<{WD}/value/v> <http://wikiba.se/ontology#timeValue> "-0500-00-00"^^<http://www.w3.org/2001/XMLSchema#dateTime> .
<{DATA}/Q1> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://schema.org/Dataset> .
<{DATA}/Q1> <http://schema.org/about> <{WD}/entity/Q1> .
<{WD}/entity/Q1> <http://www.w3.org/2000/01/rdf-schema#label> "say \\"one\\"\\nor two"@en .
""".strip().encode()


def document(form: str) -> bytes:
    return parse(TRIPLES, "nt").serialize(format=form).encode()


@pytest.mark.parametrize("form", ["xml", "json-ld"])
def test_a_document_becomes_blocks_of_whole_entities_after_what_they_share(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rdf_documents, "BLOCK_BYTES", 1)
    blocks = list(RDF.blocks(iter([document(form)]), Path("document")))
    subjects = [{line.split(b" ")[0].rsplit(b"/", 1)[-1] for line in block.splitlines()} for block in blocks]
    assert subjects == [{b"v>"}, {b"Q1>"}, {b"Q2>", b"Q2-A>"}]
    assert sorted(b"".join(blocks).splitlines()) == sorted(TRIPLES.splitlines())
    assert all(b"schema.org/Dataset>" in block.splitlines()[0] for block in blocks[1:])


@pytest.mark.parametrize("form", ["xml", "json-ld"])
def test_a_document_that_was_cut_is_named(form: str) -> None:
    with pytest.raises(SourceError, match=r"document\.rdf cannot be read as (RDF/XML|JSON-LD): .* Is it whole\?"):
        list(blocks_of_document(iter([document(form)[:-40]]), Path("document.rdf"), form))


@pytest.mark.parametrize("context", ['"http://localhost:1/c"', '[{}, "http://localhost:1/c"]', '{"@import": "c"}'])
def test_nothing_is_fetched_to_complete_a_document(context: str) -> None:
    text = b'{"@context": %b, "@graph": [{"@context": {}, "@id": "x:y"}]}' % context.encode()
    with pytest.raises(SourceError, match="a JSON-LD context that is kept elsewhere"):
        list(RDF.blocks(iter([text]), Path("document")))


def test_a_document_that_does_not_fit_says_what_to_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rdf_documents, "LONGEST_ENTITY", 10)
    with pytest.raises(SourceError, match="Use N-Triples"):
        list(blocks_of_document(iter([document("xml")]), Path("document"), "xml"))


def in_turtle(blocks: Iterable[bytes]) -> set[bytes]:
    return {line for block in blocks for line in triples_of(block)}


def turtle(triples: bytes, size: int) -> list[bytes]:
    text = as_turtle(triples)
    return list(RDF.blocks((text[start : start + size] for start in range(0, len(text), size)), Path("dump.ttl")))


@pytest.mark.parametrize("size", [1, 50, 400, 1 << 20])
def test_turtle_may_have_one_entity_and_blocks_of_any_size(size: int) -> None:
    one, expected = TRIPLES.split(f"\n<{DATA}/Q1>".encode())[0], TRIPLES.splitlines()
    assert in_turtle(turtle(TRIPLES, size)) == set(expected)
    assert in_turtle(turtle(one, size)) == set(one.splitlines())


@pytest.mark.parametrize("size", [100, 1 << 20])
def test_turtle_that_does_not_mark_entities_as_dumps_do_is_read_as_a_whole(size: int) -> None:
    text = parse(TRIPLES, "nt").serialize(format="turtle").encode()
    chunks = (text[start : start + size] for start in range(0, len(text), size))
    blocks = list(RDF.blocks(chunks, Path("dump.ttl")))
    assert b"data:" not in text
    assert in_turtle(blocks) == set(TRIPLES.splitlines())


def test_a_truncated_turtle_file_is_named() -> None:
    text = as_turtle(TRIPLES)
    for cut, named in ((text[:-40], "is truncated"), (text.replace(b"data:", b"d:")[:-40], "read as Turtle.*whole")):
        with pytest.raises(SourceError, match=rf"dump\.ttl .*{named}"):
            list(RDF.blocks(iter([cut]), Path("dump.ttl")))
