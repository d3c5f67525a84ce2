"""Both snapshots in one DuckDB connection, with the newer one's ids, and data about classes and properties.

Every step of the profile reads tables of this connection and adds some. Data about properties and classes is taken from
the newer snapshot, or from the older one if the newer lacks it, so a statement is judged alike on both sides.
"""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa

from kgedit.store.closures import below
from kgedit.store.snapshots import Snapshot
from kgedit.store.window import Window
from kgedit.wikidata.ids import (
    INSTANCE_OF,
    NON_RESTRICTIVE_QUALIFIER,
    ONLINE_ACCOUNT_PROPERTY,
    PROPERTY_ABOUT_WIKIMEDIA,
    RESTRICTIVE_QUALIFIER,
    REVIEW_SCORE_BY,
    SUBCLASS_OF,
    TIME_QUALIFIERS,
    WIKIMEDIA_PAGE_CLASSES,
)

SIDES = ("old", "new")

_MEMORY = "1GB"
"""Memory limit of DuckDB; the rest spills to disk."""

_PROPERTY_CLASS_DEPTH = 4
"""Number of subclass-of steps from a property's class, as in the paper's code."""


def open_workspace(old: Snapshot, new: Snapshot, *, spill: Path) -> Window:
    """Open a window whose connection has more views and tables over both snapshots.

    View: ``known``, each entity as described by the newest snapshot that has it. Tables: ``redirect`` (id, target),
    ``meta``, ``restrictive``, ``page``.

    Args:
        old: The older snapshot.
        new: The newer snapshot.
        spill: Folder for data that does not fit in memory.
    """
    window = Window(old, new, spill=spill, memory=_MEMORY)
    for statement in ("CREATE TABLE redirect AS FROM new_redirects", _KNOWN):
        window.connection.execute(statement)
    _find_classes(window.connection)
    return window


def read_table(workspace: duckdb.DuckDBPyConnection, query: str) -> pa.Table:
    """Run a query and return its result as one Arrow table."""
    found: pa.Table = workspace.sql(query).to_arrow_table()
    return found


def count_rows(workspace: duckdb.DuckDBPyConnection, table: str) -> int:
    """Number of rows of a table; `table` may end in a WHERE clause."""
    return int(workspace.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0])  # noqa: S608 - our own names


def count_by(workspace: duckdb.DuckDBPyConnection, column: str, table: str) -> dict[str, int]:
    """Number of rows of a table by a column's value, sorted by it; nulls do not count."""
    query = f"SELECT {column}, count(*) FROM {table} WHERE {column} IS NOT NULL GROUP BY 1 ORDER BY 1"  # noqa: S608 - our own names
    return dict(workspace.execute(query).fetchall())


_KNOWN = """
    CREATE VIEW known AS
    SELECT id, kind, label, description, aliases, wiki_title, datatype FROM new_entities
    UNION ALL
    SELECT id, kind, label, description, aliases, wiki_title, datatype
    FROM old_entities ANTI JOIN new_entities USING (id)
"""

_EDGES = """
    CREATE TABLE {name} AS
    SELECT DISTINCT subject, object FROM new_claims WHERE {condition}
    UNION
    SELECT DISTINCT subject, object FROM old_claims WHERE {condition} AND subject NOT IN (SELECT id FROM new_entities)
"""

_SUBCLASS_LINKS = "(SELECT subject AS inner_id, object AS outer_id FROM subclass_of)"

_SAID = "rank <> 'deprecated' AND snak = 'value' AND object IS NOT NULL"


def _find_classes(connection: duckdb.DuckDBPyConnection) -> None:
    """Create ``meta``, ``restrictive`` and ``page`` (id)."""
    connection.execute(_EDGES.format(name="subclass_of", condition=f"property = '{SUBCLASS_OF}' AND {_SAID}"))
    connection.execute(
        _EDGES.format(name="property_class", condition=f"property = '{INSTANCE_OF}' AND subject[1] = 'P' AND {_SAID}")
    )
    connection.execute(f"CREATE TABLE meta AS {_properties_of(PROPERTY_ABOUT_WIKIMEDIA)}")
    connection.execute(
        f"CREATE TABLE restrictive AS SELECT id FROM (({_properties_of(RESTRICTIVE_QUALIFIER)}) "  # noqa: S608 - our own names
        f"EXCEPT ({_properties_of(NON_RESTRICTIVE_QUALIFIER)}) UNION ({_properties_of(ONLINE_ACCOUNT_PROPERTY)}) "
        f"UNION SELECT '{REVIEW_SCORE_BY}') WHERE id NOT IN {TIME_QUALIFIERS}"
    )
    pages = below((("page", name) for name in WIKIMEDIA_PAGE_CLASSES), _SUBCLASS_LINKS)
    connection.execute(f"CREATE TABLE page_class AS SELECT id FROM ({pages})")  # noqa: S608 - our own names
    in_page_class = f"property = '{INSTANCE_OF}' AND {_SAID} AND object IN (FROM page_class)"
    connection.execute(_EDGES.format(name="page_instance", condition=in_page_class))
    connection.execute("CREATE TABLE page AS SELECT DISTINCT subject AS id FROM page_instance")


def _properties_of(root: str) -> str:
    """SQL of the properties whose class is `root` or at most _PROPERTY_CLASS_DEPTH steps below it."""
    classes = below([("class", root)], _SUBCLASS_LINKS, depth=_PROPERTY_CLASS_DEPTH)
    return f"SELECT DISTINCT subject AS id FROM property_class WHERE object IN (SELECT id FROM ({classes}))"  # noqa: S608 - our own names
