"""The generated world as columns: items and statements at the first date, and at later dates.

Everything is a numpy table with one row per item or statement; items are identified by row number until written.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from generated_kinds import KINDS, SPECIAL_ITEMS, all_properties
from numpy.typing import NDArray

Rows = NDArray[np.void]
Numbers = NDArray[np.int64]

STATEMENT = np.dtype(
    [
        ("subject", "i4"), ("property", "i2"), ("object", "i8"), ("rank", "i1"),
        ("start", "i4"), ("end", "i4"), ("point", "i4"), ("part", "i4"), ("guid", "i8"),
    ]
)  # fmt: skip
"""`object` is an item, or the number from which a literal is made. Times are yyyymmdd, with zeros for unspecified parts
and 0 for no time. `rank` is 1 preferred, 0 normal, -1 deprecated. `part` is the value of the restrictive qualifier, or
-1."""

ITEM = np.dtype(
    [("number", "i8"), ("kind", "i1"), ("label", "i8"), ("present", "?"), ("touched", "i1"), ("target", "i4")]
)
"""`number` is that of the QID, `touched` the number of the date at which its line last changed, `target` the item into
which it was merged, or -1."""

PROPERTIES = all_properties()
PROPERTY_OF = {made.id: number for number, made in enumerate(PROPERTIES)}
KIND_OF = {name: number for number, name in enumerate(KINDS)}
SUCCEEDS = np.array([made.succeeds for made in PROPERTIES])
IS_ITEM = np.array([bool(made.pool) for made in PROPERTIES])
_HUMAN_CLASS, _GENDERS, _PAGE_CLASSES = [0], [1, 2], [6, 7, 8]
STATEMENTS_PER_ITEM = 7
_HUBS = 0.6
"""Zipf exponent of subjects: skew of the distribution of sampled statements."""


@dataclass(frozen=True, slots=True)
class World:
    """All items that ever existed, and the statements of one date.

    Attributes:
        items: Items ordered by kind, followed by items of later dates.
        statements: Statements in no particular order.
        pools: Kind of objects -> its items, most frequent first.
        guids: Number of statements created so far.
    """

    items: Rows
    statements: Rows
    pools: dict[str, Numbers]
    guids: int


def first_world(random: np.random.Generator, statements: int) -> World:
    """The world at the first date, with exactly the given number of statements of items."""
    items = new_items(random, kinds_of(statements // STATEMENTS_PER_ITEM))
    items["number"][: len(SPECIAL_ITEMS)] = [int(qid[1:]) for qid in SPECIAL_ITEMS]
    world = World(items, np.zeros(0, STATEMENT), pools_of(items), 0)
    every = np.arange(len(items))
    certain = certain_statements(random, world, every)
    free = free_statements(random, world, every, int(1.1 * (statements - len(certain))) + 100)
    drawn = without_repetitions(np.concatenate([certain, free]))[:statements]
    date_statements(random, drawn, parts=world.pools["class"])
    return number_statements(replace(world, statements=drawn), drawn)


def number_statements(world: World, new: Rows) -> World:
    """Number these rows, which are or will be part of the world."""
    new["guid"] = world.guids + np.arange(len(new))
    return replace(world, guids=world.guids + len(new))


def zipf(random: np.random.Generator, size: int, skew: float, count: int) -> Numbers:
    """Ranks from 0 to size - 1; rank r has a probability of about (r + 1) ** -skew."""
    drawn = random.random(count)
    if skew == 1:
        ranks = float(size + 1) ** drawn
    else:
        ranks = ((size + 1.0) ** (1 - skew) * drawn + 1 - drawn) ** (1 / (1 - skew))
    return np.minimum(ranks.astype(np.int64) - 1, size - 1)


def kinds_of(size: int) -> Numbers:
    """Kind of each of about `size` items."""
    free = size - sum(kind.count for kind in KINDS.values())
    counts = [kind.count or round(kind.share * free) for kind in KINDS.values()]
    return np.repeat(np.arange(len(KINDS)), counts)


def new_items(random: np.random.Generator, kinds: Numbers, *, first_number: int = 62_000_000) -> Rows:
    items = np.zeros(len(kinds), ITEM)
    items["kind"], items["present"], items["target"] = kinds, True, -1
    items["number"] = first_number + random.permutation(len(kinds) * 3)[: len(kinds)]
    items["label"] = random.integers(0, 2**40, len(kinds))
    return items


def pools_of(items: Rows) -> dict[str, Numbers]:
    """The least frequent items of a pool are the last ones of their kind."""
    pools = {name: np.flatnonzero((items["kind"] == number) & items["present"]) for name, number in KIND_OF.items()}
    anything = ("human", "place", "company", "work", "club", "class")
    return pools | {"gender": np.array(_GENDERS), "any": np.concatenate([pools[name] for name in anything])}


def rows_of(subjects: Numbers, properties: Numbers) -> Rows:
    """Statements without objects."""
    rows = np.zeros(len(subjects), STATEMENT)
    rows["subject"], rows["property"], rows["part"] = subjects, properties, -1
    return rows


def certain_statements(random: np.random.Generator, world: World, items: Numbers) -> Rows:
    """Statements that follow from the items' kinds; values that succeed one another have up to three predecessors."""
    subjects, properties = [], []
    kinds = world.items["kind"][items]
    for name, kind in KINDS.items():
        of_kind = items[kinds == KIND_OF[name]]
        for pid, share in {"P31": 1.0 if name != "special" else 0.0, **kind.certain}.items():
            stating = of_kind[random.random(len(of_kind)) < share]
            times = random.integers(1, 4, len(stating)) if SUCCEEDS[PROPERTY_OF[pid]] else 1
            subjects.append(np.repeat(stating, times))
            properties.append(np.full(len(subjects[-1]), PROPERTY_OF[pid]))
    return with_objects(random, world, rows_of(np.concatenate(subjects), np.concatenate(properties)))


