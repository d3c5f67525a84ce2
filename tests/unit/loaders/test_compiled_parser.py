"""The compiled parser gives the rows of Python's, reads nearly every line itself, and leaves the rest to Python."""

from __future__ import annotations

import hashlib
import json
import logging
import random
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from world.dumps import Json, entity, entity_value, lines, snak, statement, text_value
from world.parsers import HAS_COMPILED, make_parser

from kgedit.store import compiled
from kgedit.store.engine import open_in_memory
from kgedit.store.facts import current_facts
from kgedit.store.schemas import CLAIMS, CLAIMS_KEPT, ENTITIES, LoaderOptions, Parsed

pytestmark = pytest.mark.skipif(not HAS_COMPILED, reason="kgedit-native is not installed: make native")

OPTIONS = LoaderOptions(("en", "mul", "de"), "dewiki")
LETTERS = (
    *"aB9 ;,'/\\\"$", "  ", "é", "ß", "漢", "😀", "\n", "\t", "\x00", "\x1c", "\x7f", "\x85", "\xa0", "\u200e",
    "\u2028", "\u3000", "\ufeff",
)  # fmt: skip


def random_text(chance: random.Random) -> str:
    return "".join(chance.choices(LETTERS, k=chance.randrange(8)))


def random_name(chance: random.Random) -> str:
    return "".join(chance.choices("abz-09", k=chance.randint(1, 6)))


def random_entity_value(chance: random.Random) -> Json:
    number = chance.choice((1, 5, 10**17, chance.randrange(1, 10**9)))
    kind, prefix = chance.choice((("item", "Q"), ("property", "P"), ("lexeme", "L")))
    written = chance.choice(({"id": f"{prefix}{number}"}, {"numeric-id": number}))
    return {"type": "wikibase-entityid", "value": {"entity-type": kind} | written}


def random_quantity(chance: random.Random) -> Json:
    value: Json = {"amount": chance.choice(("+1", "-2.50", "3", "", "+0")), "unit": random_address(chance, "1", "")}
    if chance.random() < 0.5:
        value |= {"upperBound": chance.choice(("+2", "")), "lowerBound": "-1"}
        value.pop("lowerBound" if chance.random() < 0.3 else "unit")
    return {"type": "quantity", "value": value}


def random_address(chance: random.Random, *others: str) -> str:
    return chance.choice((*others, "http://www.wikidata.org/entity/Q2", "http://www.wikidata.org/entity/Q11573", "Q5/"))


def random_time_value(chance: random.Random) -> Json:
    year = chance.choice(
        (0, 1, 44, 99, 100, 1900, 1999, 2000, 2020, 2021, 9999, 13_000_000_000, chance.randrange(3000))
    )
    month, day = (
        chance.choice(((0, 0), (chance.randint(1, 12), 0), (12, 31), (2, 28), (2, 29), (2, 30)))
        if (chance.random() < 0.5)
        else (chance.randint(1, 12), chance.randint(1, 31))
    )
    width = chance.choice((1, 4, 11))
    written = f"{chance.choice('+-')}{year:0{width}d}-{month:02d}-{day:02d}T00:00:00Z"
    calendar = random_address(chance)
    return {
        "type": "time",
        "value": {"time": written, "precision": chance.randrange(15), "calendarmodel": calendar, "before": 0},
    }


def random_place(chance: random.Random) -> Json:
    def degrees() -> float:
        return chance.choice((chance.uniform(-180, 180), round(chance.uniform(-90, 90), chance.randrange(9)), -1e-9, 0))

    precision = chance.choice((None, 0.1, 1 / 3600, 1e-5, 1.0, 0, 10, 123456.5, 1234567.0, chance.random() / 1000))
    value = {"latitude": degrees(), "longitude": degrees(), "altitude": None, "precision": precision}
    return {"type": "globecoordinate", "value": value | {"globe": random_address(chance)}}


def random_string(chance: random.Random) -> Json:
    return {"type": chance.choice(("string", "math", random_name(chance))), "value": random_text(chance)}


def random_monolingual_text(chance: random.Random) -> Json:
    return {"type": "monolingualtext", "value": {"text": random_text(chance), "language": random_name(chance)}}


VALUES: tuple[Callable[[random.Random], Json], ...] = (
    random_entity_value, random_quantity, random_time_value, random_time_value, random_place, random_string,
    random_monolingual_text,
)  # fmt: skip


def random_snak(chance: random.Random, property_id: str, *, time: bool = False) -> Json:
    if chance.random() < 0.1:
        return snak(property_id, chance.choice(("somevalue", "novalue")))
    value = random_time_value(chance) if time else chance.choice(VALUES)(chance)
    made: Json = {"snaktype": "value", "property": property_id, "datavalue": value, "hash": "0" * 40}
    return made | ({"datatype": random_name(chance)} if chance.random() < 0.7 else {})


