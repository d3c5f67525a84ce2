"""An entity over all snapshots: each of its statements with its versions, and the snapshots in which they stood.

The store keeps a statement's value, rank, dates and which qualifiers it has; it keeps no references. A statement links
to its place on Wikidata, and a snapshot to the very revision that its dump held.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from kgedit.exploring.explorer import Explorer, Term
from kgedit.store.engine import literal
from kgedit.store.snapshots import Snapshot

_TIMES = ("start", "end", "point")


@dataclass(frozen=True, slots=True)
class Presence:
    """What one snapshot says of the entity as a whole.

    Attributes:
        date: Day number of the snapshot.
        state: "there", "merged" or "missing" (what a slice lacks is unknown).
        label: In that snapshot.
        description: Likewise.
        merged_into: Where it redirects; None for nowhere.
        revision: Number of the revision that the dump held; None where the format does not say.
        statements: How many it has.
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
    """What a statement said in some snapshots, unchanged.

    Attributes:
        dates: Day numbers of the snapshots.
        current: Those in which it was a fact: of the best rank, begun and not ended.
        snak: value, somevalue (unknown value) or novalue.
        object: Id of the entity that is the value; None for a literal.
        value: Text of a literal.
        unit: Id of a quantity's unit.
        rank: preferred, normal or deprecated.
        times: Text of start, end and point in time, each where it has one; "?" for a date that is not known.
        qualifiers: Properties of all its qualifiers.
        restricted: Whether a qualifier restricts it to a part, so that it is no fact.
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
class Statement:
    """A statement over all snapshots.

    Attributes:
        id: Its own on Wikidata, or made from its content where the format has none.
        property: PID.
        versions: In the order of their first snapshots.
    """

    id: str
    property: str
    versions: tuple[Version, ...]

    def changed(self, dates: Sequence[int]) -> bool:
        """Whether it is not the same in all of these snapshots, which have the entity."""
        return len(self.versions) > 1 or len(self.versions[0].dates) < len(dates)


@dataclass(frozen=True, slots=True)
class History:
    """An entity over all snapshots.

    Attributes:
        id: QID or PID.
        presence: One for each snapshot, oldest first.
        statements: By property, then by when they first stood.
        terms: What is known of the entity, of its properties and of its values.
    """

    id: str
    presence: tuple[Presence, ...]
    statements: tuple[Statement, ...]
    terms: Mapping[str, Term]


def read_history(explorer: Explorer, entity: str) -> History | None:
    """The history of an entity; None if no snapshot has heard of it.

    Args:
        explorer: The snapshots.
        entity: Id, checked by `is_entity_id`.
    """
    presence, claims = [], {}
    places = _places(explorer, entity)
    for snapshot in explorer.snapshots:
        place = places.get(snapshot.date, {})
        presence.append(_presence(explorer, snapshot, place))
        if place.get("claims_first") is not None:
            claims[snapshot.date] = _claims(explorer, snapshot, entity, place)
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
    """Rows of the entity in the files of each snapshot that has it."""
    parts = [
        f"SELECT {snapshot.date} AS date, * FROM {literal(index.file('place'))} WHERE id = $id"  # noqa: S608 - paths through literal()
        for snapshot, index in zip(explorer.snapshots, explorer.indexes.places, strict=True)
    ]
    return {row["date"]: row for row in explorer.table(" UNION ALL ".join(parts), {"id": entity}).to_pylist()}


def _presence(explorer: Explorer, snapshot: Snapshot, place: Mapping[str, Any]) -> Presence:
    if place.get("entity_row") is None:
        return Presence(snapshot.date, "missing")
    columns = "label, description, redirect_target, lastrevid"
    (row,) = _rows(explorer, snapshot.entities, columns, place["entity_row"], place["entity_row"] + 1).to_pylist()
    if row["redirect_target"]:
        return Presence(snapshot.date, "merged", merged_into=row["redirect_target"])
    count = 0 if place["claims_first"] is None else place["claims_until"] - place["claims_first"]
    return Presence(
        snapshot.date, "there", row["label"], row["description"], revision=row["lastrevid"], statements=count
    )


def _claims(explorer: Explorer, snapshot: Snapshot, entity: str, place: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Statements of an entity in one snapshot, each with whether it is behind a fact (``is_fact``)."""
    facts: set[str] = set()
    if place["facts_first"] is not None:
        columns = "subject, unnest(statement_ids) AS statement_id"
        rows = _rows(explorer, snapshot.facts, columns, place["facts_first"], place["facts_until"])
        facts = {row["statement_id"] for row in rows.to_pylist() if row["subject"] == entity}
    rows = _rows(explorer, snapshot.claims, "* EXCLUDE (file_row_number)", place["claims_first"], place["claims_until"])
    return [row | {"is_fact": row["statement_id"] in facts} for row in rows.to_pylist() if row["subject"] == entity]


def _rows(explorer: Explorer, file: Path, columns: str, first: int, until: int) -> pa.Table:
    """Some neighbouring rows of a file, in its order; row groups without them are not read."""
    return explorer.table(
        f"SELECT {columns} FROM read_parquet({literal(file)}, file_row_number = true) "  # noqa: S608 - paths through literal()
        f"WHERE file_row_number >= {first} AND file_row_number < {until} ORDER BY file_row_number"
    )


def _statements(claims: Mapping[int, Sequence[Mapping[str, Any]]]) -> tuple[Statement, ...]:
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
        Statement(name, relation, tuple(_version(*version) for version in versions.values()))
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
