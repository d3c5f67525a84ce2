"""Two snapshots side by side: what the steps of an export compare.

Steps take and return Arrow tables. Only the facts and entities of whole snapshots stay on disk, where DuckDB reads
them in bounded memory: views ``old_facts``, ``new_facts``, ``old_claims``, ``new_claims``, ``old_entities`` and
``new_entities`` (without redirects), ``changed_entities`` (kgedit.store.digests), and ``new_redirects`` (id, target).
What concerns one subject at a time is read by bucket, so that it takes no more memory for a larger dump.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, get_args

import pyarrow as pa
from duckdb.func import PythonUDFType

from kgedit.store.bucket_numbers import bucket_of, divide
from kgedit.store.digests import changed_entities
from kgedit.store.engine import literal, open_engine, select
from kgedit.store.parts import keep_in_parts, of_part
from kgedit.store.snapshots import BucketGroup, Snapshot, SnapshotTable, bucket_groups

_MEMORY = "128MB"
"""Memory limit of DuckDB for an export; the rest spills to disk."""


_WHOLE: Mapping[str, str] = MappingProxyType({})


def entities_with_labels(entities: str) -> str:
    """SQL of a relation of entities. A label equal to the entity's id, as some tools write it, becomes NULL.

    A WHERE clause may follow.
    """
    return f"SELECT * REPLACE (nullif(label, id) AS label) FROM {entities}"


class Window:
    """An older and a newer snapshot, open for queries; a context manager.

    Attributes:
        old: The older snapshot.
        new: The newer one.
        connection: Connection with the views; steps that keep tables in it document them.
    """

    def __init__(self, old: Snapshot, new: Snapshot, *, spill: Path, memory: str = _MEMORY) -> None:
        """Open both snapshots.

        Args:
            old: The older snapshot.
            new: The newer one.
            spill: Folder for what does not fit in memory; it is removed when the window is closed.
            memory: What DuckDB takes, such as "1GB".
        """
        self.old, self.new = old, new
        self._open = ExitStack()
        self.connection = self._open.enter_context(open_engine(spill, memory=memory))
        self.connection.create_function(
            "bucket_of", _bucket_of, ["VARCHAR", "INTEGER"], "INTEGER", type=PythonUDFType.ARROW
        )
        self._open.callback(self.connection.remove_function, "bucket_of")
        for name, snapshot in (("old", old), ("new", new)):
            facts, entities = literal(snapshot.facts), entities_with_labels(literal(snapshot.entities))
            self._view(f"{name}_facts", f"SELECT * FROM {facts}")
            self._view(f"{name}_claims", f"SELECT * FROM {literal(snapshot.claims)}")
            self._view(f"{name}_entities", f"{entities} WHERE redirect_target IS NULL")
        self._view("changed_entities", changed_entities("old_entities", "new_entities"))
        self._view(
            "new_redirects",
            f"SELECT id, redirect_target AS target FROM {literal(new.entities)} WHERE redirect_target IS NOT NULL",
        )

    def select(self, query: str, parameters: Mapping[str, Any] | None = None, **tables: pa.Table) -> pa.Table:
        """A query's result; it may name the views and the tables given."""
        return select(query, parameters, connection=self.connection, **tables)

    def select_by_bucket(
        self,
        query: str,
        parameters: Mapping[str, Any] | None = None,
        *,
        divided: Mapping[str, str] = _WHOLE,
        **tables: pa.Table,
    ) -> pa.Table:
        """Results of a query for each bucket of both snapshots, one after the other.

        The views of facts, claims and entities contain the rows of one bucket; new_redirects, and
        tables in the connection, are whole.

        Args:
            query: SQL that names views and tables, as in `select`.
            parameters: Query parameters by name.
            divided: Tables of which a query sees the rows of its bucket alone -> their column of subjects. Otherwise
                the work grows with the rows times the buckets. Those that are not given are in the connection.
            tables: Tables for the query.
        """
        return pa.concat_tables(self.each_bucket(query, parameters, divided=divided, **tables))

    def each_bucket(
        self,
        query: str,
        parameters: Mapping[str, Any] | None = None,
        *,
        divided: Mapping[str, str] = _WHOLE,
        **tables: pa.Table,
    ) -> Iterator[pa.Table]:
        """Yield the result of a query for each bucket, as `select_by_bucket` joins them."""
        for given in self._tables_by_bucket(divided, tables):
            yield self.select(query, parameters, **given)

    def run_by_bucket(self, statements: str, *, divided: Mapping[str, str] = _WHOLE, **tables: pa.Table) -> None:
        """Run statements that add to tables in the connection, for each bucket as in `select_by_bucket`."""
        for given in self._tables_by_bucket(divided, tables):
            self.run(statements, **given)

    def buckets(self, divided: Mapping[str, str] = _WHOLE) -> Iterator[BucketGroup]:
        """Make the views of facts, claims and entities contain the rows of one bucket after the other.

        Args:
            divided: Tables in the connection of which only the rows of the bucket are seen -> their column of subjects.
                Name them with the schema main to change them meanwhile.
        """
        groups = bucket_groups((self.old, self.new))
        if len(groups) == 1:
            yield groups[0]
            return
        for name, column in divided.items():
            rows = f"SELECT *, bucket_of({column}, {len(groups)}) AS bucket FROM {name}"
            keep_in_parts(self.connection, f"{name}_by_bucket", rows, by="bucket")
        self.connection.execute("CREATE SCHEMA IF NOT EXISTS bucket; SET search_path = 'bucket,main'")
        try:
            for group in groups:
                for name, snapshot in (("old", self.old), ("new", self.new)):
                    files = {table: group.rows(snapshot, table) for table in get_args(SnapshotTable)}
                    files["entities"] = f"({entities_with_labels(files['entities'])} WHERE redirect_target IS NULL)"
                    for table, relation in files.items():
                        self._view(f"bucket.{name}_{table}", f"SELECT * FROM {relation}")
                entities = changed_entities("bucket.old_entities", "bucket.new_entities")
                self._view("bucket.changed_entities", entities)
                for name in divided:
                    self._view(f"bucket.{name}", of_part(f"{name}_by_bucket", group.number, by="bucket"))
                yield group
        finally:
            self.connection.execute("SET search_path = 'main'")
            for name in divided:
                self.connection.execute(f"DROP VIEW IF EXISTS bucket.{name}; DROP TABLE {name}_by_bucket")

    def _tables_by_bucket(
        self, divided: Mapping[str, str], tables: Mapping[str, pa.Table]
    ) -> Iterator[dict[str, pa.Table]]:
        """Make the views of one bucket after the other; yields the tables for it."""
        of = len(bucket_groups((self.old, self.new)))
        given = {name: column for name, column in divided.items() if name in tables}
        parts = {name: divide(tables[name], column, of) for name, column in given.items() if of > 1}
        for group in self.buckets({name: column for name, column in divided.items() if name not in tables}):
            yield {**tables, **{name: rows[group.number] for name, rows in parts.items()}}

    def add(self, name: str, rows: pa.Table) -> None:
        """Append rows to a table in the connection, which the first ones create."""
        # Not in the schema of a bucket, whose tables are not found later.
        table = f"main.{name}"
        self.run(
            f"CREATE TABLE IF NOT EXISTS {table} AS FROM added LIMIT 0; INSERT INTO {table} FROM added", added=rows
        )

    def drop(self, *names: str) -> None:
        """Drop tables of the connection."""
        self.connection.execute("; ".join(f"DROP TABLE {name}" for name in names))

    def run(self, statements: str, **tables: pa.Table) -> None:
        """Run statements that keep tables in the connection; they may name the views and the tables given."""
        for name, table in tables.items():
            self.connection.register(name, table)
        try:
            self.connection.execute(statements)
        finally:
            for name in tables:
                self.connection.unregister(name)

    def close(self) -> None:
        self._open.close()

    def __enter__(self) -> Window:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._open.__exit__(kind, error, traceback)

    def _view(self, name: str, query: str) -> None:
        self.connection.execute(f"CREATE OR REPLACE VIEW {name} AS {query}")


def _bucket_of(ids: pa.Array, buckets: pa.Array) -> pa.Array:
    return bucket_of(ids, buckets[0].as_py()).cast(pa.int32())
