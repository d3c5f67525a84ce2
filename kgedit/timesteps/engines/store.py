"""The engine that runs the queries in SQL over the two snapshots' Parquet files: kgedit/timesteps/engines/sql."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

from kgedit.errors import TimestepError
from kgedit.store.engine import literal
from kgedit.store.parts import keep_in_parts, of_part
from kgedit.store.snapshots import RELATIONS, SIMILAR_FACTS
from kgedit.store.window import Window
from kgedit.timesteps.engines import (
    CHANGED_EDGES,
    CHANGED_STATEMENTS,
    FUNCTIONAL_BY_CONSTRAINT,
    FUNCTIONAL_BY_DATA,
    HOPS,
    SIMILAR,
    STATIC,
    TWO_HOPS,
    SimilarSubjects,
)
from kgedit.wikidata.ids import TWO_HOP_STOP_LIST

_SQL = Path(__file__).parent / "sql"

_EDITS_AT_ONCE = 4_000
"""Edits of a part, whose candidates, some hundreds per edit, stay within the memory of an export."""


def read_sql(name: str) -> str:
    """Read a query file of this engine, with its header as comments."""
    return (_SQL / f"{name}.sql").read_text(encoding="utf-8")


class StoreEngine:
    """Queries the snapshots directly, without a graph or a server."""

    name: ClassVar[str] = "store"

    def check(self, window: Window) -> None:
        """Does nothing, because an open window has both snapshots."""

    def changed_edges(self, window: Window) -> Iterator[pa.Table]:
        for found in window.each_bucket(read_sql("changed_edges")):
            yield found.cast(CHANGED_EDGES)

    def changed_statements(self, window: Window) -> pa.Table:
        if window.new.is_part:
            raise TimestepError(
                f"{window.new.folder.parent} contains what changed in current facts, not in all statements, which the "
                "profile wikifactdiff compares. Export it where the whole snapshots are."
            )
        found = window.select_by_bucket(read_sql("changed_statements"))
        once = window.select("SELECT DISTINCT subject, property FROM found ORDER BY ALL", found=found)
        return once.cast(CHANGED_STATEMENTS)

    def two_hops(self, window: Window) -> pa.Table:
        keep_two_hops(window)
        found = window.select("FROM two_hop").cast(TWO_HOPS)
        window.drop("two_hop")
        return found

    def hops_from(self, window: Window, items: pa.Table, properties: Sequence[str], *, fan: int) -> pa.Table:
        given = {"properties": list(properties), "fan": fan}
        return window.select(read_sql("hops_from"), given, items=items).cast(HOPS)

    def hops_to(self, window: Window, items: pa.Table, properties: Sequence[str], *, fan: int, max_df: int) -> pa.Table:
        given = {"properties": list(properties), "fan": fan, "max_df": max_df}
        return window.select(read_sql("hops_to"), given, items=items).cast(HOPS)

    def functional_by_data(self, window: Window, properties: pa.Table, *, min_subjects: int) -> pa.Table:
        asked = properties.select(["property"])
        if window.new.is_part:
            measured = literal(window.new.measured(RELATIONS))
            counts = window.select(
                f"SELECT property, subjects, single FROM {measured} SEMI JOIN asked USING (property) WHERE facts > 0",
                asked=asked,
            )
        else:
            counts = window.select_by_bucket(read_sql("functional_counts"), asked=asked)
        return window.select(read_sql("functional_by_data"), {"min_subjects": min_subjects}, counts=counts).cast(
            FUNCTIONAL_BY_DATA
        )

    def functional_by_constraint(self, window: Window) -> pa.Table:
        return window.select(read_sql("functional_by_constraint")).cast(FUNCTIONAL_BY_CONSTRAINT)

    def similar_subjects(self, window: Window, edits: str, *, max_df: int, k: int, pool: int) -> SimilarSubjects:
        keep_edits(window, edits)
        if window.new.is_part:
            return _similar_as_measured(window, max_df=max_df, k=k, pool=pool)
        items = "SET VARIABLE items = (SELECT count(*) FROM old_entities WHERE kind = 'item')"
        window.connection.execute(f"{items}; SET VARIABLE max_df = {int(max_df)}")
        find_static_facts(window)
        window.run(read_sql("shared_facts"))
        return rank_similar(window, k=k, pool=pool)

    def nearest_entities(
        self, window: Window, subjects: pa.Table, documents: pa.Table, *, n: int
    ) -> Iterator[pa.Table]:
        window.run(read_sql("entity_features"), asked_subject=subjects, asked_document=documents)
        # Imported here, because SciPy takes 0.2 s, and only exports of the profile wikifactdiff need it.
        from kgedit.timesteps.engines.nearest import find_nearest

        yield from find_nearest(window, n=n)


def keep_two_hops(window: Window) -> None:
    """Create the table two_hop in the window's connection: columns TWO_HOPS, in their order."""
    for begun in window.each_bucket(read_sql("begun_facts"), {"stop": list(TWO_HOP_STOP_LIST)}):
        window.add("begun", begun)
    window.run(f"CREATE TABLE two_hop AS {read_sql('two_hop_changes')}")
    window.drop("begun")


_STATIC_TABLES = """
    CREATE OR REPLACE TEMP TABLE edited_subject (id VARCHAR);
    CREATE OR REPLACE TEMP TABLE static_fact (subject VARCHAR, property VARCHAR, object VARCHAR, untouched BOOLEAN);
    CREATE OR REPLACE TEMP TABLE own_fact (subject VARCHAR, property VARCHAR, object VARCHAR);
"""


