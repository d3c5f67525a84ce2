"""Converts entities in Wikidata's JSON to Wikidata's RDF, full or truthy, as in its dumps.

Based on https://www.mediawiki.org/wiki/Wikibase/Indexing/RDF_Dump_Format. Each value node is written once per file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from hashlib import md5
from typing import Any
from urllib.parse import quote

Json = dict[str, Any]
WD = "http://www.wikidata.org/"
ONTOLOGY = "http://wikiba.se/ontology#"
TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
XSD = "http://www.w3.org/2001/XMLSchema#"
JULIAN = f"{WD}entity/Q1985786"
_PAIRS = {"item": "Item", "property": "Property"}


def iri(text: str) -> str:
    return f"<{text}>"


def literal(text: str, tail: str = "") -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"{tail}'


def typed(text: str, name: str) -> str:
    return literal(text, f"^^<{XSD}{name}>")


class RdfWriter:
    """Writes triples as lines of N-Triples, and remembers the value nodes already written."""

    def __init__(self, *, truthy: bool = False) -> None:
        self.truthy = truthy
        self._nodes: set[str] = set()
        self._blanks = 0

    def dump(self, entities: Iterable[Json]) -> bytes:
        head = [
            f"<{ONTOLOGY}Dump> <http://creativecommons.org/ns#license> <http://creativecommons.org/publicdomain/> ."
        ]
        lines = [line for entity in entities for line in self.entity(entity)]
        return ("\n".join(head + lines) + "\n").encode()

    def entity(self, entity: Json) -> Iterator[str]:
        name, about = entity["id"], f"{WD}entity/{entity['id']}"
        data = f"https://www.wikidata.org/wiki/Special:EntityData/{name}"
        yield f"<{data}> <{TYPE}> <http://schema.org/Dataset> ."
        yield f"<{data}> <http://schema.org/about> <{about}> ."
        if "lastrevid" in entity:
            yield f"<{data}> <http://schema.org/version> {typed(str(entity['lastrevid']), 'integer')} ."
        yield f"<{about}> <{TYPE}> <{ONTOLOGY}{_PAIRS[entity['type']]}> ."
        if entity["type"] == "property":
            kind = entity["datatype"]
            words = {"commonsMedia": "CommonsMedia", "globe-coordinate": "GlobeCoordinate"}.get(kind)
            words = words or "".join(word.capitalize() for word in kind.split("-"))
            yield f"<{about}> <{ONTOLOGY}propertyType> <{ONTOLOGY}{words}> ."
        yield from self.terms(entity, about)
        for statements in dict(entity.get("claims") or {}).values():
            best = "preferred" if any(one["rank"] == "preferred" for one in statements) else "normal"
            for statement in statements:
                yield from self.statement(about, statement, is_best=statement["rank"] == best)

    def terms(self, entity: Json, about: str) -> Iterator[str]:
        for kind, predicates in (
            ("labels", ["http://www.w3.org/2000/01/rdf-schema#label", "http://www.w3.org/2004/02/skos/core#prefLabel"]),
            ("descriptions", ["http://schema.org/description"]),
            ("aliases", ["http://www.w3.org/2004/02/skos/core#altLabel"]),
        ):
            for language, terms in dict(entity.get(kind) or {}).items():
                for term in terms if isinstance(terms, list) else [terms]:
                    for predicate in predicates:
                        yield f"<{about}> <{predicate}> {literal(term['value'], f'@{language}')} ."
        for site, link in dict(entity.get("sitelinks") or {}).items():
            if not site.endswith("wiki") or site in ("commonswiki", "specieswiki", "be_x_oldwiki"):
                continue
            host = f"https://{site.removesuffix('wiki').replace('_', '-')}.wikipedia.org/"
            page = f"{host}wiki/{quote(link['title'].replace(' ', '_'), safe=':/()!,;@$*~')}"
            yield f"<{page}> <{TYPE}> <http://schema.org/Article> ."
            yield f"<{page}> <http://schema.org/about> <{about}> ."
            yield f"<{page}> <http://schema.org/isPartOf> <{host}> ."
            tag = "@" + site.removesuffix("wiki").replace("_", "-")
            yield f"<{page}> <http://schema.org/name> {literal(link['title'], tag)} ."

    def statement(self, about: str, statement: Json, *, is_best: bool) -> Iterator[str]:
        main = statement["mainsnak"]
        property_id = main["property"]
        if is_best:
            yield from self.snak(about, "direct/", main, with_node=False)
        if self.truthy:
            return
        node = f"{WD}entity/statement/{statement['id'].replace('$', '-')}"
        yield f"<{about}> <{WD}prop/{property_id}> <{node}> ."
        yield f"<{node}> <{TYPE}> <{ONTOLOGY}Statement> ."
        yield f"<{node}> <{ONTOLOGY}rank> <{ONTOLOGY}{statement['rank'].capitalize()}Rank> ."
        yield from self.snak(node, "statement/", main, with_node=True)
        for snaks in dict(statement.get("qualifiers") or {}).values():
            for snak in snaks:
                yield from self.snak(node, "qualifier/", snak, with_node=True)
        yield f"<{node}> <http://www.w3.org/ns/prov#wasDerivedFrom> <{WD}reference/0123> ."

    def snak(self, subject: str, role: str, snak: Json, *, with_node: bool) -> Iterator[str]:
        property_id = snak["property"]
        if snak["snaktype"] == "novalue":
            yield f"<{subject}> <{TYPE}> <{WD}prop/novalue/{property_id}> ."
            return
        if snak["snaktype"] == "somevalue":
            self._blanks += 1
            yield f"<{subject}> <{WD}prop/{role}{property_id}> _:genid{self._blanks} ."
            return
        plain, fields = value(snak)
        yield f"<{subject}> <{WD}prop/{role}{property_id}> {plain} ."
        if fields and with_node:
            node = f"{WD}value/{md5(json.dumps(fields).encode()).hexdigest()}"
            yield f"<{subject}> <{WD}prop/{role}value/{property_id}> <{node}> ."
            if node not in self._nodes:
                self._nodes.add(node)
                yield f"<{node}> <{TYPE}> <{ONTOLOGY}Value> ."
                for name, token in fields.items():
                    yield f"<{node}> <{ONTOLOGY}{name}> {token} ."


def value(snak: Json) -> tuple[str, dict[str, str]]:  # noqa: PLR0911 - one for each kind of value
    """Plain value of a snak, and the fields of its value node."""
    kind, said = snak["datavalue"]["type"], snak["datavalue"]["value"]
    datatype = snak.get("datatype")
    if kind == "string":
        if datatype == "commonsMedia":
            return iri("http://commons.wikimedia.org/wiki/Special:FilePath/" + quote(said, safe="")), {}
        return (iri(said) if datatype == "url" else literal(said)), {}
    if kind == "wikibase-entityid":
        prefix = {"item": "Q", "property": "P"}[said["entity-type"]]
        return iri(f"{WD}entity/{prefix}{said['numeric-id']}"), {}
    if kind == "monolingualtext":
        return literal(said["text"], f"@{said['language']}"), {}
    if kind == "quantity":
        bounds = {name: said[f"{name}Bound"] for name in ("upper", "lower") if f"{name}Bound" in said}
        fields = {"quantityAmount": typed(said["amount"], "decimal")}
        fields |= {f"quantity{name.capitalize()}Bound": typed(text, "decimal") for name, text in bounds.items()}
        return fields["quantityAmount"], fields | {
            "quantityUnit": iri(f"{WD}entity/Q199" if said["unit"] == "1" else said["unit"])
        }
    if kind == "globecoordinate":
        globe = said.get("globe") or f"{WD}entity/Q2"
        where = f"Point({said['longitude']} {said['latitude']})"
        tail = "^^<http://www.opengis.net/ont/geosparql#wktLiteral>"
        fields = {"geoLatitude": typed(str(said["latitude"]), "double")}
        fields["geoLongitude"] = typed(str(said["longitude"]), "double")
        if said.get("precision") is not None:
            fields["geoPrecision"] = typed(str(said["precision"]), "double")
        return literal(where if globe.endswith("/Q2") else f"<{globe}> {where}", tail), fields | {
            "geoGlobe": iri(globe)
        }
    text = typed(moment(said), "dateTime")
    return text, {
        "timeValue": text,
        "timePrecision": typed(str(said["precision"]), "integer"),
        "timeTimezone": typed(str(said["timezone"]), "integer"),
        "timeCalendarModel": iri(said["calendarmodel"]),
    }


def moment(said: Json) -> str:
    """A time as xsd:dateTime of XML Schema 1.1: year 0 exists, month 0 does not, days are Gregorian."""
    date, clock = said["time"].split("T")
    year, month, day = date[1:].split("-")
    number = int(year) * (-1 if date[0] == "-" else 1)
    if said["precision"] <= 9:
        month = day = "01"
    elif said["precision"] == 10:
        day = "01"
    if number < 0 and said["precision"] >= 9:
        number += 1
    if said["calendarmodel"] == JULIAN and said["precision"] >= 11:
        number, month_number, day_number = gregorian(number, int(month), int(day))
        month, day = f"{month_number:02d}", f"{day_number:02d}"
    return f"{'-' if number < 0 else ''}{abs(number):04d}-{month}-{day}T{clock}"


def gregorian(year: int, month: int, day: int) -> tuple[int, int, int]:
    """Convert a Julian day to the Gregorian calendar, by counting the leap days that only the Julian calendar has."""
    import datetime

    shift = 0 if year > 4 else 400 * (2 - year // 400)
    years = year + shift - (month <= 2)
    ahead = years // 100 - years // 400 - 2
    leap = month == 2 and day == 29
    found = datetime.date(year + shift, month, 28 if leap else day) + datetime.timedelta(days=ahead + leap)
    # 400 Julian years are three days longer than 400 Gregorian ones, and the shift grows by as much.
    found -= datetime.timedelta(days=3 * (shift // 400))
    return found.year - shift, found.month, found.day


PREFIXES = {
    "data": "https://www.wikidata.org/wiki/Special:EntityData/", "wds": f"{WD}entity/statement/",
    "wdv": f"{WD}value/", "wd": f"{WD}entity/", "psv": f"{WD}prop/statement/value/", "ps": f"{WD}prop/statement/",
    "pqv": f"{WD}prop/qualifier/value/", "pq": f"{WD}prop/qualifier/", "wdt": f"{WD}prop/direct/",
    "wdno": f"{WD}prop/novalue/", "p": f"{WD}prop/", "wikibase": ONTOLOGY, "schema": "http://schema.org/",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#", "xsd": XSD,
}  # fmt: skip


def as_turtle(triples: bytes) -> bytes:
    """Convert N-Triples to Turtle as in the dumps: prefixes, one paragraph per subject."""
    text = triples.decode()
    for name, address in PREFIXES.items():
        text = re.sub(rf"<{re.escape(address)}([A-Za-z0-9-]+)>(?= )", rf"{name}:\1", text)
    paragraphs: list[str] = []
    subject = ""
    for line in text.rstrip("\n").split("\n"):
        first, rest = line.removesuffix(" .").split(" ", 1)
        rest = rest.replace(f"<{TYPE}>", "a", 1)
        if first == subject:
            paragraphs[-1] += f" ;\n\t{rest}"
        else:
            paragraphs.append(f"{first} {rest}")
        subject = first
    head = "".join(f"@prefix {name}: <{address}> .\n" for name, address in PREFIXES.items())
    return (head + "\n" + " .\n\n".join(paragraphs) + " .\n").encode()
