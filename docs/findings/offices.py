"""Writes a dump of the slice w12k and of who held 1,100 offices: offices.py DATA OUT.json.gz.

DATA/slices/w12k has dated facts up to 2018; DATA/world_leaders has tables of Wikidata's statements about ministers,
heads of state and heads of government up to 2022, with labels. A table's row becomes an officeholder (P1308) of the
office and a position held (P39) of the person, as in Wikidata. The tables have starts and few ends, and an office has
one holder: a term ends when the next one begins. The predecessor of a table's first holder is taken as in office
until then, without a start. All other predecessors are left out, because nothing says since when they were in office.
"""

from __future__ import annotations

import csv
import gzip
import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DAY, YEAR = 11, 9
"""Precisions of Wikidata's dates."""


def main(data: Path, out: Path) -> None:
    """Write the dump to ``out``."""
    with gzip.open(data / "slices" / "w12k" / "20140101.json.gz", "rt", encoding="utf-8") as lines:
        sliced = [json.loads(line.rstrip(",\n")) for line in lines if line.startswith("{")]
    entities = {entity["id"]: entity for entity in sliced}
    labels: dict[str, str] = {}
    for office, terms in _offices(data / "world_leaders", labels).items():
        entity = entities.setdefault(office, _entity(office, labels))
        entity["claims"]["P1308"] = [
            _statement("P1308", holder, start, end, f"{office}$holder-{number}")
            for number, (holder, start, end) in enumerate(terms)
        ]
        for number, (holder, start, end) in enumerate(terms):
            held = entities.setdefault(holder, _entity(holder, labels))["claims"].setdefault("P39", [])
            held.append(_statement("P39", office, start, end, f"{holder}$office-{office}-{number}"))
    body = ",\n".join(json.dumps(entity, ensure_ascii=False) for entity in entities.values())
    # Without the time in gzip's header: same input, same bytes.
    out.write_bytes(gzip.compress(f"[\n{body}\n]\n".encode(), mtime=0))


def _offices(tables: Path, labels: dict[str, str]) -> dict[str, list[tuple[str, str, str]]]:
    """Holder, start and end of each term, by office; fills in the labels. Dates are days, years or empty."""
    starts: defaultdict[str, dict[tuple[str, str], str]] = defaultdict(dict)
    ends: dict[tuple[str, str, str], str] = {}
    predecessors: dict[tuple[str, str], str] = {}
    for row in _rows(tables / "missing-successors.csv"):
        office, holder, start = row["position"], row["item"], row["after"]
        starts[office][holder, start[:4]] = start
        predecessors[office, start] = row["predecessor"]
        labels |= {office: row["positionLabel"], holder: row["itemLabel"], row["predecessor"]: row["predecessorLabel"]}
    for path in sorted((tables / "all_versions").glob("*.csv")):
        for row in _rows(path):
            # The names of columns differ between versions; their order does not.
            _, _, office, office_label, holder, holder_label, start, end = list(row.values())[:8]
            if start:
                starts[office].setdefault((holder, start[:4]), start)
                ends[office, holder, start[:4]] = end
                labels |= {office: office_label, holder: holder_label}
    found: dict[str, list[tuple[str, str, str]]] = {}
    for office, known in starts.items():
        terms = sorted((start, holder) for (holder, _), start in known.items())
        first, _ = terms[0]
        before = [(predecessors[office, first], "", first)] if (office, first) in predecessors else []
        following = [start for start, _ in terms[1:]] + [""]
        found[office] = before + [
            (holder, start, end or ends.get((office, holder, start[:4]), ""))
            for (start, holder), end in zip(terms, following, strict=True)
        ]
    return found


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as lines:
        yield from csv.DictReader(lines)


def _entity(entity: str, labels: dict[str, str]) -> dict[str, Any]:
    label = labels[entity]
    # Wikidata's tables repeat the id where an entity has no label.
    named = {} if label == entity else {"en": {"language": "en", "value": label}}
    return {"type": "item", "id": entity, "labels": named, "descriptions": {}, "aliases": {}, "claims": {}}


def _statement(name: str, item: str, start: str, end: str, statement: str) -> dict[str, Any]:
    qualifiers = {name: [_value(name, "time", _time(date))] for name, date in (("P580", start), ("P582", end)) if date}
    value = {"entity-type": "item", "numeric-id": int(item[1:]), "id": item}
    return {
        "mainsnak": _value(name, "wikibase-item", value),
        "type": "statement",
        "id": statement,
        "rank": "normal",
        "qualifiers": qualifiers,
        "qualifiers-order": list(qualifiers),
    }


def _value(name: str, datatype: str, value: dict[str, Any]) -> dict[str, Any]:
    kind = "time" if datatype == "time" else "wikibase-entityid"
    return {"snaktype": "value", "property": name, "datavalue": {"value": value, "type": kind}, "datatype": datatype}


def _time(date: str) -> dict[str, Any]:
    day = date if len(date) > len("2001") else f"{date}-00-00"
    return {
        "time": f"+{day}T00:00:00Z",
        "timezone": 0,
        "before": 0,
        "after": 0,
        "precision": DAY if len(date) > len("2001") else YEAR,
        "calendarmodel": "http://www.wikidata.org/entity/Q1985727",
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