def free_statements(random: np.random.Generator, world: World, items: Numbers, count: int) -> Rows:
    """The given number of statements of properties used by the subjects' kinds, with a skewed distribution."""
    shuffled = random.permutation(items)
    subjects = shuffled[zipf(random, len(items), _HUBS, count)]
    kinds = world.items["kind"][subjects]
    properties = np.full(count, -1)
    for name, kind in KINDS.items():
        mine = np.flatnonzero(kinds == KIND_OF[name])
        if kind.frequent:
            weights = np.array(list(kind.frequent.values()), float)
            chosen = random.choice(len(weights), len(mine), p=weights / weights.sum())
            for number, pid in enumerate(kind.frequent):
                of_property = mine[chosen == number]
                properties[of_property] = _named_or_generated(random, pid, len(of_property))
    known = properties >= 0
    return with_objects(random, world, rows_of(subjects[known], properties[known]))


_GENERATED = {
    "*item": [n for n, made in enumerate(PROPERTIES) if made.label.endswith(" relation")],
    "*external": [n for n, made in enumerate(PROPERTIES) if made.datatype == "external-id"],
    "*literal": [n for n, made in enumerate(PROPERTIES) if made.label.endswith(" measure")],
}


def _named_or_generated(random: np.random.Generator, pid: str, count: int) -> Numbers | int:
    if pid in PROPERTY_OF:
        return PROPERTY_OF[pid]
    pool = np.array(_GENERATED[pid])
    return pool[zipf(random, len(pool), 0.8, count)]


def with_objects(random: np.random.Generator, world: World, rows: Rows) -> Rows:
    """Fill in objects; statements without a possible object (other than the item itself) are left out."""
    order = np.argsort(rows["property"], kind="stable")
    bounds = np.searchsorted(rows["property"][order], np.arange(len(PROPERTIES) + 1))
    for number, made in enumerate(PROPERTIES):
        mine = order[bounds[number] : bounds[number + 1]]
        if made.pool:
            pool = world.pools[made.pool]
            rows["object"][mine] = pool[zipf(random, len(pool), made.skew, len(mine))]
        elif made.datatype == "time":
            rows["object"][mine] = any_day(random, len(mine), 1850, 2020)
        elif made.datatype == "quantity":
            rows["object"][mine] = np.exp(random.normal(7, 2.5, len(mine))).astype(np.int64)
        else:
            rows["object"][mine] = random.integers(0, 2**40, len(mine))
    _classify(random, world, rows)
    return rows[~(IS_ITEM[rows["property"]] & (rows["object"] == rows["subject"]))]


