"""Writes dumps of a generated world at two or three dates in Wikidata's JSON, with the redirects between them.

    python benchmarks/generated_dumps.py FOLDER --statements 1000000 --seed 0 [--dates 3]

FOLDER gets 20210104.json.zst, 20230227.json.zst, with --dates 3 also 20240603.json.zst, and redirects.tsv (from, to,
first date). Equal arguments give equal bytes. The first date has exactly N statements of items:

* N / 7 items of 17 kinds in random order, seven in ten of them humans; about 70 % of statements have an item as value,
  the others are quantities, times, strings, external ids and monolingual texts of 310 properties;
* objects and subjects by zipf distributions: about N / 10 statements refer to Q5 (100,000 of a million), N / 25 to each
  of the two genders, N / 70 to the largest country; the largest subject has about N / 700 statements;
* labels of two or three Latin words, mostly unique (.5 % have none, .4 % six words, .3 % Cyrillic letters),
  descriptions, aliases on a fifth, an English article on two in five;
* offices, coaches, clubs, employers, parties and spouses succeed one another: the last one is current, earlier ones
  have ended; 20 % of all statements have P580, P582 or P585 to the day, the month or the year, .3 % the restrictive
  qualifier P518;
* 1 % of statements are preferred, .5 % deprecated; eleven properties declare a single value (P2302), most with the
  separators P580 and P582.

From date to date 2 % of statements change, in the kinds and shares listed in generated_changes.py. A statement keeps
its GUID, and `lastrevid` changes only if the entity's line does.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import zstandard
from generated_changes import next_world
from generated_kinds import (
    KINDS,
    QUALIFIER_PROPERTIES,
    RESTRICTIVE,
    SINGLE_VALUE,
    Property,
    label_of,
    word,
)
from generated_world import IS_ITEM, PROPERTIES, PROPERTY_OF, SPECIAL_ITEMS, SUCCEEDS, Rows, World, first_world

DATES = (date(2021, 1, 4), date(2023, 2, 27), date(2024, 6, 3))
REVISIONS = (1_336_000_000, 1_842_000_000, 2_171_000_000)
"""Approximate revision numbers of Wikidata at the three dates."""

_ITEMS_AT_ONCE = 20_000
_CALENDAR = "http://www.wikidata.org/entity/Q1985727"
_RANKS = ("normal", "preferred", "deprecated")  # index -1 is the last one
_KIND_NAMES = tuple(KINDS)
_SPECIAL_LABELS = tuple(SPECIAL_ITEMS.values())


def write_dumps(folder: Path, *, statements: int, seed: int = 0, dates: int = 2) -> list[Path]:
    """Write the dumps and ``redirects.tsv``; the same arguments give the same bytes.

    Returns:
        Paths of the dumps, oldest first.
    """
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(seed)
    world = first_world(random, statements)
    paths, redirects = [], ""
    for step, day in enumerate(DATES[:dates]):
        if step:
            merged_before = world.items["target"] >= 0
            world = next_world(random, world, step=step, first=DATES[step - 1], last=day)
            redirects += _redirects(world, merged_before, DATES[step - 1])
        paths.append(folder / f"{day:%Y%m%d}.json.zst")
        _write_dump(paths[-1], world)
    (folder / "redirects.tsv").write_text(redirects, encoding="utf-8")
    return paths


def _redirects(world: World, merged_before: np.ndarray, after: date) -> str:
    items = world.items
    merged = items["target"] >= 0
    merged[: len(merged_before)] &= ~merged_before
    first = str(np.datetime64(after) + 100)
    pairs = zip(items["number"][merged], items["number"][items["target"][merged]], strict=True)
    return "".join(f"Q{source}\tQ{target}\t{first}\n" for source, target in pairs)


def _write_dump(path: Path, world: World) -> None:
    aside = path.with_suffix(".part")
    with aside.open("wb") as raw, zstandard.ZstdCompressor(level=3).stream_writer(raw) as file:
        file.write(("[\n" + ",\n".join(_property_lines())).encode())
        for lines in _item_lines(world):
            file.write((",\n" + ",\n".join(lines)).encode())
        file.write(b"\n]\n")
    aside.replace(path)


def _item_lines(world: World) -> Iterator[list[str]]:
    """Lines of several thousand items at a time, in an order unrelated to their kinds."""
    items, rows = world.items, world.statements
    place = np.random.default_rng(1).permutation(len(items))
    place_of_row = place[rows["subject"]]
    order = np.lexsort((rows["guid"], rows["property"], place_of_row))
    sequence = np.argsort(place)
    for first in range(0, len(items), _ITEMS_AT_ONCE):
        chosen = sequence[first : first + _ITEMS_AT_ONCE]
        bounds = np.searchsorted(place_of_row, [first, first + len(chosen)], sorter=order)
        claims = _claims(world, rows[order[bounds[0] : bounds[1]]])
        yield [
            _item_line(item, *row, claims.get(item))
            for item, row in zip(chosen.tolist(), _fields(items[chosen]), strict=True)
            if row[3]
        ]


def _fields(rows: Rows) -> Iterator[tuple[Any, ...]]:
    return zip(*(rows[name].tolist() for name in rows.dtype.names), strict=True)


def _item_line(
    item: int, number: int, kind: int, seed: int, _present: bool, touched: int, _target: int, claims: str | None
) -> str:
    """One item; everything derived from its label's seed is constant over time."""
    label = label_of(_KIND_NAMES[kind], seed) if kind else _SPECIAL_LABELS[item]
    labels = f'{{"en":{{"language":"en","value":"{label}"}}}}' if label else "{}"
    description = f"{_KIND_NAMES[kind]} of {word(number, 3).title()}"
    aliases = "{}"
    if number % 5 == 0:
        others = (f'{{"language":"en","value":"{word(number + n, 4).title()}"}}' for n in range(1 + number % 3))
        aliases = f'{{"en":[{",".join(others)}]}}'
    article = "{}"
    if number % 5 < 2:
        article = f'{{"enwiki":{{"site":"enwiki","title":"{word(number, 4).title()} {number}","badges":[]}}}}'
    return (
        f'{{"type":"item","id":"Q{number}","labels":{labels},"descriptions":{{"en":{{"language":"en","value":'
        f'"{description}"}}}},"aliases":{aliases},"claims":{claims or "[]"},"sitelinks":{article},'
        f'"lastrevid":{REVISIONS[touched] - number % 1_000_000}}}'
    )


