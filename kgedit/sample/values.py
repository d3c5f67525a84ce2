"""Converts values of world.yaml to Wikidata's JSON.

Written forms: ``Q84 London`` and ``P580 start time`` (the label is only checked), ``2021-12-08``, ``2021-12``,
``2021`` (written at the intended precision), ``1578 ±0.5 unit Q712226 square kilometre``, ``Deutschland@de``,
``52.5 13.4``, and plain text.
"""

from __future__ import annotations

import re
from typing import Any

_TIME = re.compile(r"(\d{4})(?:-(\d{2}))?(?:-(\d{2}))?")
_QUANTITY = re.compile(r"(-?\d+(?:\.\d+)?)(?: ±(\d+(?:\.\d+)?))?(?: unit (Q\d+) .+)?")
_MENTIONED = re.compile(r"([QP][1-9]\d*) (.+)")
_STRINGS = ("string", "external-id", "url", "commonsMedia")


def mentioned(text: str, datatype: str) -> tuple[str, str] | None:
    """Entity referred to by a value, as (id, label written beside it); None if the value is not an entity.

    Raises:
        ValueError: if the value does not have the form required by its datatype.
    """
    if datatype == "quantity":
        unit = re.search(r" unit (.+)", text)
        return mentioned(unit.group(1), "wikibase-item") if unit else None
    if datatype not in ("wikibase-item", "wikibase-property"):
        return None
    matched = _MENTIONED.fullmatch(text)
    if not matched:
        raise ValueError(f"'{text}' is not an id followed by its label")
    return matched.group(1), matched.group(2)


def datavalue(text: str, datatype: str) -> dict[str, Any]:
    """The ``datavalue`` of a snak.

    Raises:
        ValueError: if the value does not have the form required by its datatype.
    """
    if datatype in _STRINGS:
        return {"value": text, "type": "string"}
    if datatype in ("wikibase-item", "wikibase-property"):
        return {"value": _entity_id(text, datatype), "type": "wikibase-entityid"}
    if datatype == "time":
        return {"value": _time(text), "type": "time"}
    if datatype == "quantity":
        return {"value": _quantity(text), "type": "quantity"}
    if datatype == "monolingualtext":
        words, _, language = text.rpartition("@")
        return {"value": {"text": words, "language": language}, "type": "monolingualtext"}
    if datatype == "globe-coordinate":
        return {"value": _place(text), "type": "globecoordinate"}
    raise ValueError(f"the sample world has no values of datatype '{datatype}'")


def _entity_id(text: str, datatype: str) -> dict[str, Any]:
    identifier = text.split(" ", maxsplit=1)[0]
    return {
        "entity-type": datatype.removeprefix("wikibase-"),
        "numeric-id": int(identifier[1:]),
        "id": identifier,
    }


def _time(text: str) -> dict[str, Any]:
    matched = _TIME.fullmatch(text)
    if not matched:
        raise ValueError(f"'{text}' is not a date such as 2021, 2021-12 or 2021-12-08")
    year, month, day = matched.groups()
    return {
        "time": f"+{year}-{month or '00'}-{day or '00'}T00:00:00Z",
        "timezone": 0,
        "before": 0,
        "after": 0,
        "precision": 9 + (month is not None) + (day is not None),
        "calendarmodel": "http://www.wikidata.org/entity/Q1985727",
    }


def _quantity(text: str) -> dict[str, Any]:
    matched = _QUANTITY.fullmatch(text)
    if not matched:
        raise ValueError(f"'{text}' is not a quantity such as 83000 or 1578 ±0.5 unit Q712226 square kilometre")
    amount, bound, unit = matched.groups()
    value = {"amount": _signed(amount), "unit": f"http://www.wikidata.org/entity/{unit}" if unit else "1"}
    if bound is not None:
        value["upperBound"] = _signed(f"{float(amount) + float(bound):g}")
        value["lowerBound"] = _signed(f"{float(amount) - float(bound):g}")
    return value


def _signed(amount: str) -> str:
    return amount if amount.startswith("-") else f"+{amount}"


def _place(text: str) -> dict[str, Any]:
    latitude, longitude = (float(part) for part in text.split(" "))
    return {
        "latitude": latitude,
        "longitude": longitude,
        "altitude": None,
        "precision": 0.01,
        "globe": "http://www.wikidata.org/entity/Q2",
    }