def _classify(random: np.random.Generator, world: World, rows: Rows) -> None:
    """Class of an item, derived from its kind; other kinds use twenty classes each."""
    mine = np.flatnonzero(rows["property"] == PROPERTY_OF["P31"])
    kinds = world.items["kind"][rows["subject"][mine]]
    classes = world.pools["class"]
    objects = classes[(20 * kinds + zipf(random, 20, 1.0, len(mine))) % len(classes)]
    objects = np.where(kinds == KIND_OF["human"], _HUMAN_CLASS[0], objects)
    rows["object"][mine] = np.where(kinds == KIND_OF["page"], random.choice(_PAGE_CLASSES, len(mine)), objects)


def without_repetitions(rows: Rows) -> Rows:
    """The same rows in the same order, without duplicates of subject, property and object."""
    key = (rows["subject"].astype(np.int64) << 9) + rows["property"]
    # Based on a hash of the three; a hash collision only costs one statement.
    hashed = (key.astype(np.uint64) * _ODD) ^ (rows["object"].astype(np.uint64) * _ODDER)
    _, first = np.unique(hashed, return_index=True)
    return rows[np.sort(first)]


_ODD, _ODDER = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)


def any_day(random: np.random.Generator, count: int, first_year: int, last_year: int) -> Numbers:
    """Days as yyyymmdd: half to the day, a fifth to the month, the rest to the year."""
    year = random.integers(first_year, last_year + 1, count)
    return blurred(random, year * 10000 + random.integers(1, 13, count) * 100 + random.integers(1, 29, count))


def blurred(random: np.random.Generator, days: Numbers) -> Numbers:
    """Days with a precision of day, month or year."""
    drawn = random.random(len(days))
    months = np.where(drawn < 0.7, days // 100 * 100, days // 10000 * 10000)
    return np.where(drawn < 0.5, days, months)


def date_statements(random: np.random.Generator, rows: Rows, *, parts: Numbers) -> None:
    """Qualifiers and ranks of the first date; `parts` are values of the restrictive qualifier."""
    _date_succeeding(random, rows)
    others = np.flatnonzero(~SUCCEEDS[rows["property"]])
    pointed = np.isin(rows["property"][others], [PROPERTY_OF[pid] for pid in ("P1082", "P166", "P1128")])
    pointed |= random.random(len(others)) < 0.08
    rows["point"][others] = np.where(pointed, any_day(random, len(others), 1990, 2020), 0)
    is_item = IS_ITEM[rows["property"]] & (rows["property"] != PROPERTY_OF["P31"])
    rows["part"] = np.where(is_item & (random.random(len(rows)) < 0.005), random.choice(parts, len(rows)), -1)
    drawn = random.random(len(rows))
    rows["rank"] = np.where(drawn < 0.01, 1, np.where(drawn < 0.015, -1, 0))


def _date_succeeding(random: np.random.Generator, rows: Rows) -> None:
    """The last of successive values is current; the others have ended."""
    succeeding = np.flatnonzero(SUCCEEDS[rows["property"]])
    succeeding = succeeding[np.lexsort((rows["property"][succeeding], rows["subject"][succeeding]))]
    key = (rows["subject"][succeeding].astype(np.int64) << 9) + rows["property"][succeeding]
    last_of_group = np.searchsorted(key, key, side="right") - 1
    age = last_of_group - np.arange(len(key))
    year = 2020 - 3 * np.minimum(age, 30) - random.integers(0, 3, len(key))
    start = blurred(random, year * 10000 + random.integers(1, 13, len(key)) * 100 + random.integers(1, 29, len(key)))
    rows["start"][succeeding] = np.where((random.random(len(key)) < 0.85) & (start < 20201201), start, 0)
    ended = (age > 0) | (random.random(len(key)) < 0.2)
    end = blurred(random, (year + 3) * 10000 + random.integers(1, 13, len(key)) * 100 + 15)
    # Some terms are already known to end after the first date.
    ahead = (age == 0) & (random.random(len(key)) < 0.02)
    announced = np.where(ahead, any_day(random, len(key), 2021, 2025), 0)
    rows["end"][succeeding] = np.where(ended & (end < 20201201), end, announced)
