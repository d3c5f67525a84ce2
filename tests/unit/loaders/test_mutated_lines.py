"""Thousands of damaged lines cost themselves or a statement, never the load, and every one of them is counted.

$KGEDIT_MUTATED_LINES sets their number; a failure names the seed and the mutation's number.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
from kgedit.loaders.wikidata_json import SKIPPED_TYPES, JsonParser
from world.dumps import load
from world.parsers import HAS_COMPILED, PARSERS, make_parser
from world.shared_data import SHARED

from kgedit.sample.generate import write_world
from kgedit.store.schemas import Parsed

LINES = int(os.environ.get("KGEDIT_MUTATED_LINES", "1300"))
SEED = 20240603
LONGEST = 12_000
"""Bytes of a line that is damaged; longer ones take longer and show nothing else."""

BAD_LINES = (*JsonParser.bad_lines, *SKIPPED_TYPES, "repeated entity")
BAD_STATEMENTS = (*JsonParser.bad_statements, "statement of a repeated entity")

ODD_NUMBERS = ("1e400", "-1e400", "1" + "0" * 400, "1" + "0" * 5000, str(2**63), str(-(2**63) - 1), "-1", "0", "1.5")
ODD_TEXTS = (
    "", " ", "NULL", "Q1;2", "Q1 ", "Q0", "P1\n", "\r\n", "a\tb", "\x1b[2J", "\x00", "\u0085", "\u2028", "\ufeff",
    "\U0010ffff", "'\"\\;,|", "x" * 100_000,
)  # fmt: skip
ODD_VALUES: tuple[Any, ...] = (None, True, [], {}, [[]], {"": {}}, ["Q1"], 0, 1.5, "", "text", [None], {"id": None})
ODD_BYTES = (
    b"\xff", b"\xed\xa0\x80", b"\xc0\x80", b"\x00", b"\x07", b"\x1b", b"\\ud800", b"\\udc00", b"\\ud800\\ud800",
    b"\\u0000", b"\\x", b"\r", b"\x0c",
)  # fmt: skip


# Damage to the bytes of a line


def truncated(chance: random.Random, line: bytes) -> bytes:
    return line[: chance.randrange(len(line))] if chance.random() < 0.7 else line[chance.randrange(len(line)) :]


def nested(chance: random.Random, line: bytes) -> bytes:
    """Something deep in place of a value, from just within to far beyond what can be decoded."""
    depth = chance.choice((200, 900, 950, 980, 1000, 1100, 5000, 100_000))
    opening, closing = chance.choice(((b"[", b"]"), (b'{"a":', b"}")))
    deep = opening * depth + b"0" + closing * (depth if chance.random() < 0.8 else 0)
    at = [number for number, byte in enumerate(line) if byte == ord(":")]
    cut = chance.choice(at) + 1 if at else 0
    return chance.choice((deep, line[:cut] + deep + b',"b":' + line[cut:]))


def with_odd_bytes(chance: random.Random, line: bytes) -> bytes:
    at = chance.randrange(len(line))
    return line[:at] + chance.choice(ODD_BYTES) + line[at + chance.randrange(3) :]


def with_an_odd_number(chance: random.Random, line: bytes) -> bytes:
    """A huge or odd number in place of a number or a text."""
    number = chance.choice(ODD_NUMBERS)
    return (
        json.dumps(changed(chance, json.loads(line), lambda _: "@number@"))
        .encode()
        .replace(b'"@number@"', number.encode())
    )


def with_odd_brackets(chance: random.Random, line: bytes) -> bytes:
    around = (b"[%b", b"%b]", b"[%b]", b"[[%b]]", b"{%b}", b"(%b)", b"%b}", b"[%b,", b"%b,%b", b"[%b,%b]", b"%b[]")
    if chance.random() < 0.5:
        form = chance.choice(around)
        return form.replace(b"%b", line)
    brackets = [number for number, byte in enumerate(line) if byte in b"[]{}"]
    at = chance.choice(brackets)
    return line[:at] + chance.choice((b"[", b"]", b"{", b"}", b"")) + line[at + 1 :]


def shuffled(chance: random.Random, line: bytes) -> bytes:
    a, b, c = sorted(chance.randrange(len(line)) for _ in range(3))
    return line[:a] + line[b:c] + line[a:b] + line[c:]


# Damage to the JSON of an entity


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container with each of its keys."""
    found = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in found:
        yield value, key
        yield from places(inner)


