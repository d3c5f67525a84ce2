"""A thousand damaged lines of each format fail no loader and are counted; a broken file is an error in every format."""

from __future__ import annotations

import datetime
import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import pytest
from world.dumps import Json, entity, entity_value, lines, quantity_value, snak, statement, text_value, time_value
from world.rdf import RdfWriter

from kgedit.errors import SourceError
from kgedit.loaders import LOADERS
from kgedit.loaders.detection import checked_format, load_with
from kgedit.store.ingest import ingest
from kgedit.store.schemas import CLAIMS, ENTITIES, Loader, LoaderOptions
from kgedit.store.snapshots import Snapshot, list_snapshots
from kgedit.store.sources import DumpFile

MUTATIONS = 1000
SEED = 20261122
ODD = (
    b"\xff", b"\xed\xa0\x80", b"\x00", b"\\u", b"\\ud800", b'"', b"<", b">", b"\t", b"@", b"^^", b"]", b"{", b"-",
    b" .",
    b"99999999999999999999", b"Q0", b"&#0;", b"&lt;", b"]]>", b"\x85", b"novalue", b"'", b"\\",
)  # fmt: skip

TIME = time_value("+2014-03-00T00:00:00Z", 10)
WORLD: list[Json] = [
    entity(
        f"Q{number}",
        statement(snak("P6", entity_value("Q5"), "wikibase-item"), snak("P580", TIME), rank="preferred"),
        statement(snak("P1082", quantity_value("+42", upperBound="+43", lowerBound="+41"), "quantity")),
        statement(snak("P569", time_value("+1642-12-25T00:00:00Z", 11, "Q1985786"), "time")),
        statement(snak("P1", text_value("a\\b"), "string"), snak("P582", "somevalue"), snak("P1", "novalue")),
        label=f"Town {number}",
    )
    for number in range(1, 6)
]


def pages() -> bytes:
    texts = {one["id"]: json.dumps(one) for one in WORLD} | {"Q9": '{"redirect":"Q1"}'}
    made = (
        f"<page><title>{name}</title><revision><id>7</id><model>wikibase-item</model>"
        f"<text>{escape(text)}</text></revision></page>\n"
        for name, text in texts.items()
    )
    return f"<mediawiki>\n{''.join(made)}</mediawiki>\n".encode()


def edges() -> bytes:
    values = ("Q5", "+42[+41,+43]Q6", "^2014-03-00T00:00:00Z/10", '"a"', "'a'@en", "@1.5/-2", "somevalue")
    rows = ["id\tnode1\tlabel\tnode2\trank"]
    for number in range(1, 6):
        rows.append(f"L{number}\tQ{number}\tlabel\t'Town {number}'@en\t")
        for place, value in enumerate(values):
            rows.append(f"Q{number}-P{place + 1}\tQ{number}\tP{place + 1}\t{value}\tnormal")
            rows.append(f"X{number}{place}\tQ{number}-P{place + 1}\tP580\t^2014-00-00T00:00:00Z/9\t")
    return ("\n".join(rows) + "\n").encode()


TEXTS: dict[str, Callable[[], bytes]] = {
    "wikidata_json": lambda: lines(WORLD),
    "wikidata_rdf": lambda: RdfWriter().dump(WORLD),
    "wikidata_truthy": lambda: RdfWriter(truthy=True).dump(WORLD),
    "wikidata_xml": pages,
    "kgtk": edges,
}


def damaged(chance: random.Random, line: bytes) -> bytes:
    a, b = sorted(chance.randrange(len(line) + 1) for _ in range(2))
    odd = chance.choice(ODD)
    cut, doubled = line[:a] + line[b:], line[:b] + line[a:]
    return chance.choice((line[:a], line[a:], cut, doubled, line[:a] + odd + line[a:], line[:a] + odd + line[b:]))


def test_every_format_is_damaged() -> None:
    assert set(TEXTS) == set(LOADERS)


