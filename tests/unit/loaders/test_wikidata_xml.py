"""Pages become rows: entities by their JSON, redirects by theirs; pages that are not entities are counted by reason."""

from __future__ import annotations

import bz2
import datetime
import json
from pathlib import Path
from xml.sax.saxutils import escape

import pyarrow.parquet as pq
import pytest
from kgedit.loaders.wikidata_xml import XmlPages, XmlParser
from world.dumps import Json, entity, entity_value, snak, statement

from kgedit.errors import SourceError
from kgedit.loaders.detection import checked_format, load_with
from kgedit.store.ingest import ingest
from kgedit.store.schemas import LoaderOptions
from kgedit.store.sources import DumpFile


def page(title: str, text: str, *, model: str = "wikibase-item", revision: int = 1) -> bytes:
    return (
        f"  <page><title>{title}</title><ns>0</ns><revision><id>{revision}</id><model>{model}</model>"
        f"<text>{escape(text)}</text></revision></page>\n"
    ).encode()


def dump(*pages: bytes) -> bytes:
    return b"<mediawiki>\n  <siteinfo>\n  </siteinfo>\n" + b"".join(pages) + b"</mediawiki>\n"


def parse(block: bytes) -> tuple[list[Json], list[Json], dict[str, int]]:
    parsed = XmlParser(LoaderOptions()).parse(block)
    return parsed.claims.to_pylist(), parsed.entities.to_pylist(), {k: v for k, v in parsed.counts.items() if v}


TOWN = json.dumps(entity("Q1", statement(snak("P6", entity_value("Q5"))), label="Tom & Jerry <1>"))


def test_the_text_of_a_page_is_an_entity_and_its_revision_is_kept() -> None:
    claims, entities, counts = parse(dump(page("Q1", TOWN, revision=77)))
    assert [row["object"] for row in claims] == ["Q5"]
    assert (entities[0]["label"], entities[0]["lastrevid"]) == ("Tom & Jerry <1>", 77)
    assert counts == {"lines": 1, "statements": 1}


def test_redirects_are_rows() -> None:
    _, entities, counts = parse(dump(page("Q2", '{"entity":"Q2","redirect":"Q1"}'), page("Q3", '{"redirect":"Q1;x"}')))
    assert [(row["id"], row["redirect_target"]) for row in entities] == [("Q2", "Q1")]
    assert counts == {"lines": 2, "unusable id": 1}


def test_other_pages_are_counted_by_their_reason() -> None:
    _, entities, counts = parse(
        dump(
            page("Talk:Q1", "hello", model="wikitext"),
            page("Lexeme:L1", "{}", model="wikibase-lexeme"),
            page("Q4", ""),
            page("Q5", "not JSON"),
            b"<page><title>Q6</title><revision></page>\n",
        )
    )
    assert entities == []
    assert counts == {
        "lines": 5, "page of another namespace": 1, "lexeme": 1, "page without text": 1, "malformed JSON": 1,
        "malformed XML": 1,
    }  # fmt: skip


def test_of_several_revisions_of_a_page_the_last_one_counts() -> None:
    first = page("Q1", TOWN, revision=1)
    both = first.replace(b"</page>", b"") + page("Q1", TOWN.replace("Q5", "Q6"), revision=2).partition(b"</title>")[2]
    claims, entities, _ = parse(dump(both.replace(b"<ns>0</ns><revision>", b"<ns>0</ns><revision>", 1)))
    assert ([row["object"] for row in claims], entities[0]["lastrevid"]) == (["Q6"], 2)


@pytest.mark.parametrize("revisions", [(5, 9), (9, 5)])
def test_of_copies_of_a_page_in_a_block_the_latest_one_counts(revisions: tuple[int, int]) -> None:
    texts = {5: TOWN, 9: TOWN.replace("Q5", "Q6")}
    claims, entities, counts = parse(dump(*(page("Q1", texts[number], revision=number) for number in revisions)))
    assert ([row["object"] for row in claims], [row["lastrevid"] for row in entities]) == (["Q6"], [9])
    assert counts == {"lines": 2, "statements": 2, "repeated entity": 1, "statement of a repeated entity": 1}


@pytest.mark.parametrize("redirect_first", [False, True])
@pytest.mark.parametrize(("revision", "kept"), [(4, [None, "Q2"]), (9, ["Q2"])])
def test_of_a_page_and_a_redirect_in_a_block_the_latest_revision_counts(
    revision: int, kept: list[str | None], redirect_first: bool
) -> None:
    pages = [page("Q1", TOWN, revision=5), page("Q1", '{"entity":"Q1","redirect":"Q2"}', revision=revision)]
    _, entities, counts = parse(dump(*(reversed(pages) if redirect_first else pages)))
    assert [row["redirect_target"] for row in entities] == kept  # the store prefers an entity to its redirect
    assert (counts["lines"], counts.get("repeated entity", 0)) == (2, 2 - len(kept))


@pytest.mark.parametrize("size", [1, 50, 400, 100_000])
def test_blocks_hold_whole_pages(size: int) -> None:
    text = dump(*(page(f"Q{number}", TOWN) for number in range(1, 30)))
    blocks = list(XmlPages().blocks((text[at : at + size] for at in range(0, len(text), size)), Path("dump")))
    assert b"".join(blocks) == text
    assert all(block.count(b"<page>") == block.count(b"</page>") for block in blocks)
    assert XmlPages().first(text, 3)[0].count(b"</page>") == 3


def test_pages_that_do_not_end_are_truncated() -> None:
    with pytest.raises(SourceError, match="does not end with </mediawiki>: it is truncated"):
        list(XmlPages().blocks(iter([dump(page("Q1", TOWN))[:-30]]), Path("dump")))


def test_a_days_adds_changes_are_a_slice_and_keep_the_last_revisions_and_the_redirects(tmp_path: Path) -> None:
    pages = [
        page("Q1", TOWN, revision=1),
        page("Q7", '{"entity":"Q7","redirect":"Q1"}'),
        page("Property:P6", json.dumps(entity("P6", type="property", datatype="wikibase-item"))),
    ]
    later = page("Q1", TOWN.replace("Q5", "Q6"), revision=2).partition(b"</title><ns>0</ns>")[2]
    pages[0] = pages[0].replace(b"</page>", later.rstrip())
    path = tmp_path / "wikidatawiki-20240602-pages-meta-hist-incr.xml.bz2"
    path.write_bytes(b"".join(bz2.compress(part) for part in (b"<mediawiki>\n", *pages, b"</mediawiki>\n")))
    source = DumpFile(path, 100)
    order = load_with(
        checked_format(source, None), LoaderOptions(), date=datetime.date(2024, 6, 2), slice_of="pages of that day"
    )
    made = ingest(tmp_path / "home", order, source, workers=1, overwrite=False)
    found = {row["id"]: (row["lastrevid"], row["redirect_target"]) for row in pq.read_table(made.entities).to_pylist()}
    assert found == {"Q1": (2, None), "P6": (1, None), "Q7": (None, "Q1")}
    assert pq.read_table(made.facts)["object"].to_pylist() == ["Q6"]
    assert (made.manifest["slice_of"], made.manifest["left_out"]) == ("pages of that day", {})
