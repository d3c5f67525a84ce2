"""Wikidata's XML dumps of pages (pages-articles, its multistream form, the daily adds-changes): entity JSON in pages.

The text of a page is the entity as in the JSON dump, so the JSON loader parses it. Unlike the JSON dump, this format
contains redirects. Pages of other namespaces are skipped. If a page has several revisions, the last one counts; of
copies of a page in a block, the one with the latest revision, also if it is a redirect.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar
from xml.etree.ElementTree import Element, ParseError, XMLPullParser

import msgspec
import pyarrow as pa

from kgedit.errors import SourceError
from kgedit.loaders import LOADERS
from kgedit.store.framing import LONG_ENTITY, cut_at, without_mark
from kgedit.store.rows import BAD_STATEMENTS, table
from kgedit.store.schemas import ENTITIES, LoaderOptions, Parsed
from kgedit.wikidata.ids import is_id_of

NO_XML = "malformed XML"
NO_ENTITY = "page of another namespace"
NO_TEXT = "page without text"

_PAGE = re.compile(rb"[ \t]*<page\b.*?</page>", re.DOTALL)
_TEXT_MODEL = "wikibase-item", "wikibase-property"
_KINDS = {"Q": "item", "P": "property"}


class XmlPages:
    """Pages, each from <page> to </page>."""

    def blocks(self, chunks: Iterator[bytes | bytearray], path: Path) -> Iterator[bytes]:
        """Blocks that end after a page."""
        end = b""
        for block in cut_at(chunks, path, _after_the_last_page, LONG_ENTITY):
            # Room for "</mediawiki>" and white space, even if a block boundary cuts it.
            end = (end + block[-64:]).rstrip()[-64:]
            yield without_mark(block)
        if end and not end.endswith(b"</mediawiki>"):
            raise SourceError(f"{path} does not end with </mediawiki>: it is truncated. Download it again.")

    def first(self, block: bytes, count: int) -> tuple[bytes, int]:
        """The text up to the end of the `count`-th page, and the number of pages in it."""
        end = taken = 0
        for found in _PAGE.finditer(block):
            end = found.end()
            taken += 1
            if taken == count:
                return block[:end], taken
        return block, taken


def _after_the_last_page(text: bytes) -> int:
    end = text.rfind(b"</page>")
    return 0 if end < 0 else end + len(b"</page>")


class XmlParser:
    """Parses blocks of whole pages."""

    source: ClassVar[str] = "https://www.mediawiki.org/wiki/Help:Export#Export_format"
    licence: ClassVar[str] = "CC0-1.0"
    version: ClassVar[str] = "4"
    bad_lines: ClassVar[tuple[str, ...]] = (
        NO_XML,
        NO_TEXT,
        "malformed JSON",
        "nested too deeply",
        "not an entity",
        "unusable id",
    )
    bad_statements: ClassVar[tuple[str, ...]] = BAD_STATEMENTS
    notes: ClassVar[tuple[str, ...]] = LOADERS["wikidata_json"].notes
    framing = XmlPages()
    lacks: ClassVar[tuple[str, ...]] = ("datatypes of properties that the dump does not contain",)
    datatypes_by_property: ClassVar[bool] = True

    def __init__(self, options: LoaderOptions) -> None:
        self._json = LOADERS["wikidata_json"](options)

    def parse(self, block: bytes) -> Parsed:
        """Parse a block by converting its pages to lines of JSON for the JSON loader."""
        counts: Counter[str] = Counter()
        texts: dict[str, list[tuple[int | None, bytes]]] = {}
        redirects: dict[tuple[str, str], int] = {}
        rest = _PAGE.sub(b"\n", block)
        for line in rest.splitlines():
            text = line.strip()
            if text and not _is_frame(text):
                counts["lines"] += 1
                counts[NO_XML] += 1
        for found in _PAGE.finditer(block):
            self._read_page(found[0], counts, texts, redirects)
        for (name, _), revision in redirects.items():
            copies = texts.get(name, [])
            if copies and all(revision > (earlier or 0) for earlier, _ in copies):
                counts.update({"lines": len(copies), "repeated entity": len(copies)})
                del texts[name]
        # The JSON loader keeps the first of several lines about an entity.
        for copies in texts.values():
            copies.sort(key=lambda copy: copy[0] or 0, reverse=True)
        parsed = self._json.parse(b"\n".join(text for copies in texts.values() for _, text in copies))
        revisions = {name: copies[0][0] for name, copies in texts.items() if copies[0][0] is not None}
        entities = _with_revisions(parsed.entities, revisions)
        rows: list[tuple[Any, ...]] = [
            (name, _KINDS[name[0]], *[None] * 3, [], *[None] * 3, to) for name, to in redirects
        ]
        return Parsed(parsed.claims, pa.concat_tables([entities, table(rows, ENTITIES)]), parsed.counts + counts)

    def _read_page(
        self,
        page: bytes,
        counts: Counter[str],
        texts: dict[str, list[tuple[int | None, bytes]]],
        redirects: dict[tuple[str, str], int],
    ) -> None:
        try:
            content = _content(page)
        except (ParseError, ValueError):
            counts.update(("lines", NO_XML))
            return
        model, title, revision, text = content
        if model not in _TEXT_MODEL:
            counts.update(("lines", NO_ENTITY if model != "wikibase-lexeme" else "lexeme"))
            return
        if not text:
            counts.update(("lines", NO_TEXT))
            return
        name = title.rpartition(":")[2]
        target = _redirect(text)
        if target is None:
            # One text must be one line: intact JSON of a page contains no line ends, but damaged text may.
            line = text.encode("utf-8", "replace").replace(b"\n", b" ").replace(b"\r", b" ")
            texts.setdefault(name, []).append((revision, line))
        elif all(one[:1] in _KINDS and is_id_of(_KINDS[one[0]], one) for one in (name, target)) and name != target:
            counts["lines"] += (name, target) not in redirects
            redirects[name, target] = max(redirects.get((name, target), 0), revision or 0)
        else:
            counts.update(("lines", "unusable id"))


def _is_frame(line: bytes) -> bool:
    """Whether a line between pages belongs to the header of the file or is its end."""
    return line[:1] == b"<" or line[-1:] == b">"


def _content(page: bytes) -> tuple[str, str, int | None, str]:
    """Model, title, number and text of a page's last revision.

    Raises:
        ParseError: if it is not valid XML.
        ValueError: if a part is missing.
    """
    parser: XMLPullParser[Any] = XMLPullParser(("end",))
    parser.feed(b"<?xml version='1.0' encoding='utf-8'?>" + page.strip())
    parser.close()
    last: Element | None = None
    title = ""
    for event in parser.read_events():
        element: Any = event[-1]
        if element.tag == "revision":
            last = element
        elif element.tag == "title" and not title:
            title = element.text or ""
    if last is None:
        raise ValueError("a page without revision")
    number = last.findtext("id") or ""
    return (
        last.findtext("model") or "",
        title,
        # 18 digits always fit into a column of 64 bits.
        int(number) if number.isdigit() and len(number) < 19 else None,
        last.findtext("text") or "",
    )


class _Redirect(msgspec.Struct):
    redirect: str


def _redirect(text: str) -> str | None:
    """Target of a redirect in an entity's text; None if it is not a redirect."""
    # A shortcut: a redirect is {"entity":"Q1","redirect":"Q2"}, so no other entity is decoded for this.
    if '"redirect"' not in text[:200]:
        return None
    try:
        return msgspec.json.decode(text, type=_Redirect).redirect
    except (msgspec.DecodeError, RecursionError):
        return None


def _with_revisions(entities: pa.Table, revisions: dict[str, int]) -> pa.Table:
    """Add the revision numbers of the pages to entities, because the JSON within a page lacks them."""
    place = entities.schema.get_field_index("lastrevid")
    known = zip(entities["id"].to_pylist(), entities["lastrevid"].to_pylist(), strict=True)
    numbers: list[Any] = [revisions.get(name, revision) for name, revision in known]
    return entities.set_column(place, "lastrevid", pa.array(numbers, pa.int64()))
