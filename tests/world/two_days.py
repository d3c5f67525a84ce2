"""Two snapshots of a hand-made world, and what a graph would answer about them, without a server."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from world.dumps import Json, entity, entity_value, load, snak, statement, write_dump

from kgedit.graph.changes import CHANGED_EDGES
from kgedit.graph.queries import read_query, schema_names
from kgedit.store.engine import literal
from kgedit.store.snapshots import Snapshot

OLD, NEW = "2021-01-04", "2023-02-27"


def item(name: str, *statements: Json, label: str | None = None, aliases: tuple[str, ...] = ()) -> Json:
    """An item, or a property, with a label in English."""
    named = [{"language": "en", "value": alias} for alias in aliases]
    return entity(name, *statements, label=label or f"Item {name}", aliases={"en": named} if named else {})


def about(property_id: str, object_id: str) -> Json:
    return statement(snak(property_id, entity_value(object_id)))


def two_snapshots(folder: Path, old: list[Json], new: list[Json]) -> tuple[Snapshot, Snapshot]:
    """Both, loaded into a store in the folder."""
    home = folder / "it's a home"
    before, after = (
        load(home, write_dump(folder / f"{date}.json", items), date, overwrite=True)
        for date, items in ((OLD, old), (NEW, new))
    )
    return before, after


def changed_edges(old: Snapshot, new: Snapshot) -> pa.Table:
    """What cypher/read/changed_edges finds, for worlds without redirects."""
    return duckdb.sql(
        f"""
        WITH o AS (SELECT subject, property, list_sort(list(object)) AS old_objects
                   FROM {literal(old.facts)} GROUP BY ALL),
             n AS (SELECT subject, property, list_sort(list(object)) AS new_objects
                   FROM {literal(new.facts)} GROUP BY ALL)
        SELECT subject, property, coalesce(old_objects, []) AS old_objects, coalesce(new_objects, []) AS new_objects,
               true AS item_valued,
               subject IN (SELECT id FROM {literal(old.entities)}) AS subject_in_old,
               subject IN (SELECT id FROM {literal(new.entities)}) AS subject_in_new
        FROM o FULL JOIN n USING (subject, property) WHERE old_objects IS DISTINCT FROM new_objects
        """
    ).to_arrow_table()


class GraphOfDays:
    """Answers the queries of an export as a graph of these snapshots would; there are no two-hop changes in it."""

    def __init__(self, *snapshots: Snapshot) -> None:
        self._snapshots = {snapshot.date: snapshot for snapshot in snapshots}

    def rows(self, cypher: str) -> list[dict[str, Any]]:
        if cypher.startswith("SHOW INDEXES"):
            return [{"name": name, "state": "ONLINE"} for name in schema_names()]
        assert "(s:Snapshot)" in cypher
        return [{"date": date, "state": "complete"} for date in self._snapshots]

    def table(self, cypher: str, parameters: Mapping[str, Any]) -> pa.Table:
        old, new = self._snapshots[parameters["from"]], self._snapshots[parameters["to"]]
        if cypher == read_query("changed_edges").text:
            found = changed_edges(old, new)
            # An export reads no labels of the graph.
            missing = [field for field in CHANGED_EDGES if field.name not in found.schema.names]
            for field in missing:
                found = found.append_column(field, pa.nulls(found.num_rows, field.type))
            return found.select(CHANGED_EDGES.names)
        query = read_query("two_hop_changes")
        assert cypher == query.text
        return pa.table({name: pa.nulls(0) for name, _ in query.returns})