def random_statement(chance: random.Random) -> Json:
    properties = [
        chance.choice(("P580", "P582", "P585", "P4155", "P1", "P642", "P10")) for _ in range(chance.randrange(4))
    ]
    made: list[Json] = [random_snak(chance, one, time=one in ("P580", "P582", "P585")) for one in properties]
    rank = chance.choice(("normal", "preferred", "deprecated"))
    found = statement(random_snak(chance, f"P{chance.randint(1, 9)}"), *made, rank=rank, references=[{"snaks": {}}])
    if chance.random() < 0.2:
        del found["rank"]
    return found | ({} if "qualifiers" in found else {"qualifiers": chance.choice(([], {}))})


def random_terms(chance: random.Random) -> Any:
    languages = chance.sample(("en", "mul", "de", "fr"), chance.randrange(5))
    return {one: {"language": one, "value": random_text(chance)} for one in languages} or chance.choice(([], {}))


def random_line(chance: random.Random, number: int) -> bytes:
    made = entity(f"{chance.choice('QPL')}{number}", *(random_statement(chance) for _ in range(chance.randrange(6))))
    if chance.random() < 0.2:
        for group in made["claims"].values():
            for one in group:
                del one["id"]
    made |= {"labels": random_terms(chance), "descriptions": random_terms(chance), "lastrevid": number}
    made["aliases"] = {"en": [{"language": "en", "value": random_text(chance)} for _ in range(3)], "xx": []}
    made["sitelinks"] = {name: {"site": name, "title": random_text(chance)} for name in ("dewiki", "enwiki")}
    if chance.random() < 0.3:
        made["datatype"] = chance.choice(("string", "a;b", None))
    fields = list(made.items())
    if chance.random() < 0.3:
        chance.shuffle(fields)
    ascii_only = chance.random() < 0.5
    written = json.dumps(dict(fields), ensure_ascii=ascii_only, separators=chance.choice((None, (",", ":"))))
    return written.replace("/", "\\/" if ascii_only else "/").encode()


def assert_equal(found: Parsed, expected: Parsed) -> None:
    assert found.counts == expected.counts
    for one, other in ((found.entities, expected.entities), (found.claims, expected.claims)):
        one.validate(full=True)
        assert one.schema == other.schema
        if not one.equals(other):
            pairs = zip(one.to_pylist(), other.to_pylist(), strict=True)
            raise AssertionError(next(pair for pair in pairs if pair[0] != pair[1]))


@pytest.mark.parametrize("seed", range(8))
def test_random_values_give_the_rows_of_python(seed: int) -> None:
    chance = random.Random(seed)
    block = b",\n".join(random_line(chance, number) for number in range(1, 400))
    parser = make_parser("compiled", OPTIONS)
    assert_equal(parser.parse(block), make_parser("python", OPTIONS).parse(block))


def test_it_reads_nearly_all_lines_itself() -> None:
    import kgedit_native

    chance = random.Random(0)
    block = b"\n".join(random_line(chance, number) for number in range(1, 2000))
    odd = kgedit_native.Parser(["en"], "enwiki").parse(block)[3]
    assert 0 < len(odd) < 2000 * 0.1


HUMAN = statement(snak("P31", entity_value("Q5"), "wikibase-item"))
ODD = statement(snak("P31", {"type": "unknown", "value": {}}))


def test_odd_lines_keep_their_places_among_the_others() -> None:
    names = [f"Q{number}" for number in range(1, 60)]
    made = [entity(name, HUMAN, *([ODD] if number % 7 in (0, 6) else []), HUMAN) for number, name in enumerate(names)]
    found, expected = (make_parser(name).parse(lines(made)) for name in ("compiled", "python"))
    assert_equal(found, expected)
    assert found.entities["id"].to_pylist() == names
    assert found.counts["unknown value type"] == 17


@pytest.mark.parametrize("odd", [(0,), (1,), (0, 1)])
def test_of_an_entity_twice_the_first_stays_whichever_parser_reads_it(odd: tuple[int, ...]) -> None:
    made = [entity("Q1", HUMAN, *([ODD] if number in odd else []), label=str(number)) for number in range(2)]
    found, expected = (make_parser(name).parse(lines(made)) for name in ("compiled", "python"))
    assert_equal(found, expected)
    assert found.entities["label"].to_pylist() == ["0"]


def test_a_block_with_many_odd_lines_is_pythons() -> None:
    block = lines(entity(f"Q{number}", ODD, HUMAN) for number in range(1, 500))
    assert_equal(make_parser("compiled").parse(block), make_parser("python").parse(block))


@pytest.mark.parametrize("depth", [10, 62, 63, 64, 65, 200, 100_000])
def test_depth_is_refused_as_in_python(depth: int) -> None:
    deep = json.dumps(entity("Q1", HUMAN))[:-1].encode() + b', "more": ' + b"[" * depth + b"]" * depth + b"}"
    found, expected = (make_parser(name).parse(deep) for name in ("compiled", "python"))
    assert_equal(found, expected)
    assert found.counts["nested too deeply"] == (depth == 100_000)