def left_out(loader: type[Loader] | Loader, counts: Any) -> tuple[int, int]:
    """Lines and statements that the counts say were left out."""
    beside = {"lines", "statements", *loader.notes}
    of_statements = {
        *loader.bad_statements, "statement of a repeated entity", "date without precision", "quantity without unit"
    }  # fmt: skip
    statements = sum(counts[reason] for reason in of_statements)
    return sum(count for reason, count in counts.items() if reason not in beside | of_statements), statements


@pytest.mark.parametrize("name", list(TEXTS))
@pytest.mark.slow
def test_damaged_lines_cost_themselves_and_every_one_is_counted(name: str) -> None:
    chance = random.Random(SEED)
    loader = LOADERS[name](LoaderOptions())
    text = TEXTS[name]().splitlines(keepends=True)
    done = rows = 0
    while done < MUTATIONS:
        at = {chance.randrange(len(text)) for _ in range(8)}
        done += len(at)
        block = b"".join(damaged(chance, line) if place in at else line for place, line in enumerate(text))
        parsed = loader.parse(block)
        assert (parsed.claims.schema, parsed.entities.schema) == (CLAIMS, ENTITIES)
        waiting = parsed.waiting.statements.num_rows if parsed.waiting is not None else 0
        lines_left, statements_left = left_out(loader, parsed.counts)
        seen = (SEED, done, parsed.counts)
        assert parsed.counts["lines"] == parsed.entities.num_rows + lines_left, seen
        assert parsed.counts["statements"] == parsed.claims.num_rows + statements_left, (seen, waiting)
        again = loader.parse(block)
        assert again.claims.equals(parsed.claims)
        rows += parsed.claims.num_rows
    assert rows > 0


def load(folder: Path, name: str, content: bytes, loader: str | None) -> Snapshot:
    path = folder / name
    path.write_bytes(content)
    source = DumpFile(path, 512)
    order = load_with(checked_format(source, loader), LoaderOptions(), date=datetime.date(2021, 1, 4))
    return ingest(folder / "home", order, source, workers=1, overwrite=True)


BROKEN: dict[str, Callable[[bytes], bytes]] = {
    "an archive that breaks off": lambda text: gzip.compress(text)[:-20],
    "an archive that is damaged inside": lambda text: (
        gzip.compress(text, 0)[:900] + b"\0\0" + gzip.compress(text, 0)[902:]
    ),
    "a page in place of a dump": lambda text: gzip.compress(b"<!DOCTYPE html>\n<html><body>503 busy</body></html>\n"),
    "a page in the middle of a dump": lambda text: gzip.compress(
        text[: len(text) // 2] + b"\n<html>503 busy</html>\n" * 500
    ),
    "nothing": lambda text: gzip.compress(b""),
}


@pytest.mark.parametrize("what", list(BROKEN))
@pytest.mark.parametrize("name", list(TEXTS))
@pytest.mark.slow
def test_a_broken_file_is_an_error_and_the_snapshot_of_before_stays(tmp_path: Path, name: str, what: str) -> None:
    before = load(tmp_path, "good", TEXTS[name](), name)
    held = {path.name: path.read_bytes() for path in before.folder.iterdir()}
    with pytest.raises(SourceError):
        load(tmp_path, "broken.gz", BROKEN[what](TEXTS[name]()), name)
    assert {path.name: path.read_bytes() for path in before.folder.iterdir()} == held
    assert [one.name for one in list_snapshots(tmp_path / "home")] == ["2021-01-04"]


@pytest.mark.parametrize("other", list(TEXTS))
@pytest.mark.parametrize("name", list(TEXTS))
@pytest.mark.slow
def test_a_format_named_wrongly_is_an_error_that_names_the_right_one(tmp_path: Path, name: str, other: str) -> None:
    if name == other:
        load(tmp_path, "dump", TEXTS[other](), name)
        return
    with pytest.raises(SourceError, match=f"looks like {other}, not {name}"):
        load(tmp_path, "dump", TEXTS[other](), name)
    assert list_snapshots(tmp_path / "home") == []