def _claims(world: World, rows: Rows) -> dict[int, str]:
    """JSON of the claims of each subject in these rows, which are sorted by subject and property."""
    texts = _statements(world, rows)
    keys = (rows["subject"].astype(np.int64) << 9) + rows["property"]
    bounds = [*np.flatnonzero(np.diff(keys, prepend=-1)).tolist(), len(rows)]
    claims: dict[int, str] = {}
    for (first, until), key in zip(pairwise(bounds), keys[bounds[:-1]].tolist(), strict=True):
        subject, number = key >> 9, key & 511
        group = f'"{PROPERTIES[number].id}":[{",".join(texts[first:until])}]'
        claims[subject] = f"{claims[subject]},{group}" if subject in claims else "{" + group
    return {subject: text + "}" for subject, text in claims.items()}


_HEADS = [f'{{"mainsnak":{{"snaktype":"value","property":"{made.id}","datavalue":' for made in PROPERTIES]
_TAILS = [f',"datatype":"{made.datatype}"}},"type":"statement",' for made in PROPERTIES]


def _statements(world: World, rows: Rows) -> list[str]:
    """JSON of statements: mainsnak, qualifiers, id, rank."""
    values = _values(world, rows)
    subjects = world.items["number"][rows["subject"]].tolist()
    parts = np.where(rows["part"] >= 0, world.items["number"][rows["part"]], 0).tolist()
    high, low = _scattered(rows["guid"], 0x9E3779B97F4A7C15), _scattered(rows["guid"], 0xD6E8FEB86659FD93)
    fields = zip(
        rows["property"].tolist(), values, subjects, rows["rank"].tolist(), rows["start"].tolist(),
        rows["end"].tolist(), rows["point"].tolist(), parts, high, low, strict=True,
    )  # fmt: skip
    return [
        f"{_HEADS[number]}{value}{_TAILS[number]}"
        f"{_qualifiers(start, end, point, part) if start or end or point or part else ''}"
        f'"id":"Q{subject}${one[:8]}-{one[8:12]}-4{one[13:]}-A{two[1:4]}-{two[4:]}","rank":"{_RANKS[rank]}"}}'
        for number, value, subject, rank, start, end, point, part, one, two in fields
    ]


def _scattered(numbers: np.ndarray, odd: int) -> list[str]:
    """Sixteen hexadecimal digits for each number, all different."""
    mixed = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(odd)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    return [f"{number:016X}" for number in mixed.tolist()]


