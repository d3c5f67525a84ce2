"""RDF/XML and JSON-LD: whole documents become the N-Triples of a dump, or one sentence that says why not."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgedit.errors import SourceError
from kgedit.loaders import rdf_text as rdf_documents
from kgedit.loaders.rdf_text import RDF, blocks_of_document, parse

WD = "http://www.wikidata.org"
TRIPLES = f"""
<{WD}/wiki/Special:EntityData/Q2> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://schema.org/Dataset> .
<{WD}/wiki/Special:EntityData/Q2> <http://schema.org/about> <{WD}/entity/Q2> .
<{WD}/entity/Q2> <{WD}/prop/P6> <{WD}/entity/statement/Q2-A> .
<{WD}/entity/statement/Q2-A> <{WD}/prop/statement/P6> <{WD}/entity/Q1> .
<{WD}/entity/statement/Q2-A> <{WD}/prop/qualifier/value/P580> <{WD}/value/v> .
<{WD}/value/v> <http://wikiba.se/ontology#timeValue> "-0500-00-00"^^<http://www.w3.org/2001/XMLSchema#dateTime> .
<{WD}/wiki/Special:EntityData/Q1> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://schema.org/Dataset> .
<{WD}/wiki/Special:EntityData/Q1> <http://schema.org/about> <{WD}/entity/Q1> .
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
