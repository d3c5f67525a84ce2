"""Canonical form of snaks, Wikidata's pairs of property and value: different spellings of a value become equal.

Source: https://doc.wikimedia.org/Wikibase/master/php/docs_topics_json.html, in all spellings from 2014 to today.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import msgspec

from kgedit.wikidata.ids import LEAST_UNUSABLE_NUMBER, is_entity_id, is_name
from kgedit.wikidata.times import UNKNOWN_TIME, Time, parse_time


# gc=False: decoded lines contain no cycles, and tracking millions of objects would keep the collector busy.
class Value(msgspec.Struct, gc=False, rename={"entity_type": "entity-type", "numeric_id": "numeric-id"}):
    """A value as spelled in the dump: the fields of all kinds of values, None for fields of other kinds."""

    id: str | None = None
    entity_type: str | None = None
    numeric_id: int | None = None
    amount: str | None = None
    unit: str | None = None
    upperBound: str | None = None  # noqa: N815 - the dump's spelling
    lowerBound: str | None = None  # noqa: N815
    time: str | None = None
    precision: float | None = None
    calendarmodel: str | None = None
    text: str | None = None
    language: str | None = None
    latitude: float | None = None
    longitude: float | None = None
    globe: str | None = None


class DataValue(msgspec.Struct, gc=False):
    """A value with its type."""

    type: str
    value: Value | str


class Snak(msgspec.Struct, gc=False):
    """A property with a value, or without one ("somevalue", "novalue"), as spelled in the dump."""

    snaktype: str
    property: str
    datavalue: DataValue | None = None
    datatype: str | None = None


class UnreadableError(ValueError):
    """A snak that cannot be read; the first argument is the reason, which is counted."""


CanonicalValue = tuple[str, str | None, str | None, str | None, str | None, str | None, str | None, str | None]
"""Kind of value (including somevalue and novalue), entity, literal, unit, language, precision, calendar, bounds."""

NO_VALUE = ("somevalue", "novalue")


def read_snak(snak: Snak) -> CanonicalValue:
    """Canonical form of a snak's value.

    Raises:
        UnreadableError: with the reason.
    """
    if snak.snaktype in NO_VALUE:
        return (snak.snaktype, None, None, None, None, None, None, None)
    if snak.snaktype != "value" or snak.datavalue is None:
        raise UnreadableError("unknown snak type")
    kind, value = snak.datavalue.type, snak.datavalue.value
    if isinstance(value, str):
        if kind != "string":
            _check_kind_of_text(kind)
        return (kind, None, value, None, None, None, None, None)
    reader = _READERS.get(kind)
    if reader is None:
        raise UnreadableError("unknown value type")
    return reader(value)


def _check_kind_of_text(kind: str) -> None:
    if kind in _READERS:
        raise UnreadableError("unreadable value")
    if not is_name(kind):
        raise UnreadableError("unknown value type")


def canonical_text(property_id: str, read: CanonicalValue) -> str:
    """Canonical text of a snak, without its datatype: properties change theirs, and dumps before 2015 lack it."""
    kind, entity, value, unit, language, precision, calendar, bounds = read
    return (
        f"{property_id}\x1f{kind}\x1f{entity or ''}\x1f{value or ''}\x1f{unit or ''}"
        f"\x1f{language or ''}\x1f{precision or ''}\x1f{calendar or ''}\x1f{bounds or ''}"
    )


def implied_datatype(kind: str, entity: str | None) -> str | None:
    """Datatype of a value whose snak does not state one."""
    if entity is not None:
        return {"P": "wikibase-property", "L": "wikibase-lexeme"}.get(entity[0], "wikibase-item")
    return None if kind in NO_VALUE else "globe-coordinate" if kind == "globecoordinate" else kind


def read_time(snak: Snak) -> Time | None:
    """Time of a qualifier; None if Wikidata states that there is none (novalue).

    Raises:
        UnreadableError: with the reason.
    """
    if snak.snaktype == "somevalue":
        return UNKNOWN_TIME
    if snak.snaktype == "value" and snak.datavalue is not None and isinstance(snak.datavalue.value, Value):
        return _parse(snak.datavalue.value)
    return None


_PREFIXES = {"item": "Q", "property": "P", "lexeme": "L"}


def _read_entity(value: Value) -> CanonicalValue:
    entity, number = value.id, value.numeric_id
    if entity:
        if not is_entity_id(entity):
            raise UnreadableError("unreadable value")
    elif number is None or not 0 < number < LEAST_UNUSABLE_NUMBER or value.entity_type not in _PREFIXES:
        raise UnreadableError("unreadable value")
    else:
        entity = f"{_PREFIXES[value.entity_type]}{number}"
    return ("wikibase-entityid", entity, None, None, None, None, None, None)


def _read_quantity(value: Value) -> CanonicalValue:
    if value.amount is None:
        raise UnreadableError("unreadable value")
    unit = None if value.unit in (None, "1", "") else _last_part(value.unit)
    bounds = f"{value.lowerBound}..{value.upperBound}" if value.upperBound else None
    return ("quantity", None, value.amount.removeprefix("+"), unit, None, None, None, bounds)


def _read_time(value: Value) -> CanonicalValue:
    time = _parse(value)
    return ("time", None, time.text, None, None, str(time.precision), _last_part(value.calendarmodel), None)


def _read_text(value: Value) -> CanonicalValue:
    if value.text is None or not (value.language is None or is_name(value.language)):
        raise UnreadableError("unreadable value")
    return ("monolingualtext", None, value.text, None, value.language, None, None, None)


def _read_place(value: Value) -> CanonicalValue:
    if value.latitude is None or value.longitude is None:
        raise UnreadableError("unreadable value")
    # Six digits: dumps of different years write the same fraction with 14 or 17 digits.
    # Adding 0.0 turns -0.0 into 0.0.
    place = f"{round(value.latitude, 6) + 0.0:.6f},{round(value.longitude, 6) + 0.0:.6f}"
    precision = None if value.precision is None else f"{value.precision:.6g}"
    return ("globecoordinate", None, place, _last_part(value.globe), None, precision, None, None)


_READERS: dict[str, Callable[[Value], CanonicalValue]] = {
    "wikibase-entityid": _read_entity,
    "quantity": _read_quantity,
    "time": _read_time,
    "monolingualtext": _read_text,
    "globecoordinate": _read_place,
}


@lru_cache(maxsize=65536)
def _last_part(address: str | None) -> str | None:
    """Id at the end of an entity's address: "Q2" of "http://www.wikidata.org/entity/Q2"."""
    name = address.rpartition("/")[2] or None if address else None
    if name is not None and not is_name(name):
        raise UnreadableError("unreadable value")
    return name


def _parse(value: Value) -> Time:
    try:
        return parse_time(value.time or "", int(value.precision if value.precision is not None else -1))
    except ValueError as error:
        raise UnreadableError("unreadable value") from error
