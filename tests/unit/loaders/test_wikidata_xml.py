"""Pages become rows: entities by their JSON, redirects by theirs; what is no entity is counted by its reason."""

from __future__ import annotations

import json
from pathlib import Path
from xml.sax.saxutils import escape

import pytest
from kgedit.loaders.wikidata_xml import Pages, Parser
from world.dumps import Json, entity, entity_value, snak, statement

from kgedit.errors import SourceError
from kgedit.store.schemas import LoaderOptions


def page(title: str, text: str, *, model: str = "wikibase-item", revision: int = 1) -> bytes:
    return (
        f"  <page><title>{title}</title><ns>0</ns><revision><id>{revision}</id><model>{model}</model>"
        f"<text>{escape(text)}</text></revision></page>\n"
    ).encode()


def dump(*pages: bytes) -> bytes:
    return b"<mediawiki>\n  <siteinfo>\n  </siteinfo>\n" + b"".join(pages) + b"</mediawiki>\n"


def parse(block: bytes) -> tuple[list[Json], list[Json], dict[str, int]]:
    parsed = Parser(LoaderOptions()).parse(block)
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


@pytest.mark.parametrize("size", [1, 50, 400, 100_000])
def test_blocks_hold_whole_pages(size: int) -> None:
    text = dump(*(page(f"Q{number}", TOWN) for number in range(1, 30)))
    blocks = list(Pages().blocks((text[at : at + size] for at in range(0, len(text), size)), Path("dump")))
    assert b"".join(blocks) == text
    assert all(block.count(b"<page>") == block.count(b"</page>") for block in blocks)
    assert Pages().first(text, 3)[0].count(b"</page>") == 3


def test_pages_that_do_not_end_are_truncated() -> None:
    with pytest.raises(SourceError, match="does not end with </mediawiki>: it is truncated"):
        list(Pages().blocks(iter([dump(page("Q1", TOWN))[:-30]]), Path("dump")))
