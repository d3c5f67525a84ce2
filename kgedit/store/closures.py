"""Closures over "subclass of" and containment: all code that follows such chains follows them here.

The chains of Wikidata run in circles (a class below itself, a part of its own part). Every walk here stops at what it
has seen, so the members of a circle reach one another; `list_cycles` names them. Classes and containers are read from
whatever has the columns subject, property and object. The same walks in networkx are the oracle of the tests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from kgedit.store.engine import listed, literal, open_engine, select
from kgedit.store.snapshots import Snapshot
from kgedit.wikidata.ids import SUBCLASS_OF

CONTAINMENT: Mapping[str, str] = {
    "P131": "located in the administrative territorial entity",
    "P171": "parent taxon",
    SUBCLASS_OF: "subclass of",
    "P361": "part of",
}
"""From the contained to the container."""

PARTS: Mapping[str, str] = {"P527": "has part(s)"}
"""From the container to the contained."""

LINKS = pa.schema([("inner_id", pa.string()), ("outer_id", pa.string())])
"""One step: a class and one right above it, or a thing and one that contains it."""

CYCLES = pa.schema(
    [
        ("relation", pa.string()),  # subclass of, or containment
        ("cycle", pa.string()),  # the member with the smallest number
        ("id", pa.string()),
        ("label", pa.string()),
    ]
)
"""One row per member of a circle: each reaches every other one, and itself."""

_MEMORY = "1GB"


def subclass_links(statements: str) -> str:
    """SQL: each class with those right above it (LINKS).

    Args:
        statements: A table, view or query in brackets with columns subject, property and object.
    """
    return f"SELECT subject AS inner_id, object AS outer_id FROM {statements} WHERE property = '{SUBCLASS_OF}'"


def containment_links(statements: str) -> str:
    """SQL: each thing with what contains it right away (LINKS); subclass of is containment too.

    Args:
        statements: As for subclass_links.
    """
    return (
        f"SELECT subject AS inner_id, object AS outer_id FROM {statements} WHERE property IN {listed(CONTAINMENT)} "
        f"UNION SELECT object, subject FROM {statements} WHERE property IN {listed(PARTS)} AND object[1] = 'Q'"
    )


def below(roots: Iterable[tuple[str, str]], links: str, *, depth: int | None = None) -> str:
    """SQL of some ids and everything below them; columns name and id, each pair once.

    Args:
        roots: Names with ids; a name may have several.
        links: Table or view with the columns LINKS, or a query in brackets.
        depth: Maximum number of steps; None means no limit.
    """
    given = ", ".join(f"('{name}', '{root}')" for name, root in roots)
    if depth is None:
        return f"""
            WITH RECURSIVE reached(name, id) AS (
                FROM (VALUES {given})
                UNION SELECT name, link.inner_id FROM {links} link JOIN reached ON link.outer_id = reached.id
            ) FROM reached
        """
    return f"""
        WITH RECURSIVE reached(name, id, depth) AS (
            SELECT name, id, 0 FROM (VALUES {given}) root(name, id)
            UNION SELECT name, link.inner_id, depth + 1
            FROM {links} link JOIN reached ON link.outer_id = reached.id WHERE depth < {depth}
        ) SELECT DISTINCT name, id FROM reached
    """


def make_above(connection: duckdb.DuckDBPyConnection, *, ids: str, links: str) -> None:
    """Table ``above`` (id, depth): some ids and everything above them, each once. It may spill, as in `make_reached`.

    Args:
        connection: Gets the table.
        ids: Query with one column.
        links: Table with the columns LINKS.
    """
    connection.execute(f"CREATE TABLE above AS SELECT DISTINCT id, 0 AS depth FROM ({ids}) first(id)")
    added, depth = True, 0
    while added:
        found = connection.execute(
            f"""
            INSERT INTO above
            SELECT DISTINCT link.outer_id, $depth + 1
            FROM above JOIN {links} link ON link.inner_id = above.id
            ANTI JOIN above seen ON seen.id = link.outer_id
            WHERE above.depth = $depth
            """,
            {"depth": depth},
        )
        added, depth = found.fetchall()[0][0] > 0, depth + 1


def make_reached(connection: duckdb.DuckDBPyConnection, *, first: str, links: str, depth: int) -> None:
    """Table ``reached`` (inner_id, outer_id, depth): everything that contains some ids; each pair once.

    Each step extends the pairs of the previous one, so the table may spill to disk; a recursive query would keep all
    pairs in memory.

    Args:
        connection: Gets the table.
        first: Query of the first steps, with the columns LINKS.
        links: Table of all further steps, with the columns LINKS.
        depth: Maximum number of steps.
    """
    connection.execute(f"CREATE TABLE reached AS SELECT DISTINCT inner_id, outer_id, 1 AS depth FROM ({first})")
    for step in range(1, depth):
        connection.execute(
            f"""
            INSERT INTO reached
            SELECT DISTINCT r.inner_id, link.outer_id, $depth + 1
            FROM reached r JOIN {links} link ON link.inner_id = r.outer_id
            ANTI JOIN reached seen ON seen.inner_id = r.inner_id AND seen.outer_id = link.outer_id
            WHERE r.depth = $depth
            """,
            {"depth": step},
        )


def find_cycles(links: pa.Table) -> pa.Table:
    """Ids on a cycle of links: the strongly connected components, and ids linked with themselves.

    Args:
        links: With the columns LINKS.

    Returns:
        Columns cycle (the member with the smallest number) and id, ordered by them.
    """
    # Imported here, because it takes a second, and a load needs only the constants.
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    ends = pa.chunked_array([*links["inner_id"].chunks, *links["outer_id"].chunks], pa.string())
    coded = ends.combine_chunks().dictionary_encode()
    inner, outer = np.split(coded.indices.to_numpy(), 2)
    steps = csr_array((np.ones(len(inner), np.int8), (inner, outer)), shape=(len(coded.dictionary),) * 2)
    component = connected_components(steps, directed=True, connection="strong")[1]
    in_cycle = np.bincount(component)[component] > 1 if len(component) else np.zeros(0, bool)
    in_cycle[inner[inner == outer]] = True
    members = pa.table({"id": coded.dictionary.filter(pa.array(in_cycle)), "component": component[in_cycle]})
    return select(
        """
        SELECT first_value(id) OVER (PARTITION BY component ORDER BY length(id), id) AS cycle, id FROM members
        ORDER BY length(cycle), cycle, length(id), id
        """,
        members=members,
    )


def list_cycles(snapshot: Snapshot, *, spill: Path) -> pa.Table:
    """The circles among the classes and among the containers of a snapshot.

    Args:
        snapshot: Its current facts are read.
        spill: Folder for what does not fit in memory.

    Returns:
        A table with the schema CYCLES: subclass of first, then containment; in each by cycle and id. A circle of
        classes is one of containment too, unless parts make it larger.
    """
    facts = literal(snapshot.facts)
    with open_engine(spill, memory=_MEMORY) as connection:
        found = [
            find_cycles(select(links, connection=connection))
            for links in (subclass_links(facts), containment_links(facts))
        ]
        names = ("subclass of", "containment")
        members = pa.concat_tables(
            table.append_column("relation", pa.repeat(name, table.num_rows))
            for name, table in zip(names, found, strict=True)
        )
        listed = select(
            f"""
            SELECT relation, cycle, id, label FROM members LEFT JOIN {literal(snapshot.entities)} USING (id)
            ORDER BY relation DESC, length(cycle), cycle, length(id), id
            """,
            connection=connection,
            members=members,
        )
    return listed.cast(CYCLES)