def keep_edits(window: Window, edits: str) -> None:
    """Create the table edits in the window's connection: part, case_id, subject and property, by property and case.

    Args:
        window: Both snapshots.
        edits: As for `Engine.similar_subjects`.
    """
    window.run(
        f"""
        CREATE OR REPLACE TABLE sorted_edits AS
        SELECT case_id, subject, property FROM ({edits}) ORDER BY property, case_id;
        CREATE OR REPLACE TABLE edits AS SELECT (rowid // {_EDITS_AT_ONCE})::INTEGER AS part, * FROM sorted_edits;
        DROP TABLE sorted_edits
        """
    )


def find_static_facts(window: Window) -> None:
    """Create the tables edited_subject, static_fact and own_fact of static_facts.sql in the window's connection.

    Args:
        window: Window with the table of keep_edits.
    """
    window.run(_STATIC_TABLES)
    window.run_by_bucket(read_sql("edited_subjects"))
    relation = window.select("SELECT DISTINCT property FROM edits")
    window.run_by_bucket(read_sql("static_facts"), divided={"edits": "subject"}, relation=relation)


def rank_similar(window: Window, *, k: int, pool: int) -> SimilarSubjects:
    """Rank the static facts about similar subjects, from the tables of static_facts.sql and shared_facts.sql.

    Candidates are found for all edits at once and ranked for some thousand edits at a time, so that the work grows with
    the candidates and memory does not.

    Args:
        window: Window with these tables and that of keep_edits, which are dropped.
        k: Maximum number of facts about similar subjects per edit.
        pool: Maximum number of static facts per property.
    """
    connection = window.connection
    # In the order written, the joins start from the edits. DuckDB would join edits to all facts of a property first:
    # 70 times slower at 250,000 statements, and it spilled.
    connection.execute("SET disabled_optimizers = 'join_order'")
    try:
        parts = _keep_candidates(window)
    finally:
        connection.execute("RESET disabled_optimizers")
    static = _first_static(window, pool)
    window.drop(*_KEPT, "sought", "near", "edits")
    return SimilarSubjects(_rank_parts(window, parts, k=k), static)


def _rank_parts(window: Window, parts: int, *, k: int) -> Iterator[pa.Table]:
    yield SIMILAR.empty_table()
    connection, query = window.connection, read_sql("similar_facts")
    for part in range(parts):
        for table in ("candidate", "own"):
            connection.execute(f"CREATE OR REPLACE TEMP VIEW {table} AS {of_part(f'{table}_in_parts', part)}")
        yield window.select(query, {"k": k}).cast(SIMILAR)
    connection.execute("DROP VIEW IF EXISTS candidate; DROP VIEW IF EXISTS own")
    connection.execute("DROP TABLE candidate_in_parts; DROP TABLE own_in_parts")


def _keep_candidates(window: Window) -> int:
    """Create the tables of candidate_facts.sql, and candidate_in_parts and own_in_parts; returns the number of parts.

    Each join is made once for all edits, because a join for some edits would read the tables of all of them.
    """
    window.run(read_sql("candidate_facts"))
    keep_in_parts(
        window.connection,
        "candidate_in_parts",
        """
        SELECT part, case_id, n.subject, property, n.object, weight FROM sought s JOIN near n USING (pair, property)
        WHERE n.subject <> s.subject
        """,
    )
    own = "SELECT part, case_id, object FROM edits JOIN own_fact USING (subject, property)"
    keep_in_parts(window.connection, "own_in_parts", own)
    parts: int = window.select("SELECT coalesce(max(part) + 1, 0) AS parts FROM edits")["parts"][0].as_py()
    return parts


def _first_static(window: Window, pool: int) -> pa.Table:
    # The least of all, instead of a window, which would hold every fact of the relations.
    first = "unnest(min(struct_pack(subject, object, untouched), $pool)) AS first"
    return window.select(
        f"SELECT first.subject, property, first.object, first.untouched "
        f"FROM (SELECT property, {first} FROM static_fact GROUP BY property) ORDER BY property, first.subject",
        {"pool": pool},
    ).cast(STATIC)


def _similar_as_measured(window: Window, *, max_df: int, k: int, pool: int) -> SimilarSubjects:
    """Similar subjects in the whole snapshots, of which the window's snapshots are parts.

    Raises:
        TimestepError: if more is wanted than was measured.
    """
    measured = window.new.manifest["part"]["similar"]
    if max_df != measured["max_df"] or k > measured["k"] or pool > measured["pool"]:
        raise TimestepError(
            f"{window.new.folder.parent} contains what changed, with similar subjects for facts of at most "
            f"{measured['max_df']} items and {measured['pool']} unchanged facts of a relation. Use these settings, or "
            "export where the whole snapshots are."
        )
    find_static_facts(window)
    static = _first_static(window, pool)
    similar = window.select(
        f"""
        SELECT case_id, m.subject_like AS subject, property, m.object, score
        FROM edits e JOIN {literal(window.new.measured(SIMILAR_FACTS))} m USING (subject, property)
        WHERE place <= $k ORDER BY property, case_id, place
        """,
        {"k": k},
    )
    window.drop(*_STATIC, "edits")
    return SimilarSubjects(iter([similar.cast(SIMILAR)]), static)


_STATIC = ("edited_subject", "static_fact", "own_fact")
_KEPT = (*_STATIC, "feature", "pair", "holder")
"""Tables that find_static_facts and shared_facts.sql create in the connection."""
