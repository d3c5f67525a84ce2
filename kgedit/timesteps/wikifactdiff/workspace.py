"""Both snapshots in one DuckDB connection, with the newer one's ids, and data about classes, properties and popularity.

Every step of the profile reads tables of this connection and adds some. Data about properties and classes is taken from
the newer snapshot, or from the older one if the newer lacks it, so a statement is judged alike on both sides.
Popularity is ln(median monthly page views + 1) over the year before the newer snapshot.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import duckdb
import pyarrow as pa

from kgedit.store.closures import below
from kgedit.store.snapshots import Snapshot
from kgedit.store.window import Window
from kgedit.timesteps.specificity import read_viewed
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

_MEMORY = "256MB"
"""Memory of DuckDB on two cores; the rest spills to disk."""

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
    return int(workspace.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0])


def count_by(workspace: duckdb.DuckDBPyConnection, column: str, table: str) -> dict[str, int]:
    """Number of rows of a table by a column's value, sorted by it; nulls do not count."""
    query = f"SELECT {column}, count(*) FROM {table} WHERE {column} IS NOT NULL GROUP BY 1 ORDER BY 1"
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
        f"CREATE TABLE restrictive AS SELECT id FROM (({_properties_of(RESTRICTIVE_QUALIFIER)}) "
        f"EXCEPT ({_properties_of(NON_RESTRICTIVE_QUALIFIER)}) UNION ({_properties_of(ONLINE_ACCOUNT_PROPERTY)}) "
        f"UNION SELECT '{REVIEW_SCORE_BY}') WHERE id NOT IN {TIME_QUALIFIERS}"
    )
    pages = below((("page", name) for name in WIKIMEDIA_PAGE_CLASSES), _SUBCLASS_LINKS)
    connection.execute(f"CREATE TABLE page_class AS SELECT id FROM ({pages})")
    in_page_class = f"property = '{INSTANCE_OF}' AND {_SAID} AND object IN (FROM page_class)"
    connection.execute(_EDGES.format(name="page_instance", condition=in_page_class))
    connection.execute("CREATE TABLE page AS SELECT DISTINCT subject AS id FROM page_instance")


def _properties_of(root: str) -> str:
    """SQL of the properties whose class is `root` or at most _PROPERTY_CLASS_DEPTH steps below it."""
    classes = below([("class", root)], _SUBCLASS_LINKS, depth=_PROPERTY_CLASS_DEPTH)
    return f"SELECT DISTINCT subject AS id FROM property_class WHERE object IN (SELECT id FROM ({classes}))"


def measure_popularity(
    workspace: duckdb.DuckDBPyConnection, files: Sequence[Path], *, wiki: str, date: int
) -> dict[str, object]:
    """Create ``popularity`` (id, popularity, basis) of every item with an article; empty without files.

    An article's first month is the first with a view, so that young articles are not penalized; later months without
    views count as 0. An item that is in no file gets the mean of one of its classes (the most popular one), or else
    the median of all.

    Args:
        workspace: Workspace with known, new_facts.
        files: One per month; those outside the year before `date` are left out.
        wiki: Wiki of the titles in the snapshots.
        date: Day number of the newer snapshot.

    Returns:
        Months used, files left out, rows by outcome, items by basis.

    Raises:
        TimestepError: if a month is given twice, or a file name contains no month.
        SourceError: if a file cannot be read.
    """
    counts = read_viewed(
        workspace, files, items="(SELECT id, wiki_title FROM known WHERE kind = 'item')", wiki=wiki, date=date
    )
    workspace.execute(_POPULARITY)
    return counts | {"items": count_by(workspace, "basis", "popularity")}


_POPULARITY = f"""
    CREATE TABLE popularity AS
    WITH started AS (
        SELECT id, min(month) AS first FROM viewed WHERE views > 0 GROUP BY id
    ), monthly AS (
        SELECT s.id, coalesce(v.views, 0) AS views FROM started s JOIN viewed_month w ON w.month >= s.first
        LEFT JOIN viewed v ON v.id = s.id AND v.month = w.month
    ), own AS (
        SELECT id, median(views) AS views FROM monthly GROUP BY id
    ), class AS (
        SELECT subject AS id, object AS class FROM new_facts WHERE property = '{INSTANCE_OF}' AND kind = 'item'
    ), of_class AS (
        SELECT class, ln(avg(views) + 1) AS popularity FROM class JOIN own USING (id) GROUP BY class
    ), by_class AS (
        SELECT id, max(popularity) AS popularity FROM class JOIN of_class USING (class) GROUP BY id
    )
    SELECT k.id, round(coalesce(ln(own.views + 1), by_class.popularity,
                                (SELECT median(ln(views + 1)) FROM own)), 6) AS popularity,
           CASE WHEN own.id IS NOT NULL THEN 'page views' WHEN by_class.id IS NOT NULL THEN 'class'
                ELSE 'median of all' END AS basis
    FROM known k LEFT JOIN own USING (id) LEFT JOIN by_class USING (id)
    WHERE k.kind = 'item' AND EXISTS (FROM own)
"""
