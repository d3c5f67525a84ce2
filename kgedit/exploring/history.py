"""An entity over all snapshots: each of its statements with its versions, and the snapshots in which they stood.

The store keeps a statement's value, rank, dates and which qualifiers it has; it keeps no references. A statement links
to its place on Wikidata, and a snapshot to the very revision that its dump held.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa

from kgedit.exploring.explorer import Explorer, Term
from kgedit.store.engine import literal
from kgedit.store.facts import current_facts
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
    for snapshot, index in zip(explorer.snapshots, explorer.indexes.places, strict=True):
        rows = explorer.table(f"FROM {literal(index.file('place'))} WHERE id = $id", {"id": entity}).to_pylist()
        place = rows[0] if rows else {"entity_row": None, "first": None, "until": None}
        presence.append(_presence(explorer, snapshot, place))
        if place["first"] is not None:
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


def _presence(explorer: Explorer, snapshot: Snapshot, place: Mapping[str, Any]) -> Presence:
    if place["entity_row"] is None:
        return Presence(snapshot.date, "missing")
    (row,) = explorer.table(
        "SELECT label, description, redirect_target, lastrevid "
        f"FROM read_parquet({literal(snapshot.entities)}, file_row_number = true) WHERE file_row_number = $row",  # noqa: S608 - paths through literal()
        {"row": place["entity_row"]},
    ).to_pylist()
    if row["redirect_target"]:
        return Presence(snapshot.date, "merged", merged_into=row["redirect_target"])
    count = 0 if place["first"] is None else place["until"] - place["first"]
    return Presence(
        snapshot.date, "there", row["label"], row["description"], revision=row["lastrevid"], statements=count
    )


def _claims(explorer: Explorer, snapshot: Snapshot, entity: str, place: Mapping[str, Any]) -> pa.Table:
    return explorer.table(
        f"SELECT * EXCLUDE (file_row_number) FROM read_parquet({literal(snapshot.claims)}, file_row_number = true) "  # noqa: S608 - paths through literal()
        "WHERE file_row_number >= $first AND file_row_number < $until AND subject = $subject ORDER BY file_row_number",
        {"first": place["first"], "until": place["until"], "subject": entity},
    )


def _statements(claims: Mapping[int, pa.Table]) -> tuple[Statement, ...]:
    """Statements of all snapshots, each version once."""
    found: dict[tuple[str, str], dict[tuple[Any, ...], tuple[dict[str, Any], list[int], list[int]]]] = {}
    with duckdb.connect() as connection:
        for date, table in claims.items():
            facts = current_facts(connection, table, date)["statement_ids"].to_pylist()
            current = {statement for ids in facts for statement in ids}
            for row in table.to_pylist():
                versions = found.setdefault((row["property"], row["statement_id"]), {})
                _, dates, as_fact = versions.setdefault((row["version"], row["restricted"]), (row, [], []))
                dates.append(date)
                if row["statement_id"] in current:
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
