"""History of an entity over all snapshots: its statements, their versions, and the snapshots that contain them.

The store keeps a statement's value, rank, dates and qualifier properties, but no references. Statements link to
Wikidata, and snapshots to the revision that their dump contained.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from kgedit.pages.explorer import Explorer, ExplorerTerm
from kgedit.store.bucket_numbers import bucket_of
from kgedit.store.engine import literal
from kgedit.store.snapshots import Snapshot, SnapshotTable

_TIMES = ("start", "end", "point")

_DESCRIBED = ("label", "description", "redirect_target", "lastrevid")

_SAID = (
    *("subject", "property", "place", "statement_id", "version", "restricted"),
    *("snak", "object", "value", "unit", "rank"),
    *(f"{name}_{part}" for name in _TIMES for part in ("time", "precision")),
    "qualifier_properties",
)


@dataclass(frozen=True, slots=True)
class Presence:
    """State of the entity in one snapshot.

    Attributes:
        date: Day number of the snapshot.
        state: "there", "merged" or "missing" (absence from a slice is unknown).
        label: Label in that snapshot.
        description: Description in that snapshot.
        merged_into: Target of its redirect; None without a redirect.
        revision: Number of the revision in the dump; None if the format does not record it.
        statements: Number of statements.
    """

    date: int
    state: str
    label: str | None = None
    description: str | None = None
    merged_into: str | None = None
    revision: int | None = None
    statements: int = 0


@dataclass(frozen=True, slots=True)
class Version:
    """Content of a statement, unchanged in some snapshots.

    Attributes:
        dates: Day numbers of the snapshots.
        current: Snapshots in which it was a current fact: of the best rank, begun and not ended.
        snak: "value", "somevalue" (unknown value) or "novalue".
        object: Id of the entity that is the value; None for a literal.
        value: Text of a literal.
        unit: Id of a quantity's unit.
        rank: "preferred", "normal" or "deprecated".
        times: Text of the start, end and point in time that it has; "?" for an unknown date.
        qualifiers: Properties of all qualifiers.
        restricted: Whether a restrictive qualifier excludes it from the current facts.
    """

    dates: tuple[int, ...]
    current: tuple[int, ...]
    snak: str
    object: str | None
    value: str | None
    unit: str | None
    rank: str
    times: Mapping[str, str]
    qualifiers: tuple[str, ...]
    restricted: bool


@dataclass(frozen=True, slots=True)
class StatementHistory:
    """A statement over all snapshots.

    Attributes:
        id: Id on Wikidata, or one derived from the content if the format has none.
        property: PID.
        versions: Versions in the order of their first snapshots.
    """

    id: str
    property: str
    versions: tuple[Version, ...]


@dataclass(frozen=True, slots=True)
class History:
    """An entity over all snapshots.

    Attributes:
        id: QID or PID.
        presence: State in each snapshot, oldest first.
        statements: Ordered by property, then by first snapshot.
        terms: Descriptions of the entity, its properties and its values.
    """

    id: str
    presence: tuple[Presence, ...]
    statements: tuple[StatementHistory, ...]
    terms: Mapping[str, ExplorerTerm]


def read_history(explorer: Explorer, entity: str) -> History | None:
    """Read the history of an entity; None if no snapshot contains it.

    Args:
        explorer: The snapshots.
        entity: Id that `is_entity_id` accepts.
    """
    places = _places(explorer, entity)
    described = _rows(explorer, entity, "entities", places, ("entity_row", "entity_until"), _DESCRIBED)
    presence = [_presence(snapshot, places, described) for snapshot in explorer.snapshots]
    of_facts = ("subject", "statement_place", "statement_places")
    facts = _rows(explorer, entity, "facts", places, ("facts_first", "facts_until"), of_facts)
    rows = _rows(explorer, entity, "claims", places, ("claims_first", "claims_until"), _SAID)
    as_fact = {
        (date, place)
        for date, of_date in facts.items()
        for row in of_date
        if row["subject"] == entity
        for place in row["statement_places"] or [row["statement_place"]]
    }
    claims = {
        date: [row | {"is_fact": (date, row["place"]) in as_fact} for row in of_date if row["subject"] == entity]
        for date, of_date in rows.items()
    }
    if all(one.state == "missing" for one in presence) and not claims:
        return None
    statements = _statements(claims)
    named = {entity, *(one.merged_into for one in presence if one.merged_into)}
    for statement in statements:
        named.add(statement.property)
        for version in statement.versions:
            named |= {one for one in (version.object, version.unit, *version.qualifiers) if one}
    return History(entity, tuple(presence), statements, explorer.terms(sorted(named)))


def _places(explorer: Explorer, entity: str) -> dict[int, dict[str, Any]]:
    """Row ranges of the entity in the files of each snapshot that contains it."""
    parts = [
        f"SELECT {snapshot.date} AS date, *, entity_row + 1 AS entity_until "
        f"FROM {literal(index.file('place'))} WHERE id = $id"
        for snapshot, index in zip(explorer.snapshots, explorer.indexes.places, strict=True)
    ]
    return {row["date"]: row for row in explorer.table(" UNION ALL ".join(parts), {"id": entity}).to_pylist()}


def _presence(
    snapshot: Snapshot, places: Mapping[int, Mapping[str, Any]], described: Mapping[int, Sequence[Mapping[str, Any]]]
) -> Presence:
    rows, place = described.get(snapshot.date), places.get(snapshot.date, {})
    if not rows:
        return Presence(snapshot.date, "missing")
    if rows[0]["redirect_target"]:
        return Presence(snapshot.date, "merged", merged_into=rows[0]["redirect_target"])
    count = 0 if place["claims_first"] is None else place["claims_until"] - place["claims_first"]
    label, description, revision = (rows[0][name] for name in ("label", "description", "lastrevid"))
    return Presence(snapshot.date, "there", label, description, revision=revision, statements=count)


def _rows(
    explorer: Explorer,
    entity: str,
    table: SnapshotTable,
    places: Mapping[int, Mapping[str, Any]],
    between: tuple[str, str],
    columns: Sequence[str],
) -> dict[int, list[dict[str, Any]]]:
    """An entity's consecutive rows in a table of each snapshot, in its order; row groups without them are not read.

    Args:
        explorer: The snapshots.
        entity: Id of the entity.
        table: The table.
        places: Row ranges of the entity, by date.
        between: Keys in `places` of the first row and of the row after the last.
        columns: Columns to read.
    """
    parts = []
    for snapshot in explorer.snapshots:
        place = places.get(snapshot.date, {})
        if place.get(between[0]) is None:
            continue
        file = snapshot.bucket_file(table, bucket_of(pa.array([entity]), snapshot.buckets)[0].as_py())
        parts.append(
            f"SELECT {snapshot.date} AS date, file_row_number, {', '.join(columns)} "
            f"FROM read_parquet({literal(file)}, file_row_number = true) "
            f"WHERE file_row_number >= {place[between[0]]} AND file_row_number < {place[between[1]]}"
        )
    found: dict[int, list[dict[str, Any]]] = {}
    if parts:
        for row in explorer.table(" UNION ALL ".join(parts) + " ORDER BY date, file_row_number").to_pylist():
            found.setdefault(row["date"], []).append(row)
    return found


def _statements(claims: Mapping[int, Sequence[Mapping[str, Any]]]) -> tuple[StatementHistory, ...]:
    """Statements of all snapshots, each version once."""
    found: dict[tuple[str, str], dict[tuple[Any, ...], tuple[Mapping[str, Any], list[int], list[int]]]] = {}
    for date, rows in claims.items():
        for row in rows:
            versions = found.setdefault((row["property"], row["statement_id"]), {})
            _, dates, as_fact = versions.setdefault((row["version"], row["restricted"]), (row, [], []))
            dates.append(date)
            if row["is_fact"]:
                as_fact.append(date)
    made = [
        StatementHistory(name, relation, tuple(_version(*version) for version in versions.values()))
        for (relation, name), versions in found.items()
    ]
    return tuple(sorted(made, key=lambda one: (_number(one.property), one.versions[0].dates[0], one.id)))


def _version(row: Mapping[str, Any], dates: Sequence[int], current: Sequence[int]) -> Version:
    times = {name: "?" if row[f"{name}_precision"] == -1 else row[f"{name}_time"] for name in _TIMES}
    return Version(
        dates=tuple(dates),
        current=tuple(current),
        snak=row["snak"],
        object=row["object"],
        value=row["value"],
        unit=row["unit"],
        rank=row["rank"],
        times={name: text for name, text in times.items() if text},
        qualifiers=tuple(row["qualifier_properties"] or ()),
        restricted=row["restricted"],
    )


def _number(name: str) -> int:
    return int(re.sub(r"\D", "", name) or 0)
