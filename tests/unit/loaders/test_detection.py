"""The format of a dump is found in its content; a wrong one is named, and so is what can be done."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from kgedit.errors import SourceError, UnknownNameError
from kgedit.loaders.detection import checked_format, format_of
from kgedit.store.sources import DumpFile

JSON = b'[\n{"type":"item","id":"Q1"}\n]\n'
STATEMENT = (
    b"<http://www.wikidata.org/entity/Q1> <http://www.wikidata.org/prop/P31> "
    b"<http://www.wikidata.org/entity/statement/Q1-A> .\n"
)
DIRECT = (
    b"<http://www.wikidata.org/entity/Q1> <http://www.wikidata.org/prop/direct/P31> "
    b"<http://www.wikidata.org/entity/Q5> .\n"
)
LABEL = b'<http://www.wikidata.org/entity/Q1> <http://www.w3.org/2000/01/rdf-schema#label> "universe"@en .\n'


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (JSON, "wikidata_json"),
        (b"\xef\xbb\xbf" + JSON, "wikidata_json"),
        (b'{"type":"item"}', "wikidata_json"),
        (LABEL * 1000 + DIRECT + STATEMENT, "wikidata_rdf"),
        (b"# made by hand\n" + LABEL + DIRECT, "wikidata_truthy"),
        (b"@prefix wds: <http://www.wikidata.org/entity/statement/> .\nwd:Q1 p:P31 wds:Q1-A .\n", "wikidata_rdf"),
        (b"@prefix wdt: <http://example.org/> .\nwd:Q1 wdt:P31 wd:Q5 .\n", "wikidata_truthy"),
        (b'<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/">\n', "wikidata_xml"),
        (b'<?xml version="1.0"?>\n<mediawiki>', "wikidata_xml"),
        (b"id\tnode1\tlabel\tnode2\r\nE1\tQ1\tP31\tQ5\r\n", "kgtk"),
        (b"node1\tlabel\tnode2\tid\n", "kgtk"),
        (b"node1\tlabel\n", None),
        (b"once upon a time", None),
        (LABEL, None),
    ],
)
def test_a_format_is_known_by_how_it_begins(head: bytes, name: str | None) -> None:
    assert format_of(head) == name


def found(path: Path, content: bytes, wanted: str | None = None) -> str:
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return checked_format(DumpFile(path), wanted)


def test_the_content_of_an_archive_counts_and_not_its_name(tmp_path: Path) -> None:
    assert found(tmp_path / "dump.nt.gz", JSON) == "wikidata_json"


def test_an_archive_that_breaks_off_is_still_recognised(tmp_path: Path) -> None:
    path = tmp_path / "dump.gz"
    path.write_bytes(gzip.compress(JSON + bytes(range(256)) * 1000)[:200])
    assert checked_format(DumpFile(path), None) == "wikidata_json"


def test_a_wrong_format_is_named_with_the_right_one(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"looks like kgtk, not wikidata_json. Give source_format kgtk"):
        found(tmp_path / "edges.tsv", b"node1\tlabel\tnode2\n", "wikidata_json")
    with pytest.raises(UnknownNameError, match="Did you mean 'wikidata_json'"):
        found(tmp_path / "dump.json", JSON, "wikidata_jsn")


def test_what_is_not_recognised_is_read_as_the_user_says(tmp_path: Path) -> None:
    assert found(tmp_path / "prose", b"once upon a time", "wikidata_json") == "wikidata_json"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"<!DOCTYPE html><html>503</html>", "is an HTML or XML page"),
        (b"<?xml version='1.0'?><error>Not found</error>", "is an HTML or XML page"),
        (
            b"<?xml version='1.0'?>\n<rdf:RDF xmlns:rdf='x'>",
            "is RDF in whose beginning no statement",
        ),
        (b'{"@context": {}, "@graph": []}', "is RDF in whose beginning no statement"),
        (LABEL, "is RDF in whose beginning no statement"),
    ],
)
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_what_cannot_be_read_says_what_it_is(tmp_path: Path, suffix: str, content: bytes, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        found(tmp_path / f"dump{suffix}", content)