def _values(world: World, rows: Rows) -> list[str]:
    """JSON of the datavalues."""
    is_item = IS_ITEM[rows["property"]]
    numbers = np.where(is_item, world.items["number"][np.where(is_item, rows["object"], 0)], rows["object"])
    makers = [_VALUES[made.datatype] for made in PROPERTIES]
    return [makers[number](value) for number, value in zip(rows["property"].tolist(), numbers.tolist(), strict=True)]


def _item_value(number: int) -> str:
    return f'{{"value":{{"entity-type":"item","numeric-id":{number},"id":"Q{number}"}},"type":"wikibase-entityid"}}'


def _time_value(day: int) -> str:
    precision = 11 if day % 100 else 10 if day % 10000 else 9
    return (
        f'{{"value":{{"time":"+{day // 10000:04d}-{day // 100 % 100:02d}-{day % 100:02d}T00:00:00Z","timezone":0,'
        f'"before":0,"after":0,"precision":{precision},"calendarmodel":"{_CALENDAR}"}},"type":"time"}}'
    )


def _quantity_value(amount: int) -> str:
    return f'{{"value":{{"amount":"+{amount}","unit":"1"}},"type":"quantity"}}'


def _string_value(number: int) -> str:
    return f'{{"value":"{number:x}","type":"string"}}'


def _text_value(number: int) -> str:
    text = f"{word(number, 2)} {word(number >> 16, 3)}".title()
    return f'{{"value":{{"text":"{text}","language":"en"}},"type":"monolingualtext"}}'


_VALUES = {
    "wikibase-item": _item_value, "time": _time_value, "quantity": _quantity_value, "string": _string_value,
    "external-id": _string_value, "monolingualtext": _text_value,
}  # fmt: skip


def _snak(pid: str, datatype: str, value: str) -> str:
    return f'{{"snaktype":"value","property":"{pid}","datavalue":{value},"datatype":"{datatype}"}}'


def _qualifiers(start: int, end: int, point: int, part: int) -> str:
    said = {
        pid: _snak(pid, "time", _time_value(day))
        for pid, day in (("P580", start), ("P582", end), ("P585", point))
        if day
    }
    if part:
        said[RESTRICTIVE] = _snak(RESTRICTIVE, "wikibase-item", _item_value(part))
    snaks = ",".join(f'"{pid}":[{snak}]' for pid, snak in said.items())
    return f'"qualifiers":{{{snaks}}},"qualifiers-order":{json.dumps(list(said))},'


def _property_lines() -> list[str]:
    """The properties, which never change."""
    return [_property_line(made) for made in (*PROPERTIES, *QUALIFIER_PROPERTIES)]


def _property_line(made: Property) -> str:
    claims: dict[str, list[Any]] = {}
    if made.id in SINGLE_VALUE:
        separators = ("P580", "P582") if SUCCEEDS[PROPERTY_OF[made.id]] else ()
        claims["P2302"] = [_statement_about(made, "P2302", "Q19474404", separators)]
    if made.id == RESTRICTIVE:
        claims["P31"] = [_statement_about(made, "P31", "Q61719275", ())]
    line = {
        "type": "property", "datatype": made.datatype, "id": made.id,
        "labels": {"en": {"language": "en", "value": made.label}}, "descriptions": {}, "aliases": {},
        "claims": claims or [], "lastrevid": REVISIONS[0] - int(made.id[1:]),
    }  # fmt: skip
    return json.dumps(line, separators=(",", ":"))


def _statement_about(made: Property, pid: str, item: str, separators: tuple[str, ...]) -> dict[str, Any]:
    statement = {
        "mainsnak": json.loads(_snak(pid, "wikibase-item", _item_value(int(item[1:])))),
        "type": "statement", "id": f"{made.id}$00000000-0000-4000-A000-{int(pid[1:]):012d}", "rank": "normal",
    }  # fmt: skip
    if separators:
        value = '{{"value":{{"entity-type":"property","numeric-id":{},"id":"{}"}},"type":"wikibase-entityid"}}'
        snaks = [json.loads(_snak("P4155", "wikibase-property", value.format(s[1:], s))) for s in separators]
        statement |= {"qualifiers": {"P4155": snaks}, "qualifiers-order": ["P4155"]}
    return statement


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--statements", type=int, default=1_000_000)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--dates", type=int, choices=(1, 2, 3), default=2)
    given = arguments.parse_args()
    for path in write_dumps(given.folder, statements=given.statements, seed=given.seed, dates=given.dates):
        print(path)


if __name__ == "__main__":
    main()