def test_options_belong_to_the_parser() -> None:
    block = lines([entity("Q1", labels={"en": {"value": "one"}, "de": {"value": "eins"}})])
    parsers = [make_parser("compiled", LoaderOptions((language,))) for language in ("en", "de", "fr")]
    assert [parser.parse(block).entities["label"].to_pylist() for parser in parsers] == [["one"], ["eins"], [None]]


def test_threads_share_a_parser() -> None:
    chance = random.Random(1)
    blocks = [b"\n".join(random_line(chance, number) for number in range(1, 200)) for _ in range(8)]
    parser = make_parser("compiled")
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(parser.parse, blocks))
    for one, block in zip(found, blocks, strict=True):
        assert_equal(one, parser.parse_in_python(block))


def test_a_parser_of_other_rules_is_not_used(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setitem(sys.modules, "kgedit_native", SimpleNamespace(RULES="2"))
    with caplog.at_level(logging.WARNING):
        assert compiled.find_compiled_parser(LoaderOptions(), "3", nothing) is None
    assert "make native" in caplog.text


def nothing(block: bytes) -> Parsed:
    return Parsed(pa.Table.from_pylist([], CLAIMS), pa.Table.from_pylist([], ENTITIES), Counter())


def test_text_that_is_no_dump_is_pythons() -> None:
    for block in (b"", b"\n", b"[\n]\n", b"\xff\xfe\n", b'"text"', b"[[]]", lines([]), b'{"id": "Q1"}'):
        assert_equal(make_parser("compiled").parse(block), make_parser("python").parse(block))
    assert make_parser("compiled").parse(lines([entity("Q1", statement(snak("P1", text_value("a"))))])).claims.num_rows


def test_hashes_of_rows_are_those_of_their_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(2)

    def some(value: object) -> object:
        return value if chance.random() < 0.8 else None

    texts = [random_text(chance) * chance.randrange(30) for _ in range(500)] + ["a" * n for n in range(130)]
    rows = pa.table(
        {
            "text": pa.array([some(text) for text in texts], pa.string()),
            "names": pa.array(
                [some(chance.choices(texts, k=chance.randrange(4))) for _ in texts], pa.list_(pa.string())
            ),
            "number": pa.array([some(chance.randrange(-(2**63), 2**63)) for _ in texts], pa.int64()),
            "flag": pa.array([some(chance.random() < 0.5) for _ in texts], pa.bool_()),
            "nothing": pa.nulls(len(texts), pa.string()),
        }
    )
    hashes = compiled.find_compiled_hashes()
    assert hashes is not None
    for null in ("\x1e", ""):
        wanted = [
            hashlib.md5("\x1f".join(_written(value, null) for value in row.values()).encode()).digest()
            for row in rows.to_pylist()
        ]
        for start, length in ((0, len(texts)), (3, 5), (13, 300), (7, 0)):
            columns = [column.combine_chunks() for column in rows.slice(start, length).columns]
            assert [bytes(row) for row in hashes(columns, null)] == wanted[start : start + length]
    monkeypatch.setitem(sys.modules, "kgedit_native", SimpleNamespace(RULES="3"))
    assert compiled.find_compiled_hashes() is None


def _written(value: Any, null: str) -> str:
    if value is None:
        return null
    if isinstance(value, bool):
        return "true" if value else "false"
    return "\x1d".join(value) if isinstance(value, list) else str(value)


def test_hashes_refuse_other_columns() -> None:
    hashes = compiled.find_compiled_hashes()
    assert hashes is not None
    for column in (pa.array([1.5]), pa.array([1], pa.int32()), pa.array(["a"], pa.large_string())):
        with pytest.raises(ValueError, match="not those of columns of this type"):
            hashes([column], "")


def test_terms_of_literals_are_those_of_duckdb() -> None:
    chance = random.Random(3)
    rows = [
        {
            "statement_id": f"Q{number}$a",
            "subject": f"Q{number}",
            "property": "P1",
            "rank": "normal",
            "snak": chance.choice(["value", "value", "somevalue"]),
            "object": chance.choice([None, None, "Q5"]),
            "datatype": chance.choice([None, "time", "quantity", "string", "external-id", "monolingualtext"]),
            **{name: chance.choice([None, "", random_text(chance)]) for name in ("value", "unit", "language")},
            "restricted": False,
            "place": number,
        }
        for number in range(400)
    ]
    claims = pa.Table.from_pylist(rows, schema=CLAIMS_KEPT)
    with open_in_memory() as connection:
        facts = current_facts(connection, claims, 20210104)
        with patch.dict(sys.modules, {"kgedit_native": None}):
            assert current_facts(connection, claims, 20210104).equals(facts)
    assert set(facts["kind"].to_pylist()) == {"item", "value"}