def changed(chance: random.Random, entity: Any, change: Callable[[Any], Any]) -> Any:
    """An entity with one to three values changed, of its own fields as often as of those deep inside."""
    for _ in range(chance.randint(1, 3)):
        candidates = list(places(entity))
        if not candidates:
            break
        container, key = chance.choice(candidates)
        if isinstance(entity, dict) and entity and chance.random() < 0.4:
            container, key = entity, chance.choice(list(entity))
        container[key] = change(container[key])
    return entity


def as_json(entity: Any) -> bytes:
    return json.dumps(entity, ensure_ascii=False).encode("utf-8", "surrogatepass")


def with_odd_texts(chance: random.Random, line: bytes) -> bytes:
    def odd(value: Any) -> Any:
        text = chance.choice(ODD_TEXTS)
        return value + text if isinstance(value, str) and chance.random() < 0.5 else text

    return as_json(changed(chance, json.loads(line), odd))


def with_wrong_types(chance: random.Random, line: bytes) -> bytes:
    return as_json(changed(chance, json.loads(line), lambda _: deepcopy(chance.choice(ODD_VALUES))))


def with_swapped_parts(chance: random.Random, line: bytes) -> bytes:
    entity = json.loads(line)
    parts = [container[key] for container, key in places(entity)]
    return as_json(changed(chance, entity, lambda _: deepcopy(chance.choice(parts))))


def without_keys(chance: random.Random, line: bytes) -> bytes:
    entity = json.loads(line)
    for _ in range(chance.randint(1, 3)):
        container, key = chance.choice(list(places(entity)) or [(entity, None)])
        if key is not None:
            del container[key]
    return as_json(entity)


def with_other_keys(chance: random.Random, line: bytes) -> bytes:
    entity = json.loads(line)
    maps = [(container, key) for container, key in places(entity) if isinstance(container, dict)]
    container, key = chance.choice(maps)
    container[chance.choice(ODD_TEXTS)] = container.pop(key)
    return as_json(entity)


def with_an_odd_id(chance: random.Random, line: bytes) -> bytes:
    return as_json(json.loads(line) | {"id": chance.choice((*ODD_TEXTS, *ODD_VALUES, "L1", "P1", "Q2"))})


def repeated(chance: random.Random, line: bytes) -> bytes:
    return line + b"\n" + line


MUTATIONS = (
    truncated, nested, with_odd_bytes, with_an_odd_number, with_odd_brackets, shuffled, with_odd_texts,
    with_wrong_types, with_swapped_parts, without_keys, with_other_keys, with_an_odd_id, repeated,
)  # fmt: skip


def _sample(folder: Path) -> list[bytes]:
    return [gzip.decompress(path.read_bytes()) for path in write_world(folder) if path.suffix == ".gz"]


def _real(_: Path) -> list[bytes]:
    return [bz2.decompress((SHARED / "dump_1000_20151109" / "1000-entities-20151109.json.bz2").read_bytes())]


