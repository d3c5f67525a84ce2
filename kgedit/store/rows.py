"""Converts statements in Wikidata's JSON form to rows of the store. All loaders share it and so give the same rows.

A row's ``version`` is a hash over the whole content of its statement in canonical form, independent of the source
format.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from itertools import chain
from typing import Any, Literal

import msgspec
import pyarrow as pa

from kgedit.wikidata.ids import SEPARATOR, START_TIME, TIME_QUALIFIERS, is_name, is_property_id, is_statement_id
from kgedit.wikidata.snaks import (
    NO_VALUE,
    CanonicalValue,
    Snak,
    UnreadableError,
    canonical_text,
    implied_datatype,
    read_snak,
    read_time,
)
from kgedit.wikidata.times import UNKNOWN_TIME, Time

BAD_STATEMENTS = (
    "malformed statement",
    "unknown snak type",
    "unknown value type",
    "unreadable value",
    "unusable property id",
)
"""Reasons for which `append_claims` leaves a statement out."""

STATEMENT_NOTES = (
    "further values of a time qualifier",
    "qualifiers written as a list",
    "unreadable qualifier",
    "unusable statement id",
)
"""Peculiarities of statements that `append_claims` counts."""


# gc=False: decoded lines contain no cycles, and tracking millions of objects would keep the collector busy.
class Statement(msgspec.Struct, gc=False):
    """A statement as spelled in the JSON dump."""

    mainsnak: Snak
    id: str | None = None
    rank: Literal["preferred", "normal", "deprecated"] = "normal"
    qualifiers: dict[str, list[Snak]] | list[Any] = {}


def without_repetition(texts: list[str]) -> list[str]:
    """Non-empty texts, each once, in order."""
    return [text for text in dict.fromkeys(texts) if text] if texts else texts


@contextmanager
def collector_resting() -> Iterator[None]:
    """Disable the garbage collector.

    Rows contain no cycles, and searching a million of them for cycles takes a third of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def table(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    """Convert rows to an Arrow table with a schema."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def append_claims(
    claims: list[tuple[Any, ...]], counts: Counter[str], subject: str, statements: list[Statement]
) -> None:
    """Append a row with the columns of CLAIMS per statement; unreadable statements are counted by reason."""
    counts["statements"] += len(statements)
    for statement in statements:
        try:
            claims.append(_claim_row(subject, statement, counts))
        except UnreadableError as error:
            counts[error.args[0]] += 1
        except RecursionError:
            counts["malformed statement"] += 1


_NO_TIME = (None, None, None, None)
_NO_TIMES = _NO_TIME * 3


def _claim_row(subject: str, statement: Statement, counts: Counter[str]) -> tuple[Any, ...]:
    snak = statement.mainsnak
    if not is_property_id(snak.property):
        raise UnreadableError("unusable property id")
    main = read_snak(snak)
    kind, entity, value, unit, language, precision, calendar, _bounds = main
    content = canonical_text(snak.property, main)
    content_read = f"{subject}\x1e{statement.rank}\x1e{content}"
    qualifiers: list[str] = []
    separators: list[str] = []
    times: tuple[Any, ...] = _NO_TIMES
    if statement.qualifiers:
        found: dict[str, tuple[Any, ...]] = {}
        content_read += _read_qualifiers(statement.qualifiers, qualifiers, separators, found, counts)
        if found:
            times = tuple(chain.from_iterable(found.get(name, _NO_TIME) for name in TIME_QUALIFIERS))
    version = int.from_bytes(blake2b(content_read.encode(), digest_size=8).digest(), "little", signed=True)
    statement_id = statement.id
    if statement_id is None or not is_statement_id(statement_id):
        counts["unusable statement id"] += statement_id is not None
        statement_id = f"{subject}${blake2b(content.encode(), digest_size=16).hexdigest()}"
    datatype = snak.datatype
    if datatype is None or not is_name(datatype):
        datatype = implied_datatype(kind, entity)
    return (
        statement_id, subject, snak.property, statement.rank, kind if kind in NO_VALUE else "value",
        datatype, entity, value, unit, language, precision, calendar,
        *times, qualifiers, separators, version,
    )  # fmt: skip


def _read_qualifiers(
    by_property: dict[str, list[Snak]] | list[Any],
    properties: list[str],
    separators: list[str],
    times: dict[str, tuple[Any, ...]],
    counts: Counter[str],
) -> str:
    """Fill the three collections; returns the content of the qualifiers in canonical order."""
    if isinstance(by_property, list):
        counts["qualifiers written as a list"] += 1
        return "\x1e" + "\x1e".join(sorted(map(str, by_property)))
    content_read = ""
    for property_id in sorted(by_property):
        snaks = by_property[property_id]
        read = [(canonical_text(property_id, value), value[1]) for value in _read_leniently(snaks, counts)]
        if len(read) > 1:
            read.sort(key=_first)
        for text, _ in read:
            content_read += f"\x1e{text}"
        if not is_property_id(property_id):
            counts["unreadable qualifier"] += 1
            continue
        properties.append(property_id)
        if property_id in TIME_QUALIFIERS:
            times[property_id] = _one_time(property_id, snaks, counts)
        elif property_id == SEPARATOR:
            separators += [entity for _, entity in read if entity]
    return content_read


def _first(pair: tuple[str, Any]) -> str:
    return pair[0]


def _read_leniently(snaks: list[Snak], counts: Counter[str]) -> Iterator[CanonicalValue]:
    """Yield qualifiers. Unreadable ones still distinguish versions, and do not cost the statement."""
    for snak in snaks:
        try:
            yield read_snak(snak)
        except UnreadableError:
            counts["unreadable qualifier"] += 1
            yield ("unreadable", None, f"{snak.snaktype} {snak.datavalue}", None, None, None, None, None)


def _one_time(property_id: str, snaks: list[Snak], counts: Counter[str]) -> tuple[Any, ...]:
    """Time of a qualifier. Of several, the earliest start or the latest end or point; known times come first."""
    counts["further values of a time qualifier"] += len(snaks) > 1
    times = []
    for snak in snaks:
        # An unreadable time is counted with the other qualifiers.
        with suppress(UnreadableError):
            times.append(read_time(snak))
    known = sorted([time for time in times if time is not None and time.first is not None], key=_earlier)
    if known:
        return known[0 if property_id == START_TIME else -1]
    return UNKNOWN_TIME if UNKNOWN_TIME in times else _NO_TIME


def _earlier(time: Time) -> tuple[Any, ...]:
    return time.first, time.until, time.text
