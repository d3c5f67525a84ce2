"""Canonical form of snaks, Wikidata's pairs of property and value: different spellings of a value become equal.

Source: https://doc.wikimedia.org/Wikibase/master/php/docs_topics_json.html, in all spellings from 2014 to today.

Values of Wikidata's RDF are converted to snaks, undoing the changes made by the writer of the RDF dumps. There a plain
value is incomplete: a date has its precision and calendar, and a quantity its unit and bounds, only in a value node, so
a snak needs both. https://www.mediawiki.org/wiki/Wikibase/Indexing/RDF_Dump_Format
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from urllib.parse import unquote

import msgspec

from kgedit.wikidata.ids import LEAST_UNUSABLE_NUMBER, is_entity_id, is_name
from kgedit.wikidata.times import DAY, UNKNOWN_TIME, YEAR, Time, parse_time


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


ENTITY = "http://www.wikidata.org/entity/"
_MEDIA = "http://commons.wikimedia.org/wiki/Special:FilePath/"
_DATA = "http://commons.wikimedia.org/data/main/"
_UNKNOWN = "http://www.wikidata.org/.well-known/genid/"
_JULIAN = f"{ENTITY}Q1985786"
_ONE = f"{ENTITY}Q199"
_MATHS = "http://www.w3.org/1998/Math/MathML"
_POINT = re.compile(r"(?:<(?P<globe>[^>]+)> )?Point\((?P<longitude>\S+) (?P<latitude>\S+)\)", re.IGNORECASE)

_TERM = re.compile(
    rb'<(?P<iri>[^<>"\x00-\x1f]*)>'
    rb"|(?P<blank>_:\S+)"
    rb'|"(?P<text>(?:[^"\\\n\r]|\\.)*)"(?:@(?P<language>[A-Za-z]+(?:-[A-Za-z0-9]+)*)|\^\^<(?P<datatype>[^<>\s]*)>)?'
)
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)
_ESCAPED = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f", '"': '"', "'": "'", "\\": "\\"}


class RdfTerm:
    """An RDF term.

    Attributes:
        iri: IRI of a resource; blank nodes and literals have None.
        text: Text of a literal; resources and blank nodes have None.
        language: Language of a literal, in lower case; None without one.
        datatype: Datatype of a literal, as an IRI; None without one.
    """

    __slots__ = ("datatype", "iri", "language", "text")

    def __init__(self, iri: str | None, text: str | None, language: str | None, datatype: str | None) -> None:
        self.iri = iri
        self.text = text
        self.language = language
        self.datatype = datatype


def parse_term(token: bytes) -> RdfTerm:
    """Parse a term of N-Triples.

    Raises:
        ValueError: if it is not a valid term.
    """
    match = _TERM.fullmatch(token)
    if match is None:
        raise ValueError(f"not a term of N-Triples: {token[:80]!r}")
    iri, blank, text, language, datatype = match.groups()
    if iri is not None:
        return RdfTerm(_unescaped(iri), None, None, None)
    if blank is not None:
        return RdfTerm(None, None, None, None)
    return RdfTerm(None, _unescaped(text), language.decode().lower() if language else None,
                datatype.decode() if datatype else None)  # fmt: skip


def _unescaped(token: bytes) -> str:
    text = token.decode()
    return _ESCAPE.sub(_character, text) if "\\" in text else text


def _character(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    if code is not None:
        number = int(code, 16)
        if 0xD800 <= number < 0xE000:
            raise ValueError("half of a surrogate pair")
        return chr(number)
    try:
        return _ESCAPED[match[3]]
    except KeyError:
        raise ValueError(f"no such escape: \\{match[3]}") from None


def entity_id(iri: str | None) -> str | None:
    """Entity id in an IRI; None if it is not the IRI of an entity."""
    return iri[len(ENTITY) :] if iri is not None and iri.startswith(ENTITY) else None


def needs_node(term: RdfTerm) -> bool:
    """Whether a plain value contains less than its value node."""
    return term.datatype is not None and term.datatype.endswith(("#dateTime", "#decimal", "#wktLiteral"))


def snak_of(property_id: str, term: RdfTerm) -> Snak:
    """Convert a plain value without a value node to a snak.

    Raises:
        UnreadableError: with the reason.
    """
    if term.text is None:
        if term.iri is None or term.iri.startswith(_UNKNOWN):
            return Snak("somevalue", property_id)
        return _resource(property_id, term.iri)
    try:
        return Snak("value", property_id, *_literal(term))
    except (ValueError, OverflowError) as error:
        raise UnreadableError("unreadable value") from error


def snak_of_node(property_id: str, node: Mapping[str, RdfTerm]) -> Snak:
    """Convert a value node, which contains the complete value, to a snak.

    Args:
        property_id: PID.
        node: Terms of the node by predicate name ("timePrecision").

    Raises:
        UnreadableError: with the reason.
    """
    try:
        if "timePrecision" in node:
            return Snak("value", property_id, DataValue("time", _time(node)), "time")
        if "quantityAmount" in node:
            return Snak("value", property_id, DataValue("quantity", _quantity(node)), "quantity")
        return Snak("value", property_id, DataValue("globecoordinate", _place(node)), "globe-coordinate")
    except (ValueError, OverflowError) as error:
        raise UnreadableError("unreadable value") from error


def _resource(property_id: str, iri: str) -> Snak:
    entity = entity_id(iri)
    if entity is not None:
        return Snak("value", property_id, DataValue("wikibase-entityid", Value(id=entity)))
    if iri.startswith(_MEDIA):
        return Snak("value", property_id, DataValue("string", unquote(iri[len(_MEDIA) :])), "commonsMedia")
    if iri.startswith(_DATA):
        text = unquote(iri[len(_DATA) :]).replace("_", " ")
        return Snak(
            "value", property_id, DataValue("string", text), "geo-shape" if text.endswith(".map") else "tabular-data"
        )
    return Snak("value", property_id, DataValue("string", iri), "url")


def _literal(term: RdfTerm) -> tuple[DataValue, str | None]:
    text, datatype = term.text or "", term.datatype or ""
    if term.language is not None:
        return DataValue("monolingualtext", Value(text=text, language=term.language)), "monolingualtext"
    if datatype.endswith("#wktLiteral"):
        return DataValue("globecoordinate", _point(text)), "globe-coordinate"
    if needs_node(term):
        raise ValueError("a date without its precision, or a quantity without its unit")
    return DataValue("string", text), "math" if datatype == _MATHS else None


def _time(node: Mapping[str, RdfTerm]) -> Value:
    precision = int(_text(node, "timePrecision"))
    model = node["timeCalendarModel"].iri if "timeCalendarModel" in node else None
    text = _as_written(_text(node, "timeValue"), precision, model == _JULIAN)
    return Value(time=text, precision=precision, calendarmodel=model)


_DATE = re.compile(r"([+-]?)(\d{1,16})-(\d\d)-(\d\d)(T.*)?")


@lru_cache(maxsize=65536)
def _as_written(text: str, precision: int, julian: bool) -> str:
    """Convert a date of the RDF to Wikidata's spelling: years BC without a year 0, Julian days as Julian.

    The writer of the dumps counts years as XML Schema 1.1 does and converts days of the Julian calendar, both only
    at sufficient precision.
    """
    match = _DATE.fullmatch(text)
    if match is None:
        return text
    sign, digits, month, day, clock = match.groups()
    year = int(digits) * (-1 if sign == "-" else 1)
    if julian and precision >= DAY and -5000 < year < 10_000:
        year, month_number, day_number = _julian_from_gregorian(year, int(month), int(day))
        month, day = f"{month_number:02d}", f"{day_number:02d}"
    if year <= 0 and precision >= YEAR:
        year -= 1
    return f"{'-' if year < 0 else '+'}{abs(year):04d}-{month}-{day}{clock or ''}"


def _julian_from_gregorian(year: int, month: int, day: int) -> tuple[int, int, int]:
    """Convert a day of the Gregorian calendar to the Julian calendar; both have a year 0.

    Uses the Julian day number (Richards, Explanatory Supplement to the Astronomical Almanac, chapter 15).
    """
    shift = (14 - month) // 12
    years, months = year + 4800 - shift, month + 12 * shift - 3
    number = day + (153 * months + 2) // 5 + 365 * years + years // 4 - years // 100 + years // 400 - 32045
    rest = number + 32082
    cycle = (4 * rest + 3) // 1461
    of_year = rest - 1461 * cycle // 4
    month_from_march = (5 * of_year + 2) // 153
    return (
        cycle - 4800 + month_from_march // 10,
        month_from_march + 3 - 12 * (month_from_march // 10),
        of_year - (153 * month_from_march + 2) // 5 + 1,
    )


def _quantity(node: Mapping[str, RdfTerm]) -> Value:
    unit = node["quantityUnit"].iri if "quantityUnit" in node else None
    upper, lower = (node[name].text if name in node else None for name in ("quantityUpperBound", "quantityLowerBound"))
    return Value(
        amount=_text(node, "quantityAmount"), unit="1" if unit == _ONE else unit, upperBound=upper, lowerBound=lower
    )


def _place(node: Mapping[str, RdfTerm]) -> Value:
    precision = node.get("geoPrecision")
    return Value(
        latitude=float(_text(node, "geoLatitude")),
        longitude=float(_text(node, "geoLongitude")),
        precision=float(precision.text) if precision is not None and precision.text else None,
        globe=node["geoGlobe"].iri if "geoGlobe" in node else None,
    )


def _point(text: str) -> Value:
    match = _POINT.fullmatch(text)
    if match is None:
        raise ValueError("not a point")
    globe = match["globe"] or f"{ENTITY}Q2"
    return Value(latitude=float(match["latitude"]), longitude=float(match["longitude"]), globe=globe)


def _text(node: Mapping[str, RdfTerm], name: str) -> str:
    term = node.get(name)
    if term is None or term.text is None:
        raise ValueError(f"a value node without {name}")
    return term.text


_DATATYPES = {"CommonsMedia": "commonsMedia"}
_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")


@lru_cache(maxsize=256)
def datatype_of(iri: str) -> str:
    """Datatype that corresponds to a property type of the RDF.

    >>> datatype_of("http://wikiba.se/ontology#WikibaseItem"), datatype_of("http://wikiba.se/ontology#ExternalId")
    ('wikibase-item', 'external-id')
    """
    name = iri.rpartition("#")[2]
    hyphenated = _CAPITAL.sub("-", name).lower()
    return _DATATYPES.get(name, "globe-coordinate" if hyphenated == "globecoordinate" else hyphenated)