@pytest.fixture(scope="module", params=[_sample, pytest.param(_real, marks=pytest.mark.shared)], ids=["sample", "real"])
def healthy(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """Entities of the sample world, and of the real dump of 2015."""
    texts = request.param(tmp_path_factory.mktemp("world"))
    found = [line.strip(b", \r") for text in texts for line in text.splitlines()]
    return [line for line in found if 2 < len(line) < LONGEST]


@pytest.fixture(scope="module")
def damaged(healthy: list[bytes]) -> list[bytes]:
    chance = random.Random(SEED)
    made = []
    for number in range(LINES):
        mutate = MUTATIONS[number % len(MUTATIONS)]
        line = mutate(chance, chance.choice(healthy))
        made.append(MUTATIONS[chance.randrange(3)](chance, line) if line and chance.random() < 0.05 else line)
    return made


def check(parsed: Parsed) -> None:
    """A table that can be written, and sums that add up."""
    counts = parsed.counts
    for table in (parsed.claims, parsed.entities):
        table.validate(full=True)
        pq.write_table(table, io.BytesIO())
    assert counts["lines"] == parsed.entities.num_rows + sum(counts[reason] for reason in BAD_LINES)
    assert counts["statements"] == parsed.claims.num_rows + sum(counts[reason] for reason in BAD_STATEMENTS)
    assert set(counts) <= {"lines", "statements", *BAD_LINES, *BAD_STATEMENTS, *JsonParser.notes}


@pytest.mark.slow
@pytest.mark.parametrize("name", PARSERS)
def test_no_damaged_line_stops_the_parser(damaged: list[bytes], name: str) -> None:
    parser = make_parser(name)
    lines, found = 0, Counter[str]()
    for number, line in enumerate(damaged):
        try:
            parsed = parser.parse(line)
            check(parsed)
        except Exception as error:
            raise AssertionError(
                f"line {number} of seed {SEED} ({MUTATIONS[number % len(MUTATIONS)].__name__})"
            ) from error
        lines += parsed.counts["lines"]
        found.update(parsed.counts)
    assert lines >= LINES * 0.98
    assert {reason for reason in (*JsonParser.bad_lines, *JsonParser.bad_statements) if not found[reason]} == set()


@pytest.mark.skipif(not HAS_COMPILED, reason="kgedit-native is not installed: make native")
@pytest.mark.slow
def test_the_compiled_parser_gives_the_rows_and_counts_of_python_for_every_damaged_line(damaged: list[bytes]) -> None:
    compiled, python = make_parser("compiled"), make_parser("python")
    compared = [line for line in damaged if not is_about_as_deep_as_python_reads(line)]
    assert len(compared) > len(damaged) * 0.9
    for number, line in enumerate(compared):
        assert_equal(compiled.parse(line), python.parse(line), f"line {number} of seed {SEED}")
    blocks = [b",\n".join(compared[start : start + 20]) for start in range(0, len(compared), 20)]
    for number, block in enumerate(blocks):
        assert_equal(compiled.parse(block), python.parse(block), f"block {number} of seed {SEED}")


def is_about_as_deep_as_python_reads(line: bytes) -> bool:
    """Python's limit counts the calls above the parser as well, which differ."""
    return any(opening * 800 in line and opening * 2000 not in line for opening in (b"[", b'{"a":'))


def assert_equal(compiled: Parsed, python: Parsed, where: str) -> None:
    assert compiled.counts == python.counts, where
    assert compiled.entities.equals(python.entities), where
    assert compiled.claims.equals(python.claims), where


@pytest.mark.slow
def test_a_load_of_damaged_lines_adds_up_and_holds_only_usable_ids(
    tmp_path: Path, healthy: list[bytes], damaged: list[bytes]
) -> None:
    mixed = list(damaged)
    random.Random(SEED).shuffle(mixed)
    dump = tmp_path / "dump.json"
    dump.write_bytes(b"\n".join([healthy[0], *mixed]))
    snapshot = load(tmp_path, dump, "2024-06-03", max_error_rate=1.0)
    manifest, left_out = snapshot.manifest, snapshot.manifest["left_out"]
    assert manifest["lines"] == manifest["entities"] + sum(left_out.get(reason, 0) for reason in BAD_LINES)
    assert manifest["statements"] == manifest["claims"] + sum(
        left_out.get(reason, 0) for reason in (*BAD_STATEMENTS, "repeated statement")
    )
    assert set(left_out) <= {*BAD_LINES, *BAD_STATEMENTS, "repeated statement"}
    for path, column, form in (
        (snapshot.entities, "id", "[QP][1-9][0-9]*"),
        (snapshot.claims, "subject", "[QP][1-9][0-9]*"),
        (snapshot.claims, "property", "P[1-9][0-9]*"),
        (snapshot.claims, "object", "[QPLME][1-9][0-9]*(-[FS][1-9][0-9]*)?"),
        (snapshot.claims, "unnest(qualifier_properties)", "P[1-9][0-9]*"),
        (snapshot.claims, "statement_id", "[^[:cntrl:][:space:]]+"),
        (snapshot.claims, "datatype", "[^[:cntrl:][:space:];]+"),
        (snapshot.claims, "unit", "[^[:cntrl:][:space:];]+"),
        (snapshot.claims, "language", "[^[:cntrl:][:space:];]+"),
        (snapshot.entities, "label", "[^[:cntrl:]]+"),
        (snapshot.entities, "description", "[^[:cntrl:]]+"),
        (snapshot.entities, "wiki_title", "[^[:cntrl:]]+"),
        (snapshot.entities, "unnest(aliases)", "[^[:cntrl:]]+"),
    ):
        odd = duckdb.sql(f"SELECT x FROM (SELECT {column} AS x FROM '{path}') WHERE NOT regexp_full_match(x, '{form}')")
        assert odd.fetchall() == [], column
