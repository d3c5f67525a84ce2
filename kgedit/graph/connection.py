"""Finds the graph's address, from the environment or the managed server, and connects to it.

`KGEDIT_GRAPH_URI`, if set, names an outside server (with KGEDIT_GRAPH_USER, KGEDIT_GRAPH_PASSWORD,
KGEDIT_GRAPH_DATABASE and KGEDIT_GRAPH_BROWSER); otherwise the home's own server is used, and started if necessary.
All callers use `Graph` and need not know which server it is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import pyarrow as pa

from kgedit.errors import GraphError
from kgedit.graph.bolt import (
    OUT_OF_MEMORY,
    SECONDS_OF_GRACE,
    Address,
    about_time,
    as_graph_errors,
    ended_after,
    open_driver,
    refuse_old_server,
)
from kgedit.graph.managed.server import ManagedServer
from kgedit.graph.queries import refuse_all_but_reading, refuse_what_bolt_cannot_carry
from kgedit.untrusted import split_credentials

if TYPE_CHECKING:
    import pyarrow as pa
    from neo4j import Driver, ManagedTransaction, Query, Result


__all__ = ["Address", "Graph", "external_address", "find_address"]

Parameters = Mapping[str, Any]
T = TypeVar("T")

LABELS = ("Load", "Snapshot", "Term")
"""All node labels of kgedit."""

_RECORDS_AT_A_TIME = _ROWS_IN_A_RECORD = 1_000
"""The driver takes a fixed time per record, so rows are sent by the thousand in each."""


def external_address() -> Address | None:
    """The server named by KGEDIT_GRAPH_URI; None if it is not set.

    A user and password in the URI are used if KGEDIT_GRAPH_USER and KGEDIT_GRAPH_PASSWORD are not set. The address is
    stored and shown without them.
    """
    given = os.environ.get("KGEDIT_GRAPH_URI")
    if not given:
        return None
    uri, credentials = split_credentials(given)
    user, password = credentials or ("neo4j", "")
    return Address(
        uri=uri,
        user=os.environ.get("KGEDIT_GRAPH_USER", user),
        password=os.environ.get("KGEDIT_GRAPH_PASSWORD", password),
        database=os.environ.get("KGEDIT_GRAPH_DATABASE") or None,
        browser_url=os.environ.get("KGEDIT_GRAPH_BROWSER") or None,
    )


def find_address(home: Path, *, start: bool = True) -> Address:
    """Find the graph's address: from the environment, else of the home's own server.

    Args:
        home: Home folder.
        start: Whether to start the home's own server if it is not running.

    Raises:
        GraphError: if there is no server, and none can or may be started.
    """
    address = external_address()
    if address:
        return address
    server = ManagedServer(home)
    return server.start() if start else server.address()


class _MissingPlaceError(Exception):
    """Some rows of a batch match no node in the graph."""


class Graph:
    """A connection to the graph; a context manager that closes it."""

    def __init__(self, address: Address) -> None:
        """Prepare a connection to an address; `open` also finds it and checks that it answers."""
        self.address = address
        self._driver: Driver = open_driver(address)

    @classmethod
    def open(cls, home: Path, *, start: bool = True) -> Self:
        """Find the graph of a home and connect to it.

        Args:
            home: Home folder.
            start: Whether to start the home's own server if it is not running.

        Raises:
            GraphError: if the server does not answer, rejects the credentials, or is too old.
        """
        graph = cls(find_address(home, start=start))
        try:
            with graph._read("RETURN 1 AS one", None, None) as result:
                refuse_old_server(result.consume().server.agent, graph.address.uri)
        except GraphError:
            graph.close()
            raise
        return graph

    def close(self) -> None:
        """Close all connections."""
        self._driver.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def rows(
        self, cypher: str, parameters: Parameters | None = None, *, timeout: float | None = None
    ) -> list[dict[str, Any]]:
        """Run a reading query and return all its rows. Meant for few rows; `table` is for many.

        Args:
            cypher: The query; the server refuses it if it writes.
            parameters: Its `$parameters`.
            timeout: Time limit in seconds; None means the server's own.

        Raises:
            GraphError: if the query is refused, or is not finished in time.
        """
        with self._read(cypher, parameters, timeout) as result:
            return [record.data() for record in result]

    def table(
        self,
        cypher: str,
        parameters: Parameters | None = None,
        *,
        columns: Sequence[str] | None = None,
        timeout: float | None = None,
    ) -> pa.Table:
        """Run a reading query and return its rows as columns, with only some thousand rows as Python objects at a time.

        Args:
            cypher: The query. Each column contains integers, floats, strings, booleans or lists of one of them; any
                value may be null. A column of nulls only has Arrow's type null.
            parameters: Its `$parameters`.
            columns: Names of the columns that it returns, or of some of them. None asks the server, which plans the
                query for it: a second or two if it is new to the server, as much as the plan with which it runs.
            timeout: Time limit in seconds; None means the server's own.

        Raises:
            GraphError: if the query is refused, is not finished in time, or returns values that no column can hold.
        """
        if columns is None:
            with self._read(f"EXPLAIN {cypher}", parameters, timeout) as explained:
                names: Sequence[str] = explained.keys()
        else:
            names = columns
        with self._read(_in_chunks(cypher, names), parameters, timeout) as result:
            return table_from_batches(names, (rows for record in result if (rows := record["rows"])))

    def read_only_query(
        self, cypher: str, parameters: Parameters | None = None, *, timeout: float, limit: int | None = None
    ) -> list[dict[str, Any]]:
        """Run a user's own Cypher, which may only read the graph (rules: `kgedit.graph.queries`).

        Args:
            cypher: Any Cypher.
            parameters: Its `$parameters`.
            timeout: Time limit in seconds. Work that the server does not stop, such as sending one very large row, ends
                shortly after it, because the connection is closed.
            limit: Maximum number of rows to read; None means all.

        Returns:
            Rows; a node or relationship becomes a dict of its properties, a path a list of nodes and types.

        Raises:
            GraphError: if the query would do more than read, is invalid, or is not finished in time.
        """
        # A separate connection, so that the deadline does not close other queries of this graph.
        with Graph(self.address) as own, ended_after(timeout + SECONDS_OF_GRACE, own.close) as is_over:
            try:
                own._refuse_all_but_reading(cypher, parameters, timeout)
                with own._read(cypher, parameters, timeout) as result:
                    records = result if limit is None else result.fetch(limit)
                    return [record.data() for record in records]
            except Exception as error:
                if is_over.is_set():
                    raise GraphError(about_time(self.address, timeout)) from error
                raise

    def write(self, cypher: str, parameters: Parameters | None = None) -> list[dict[str, Any]]:
        """Run a writing query in one transaction, with retries if they can help.

        Args:
            cypher: The query, for data or schema. It must be idempotent, because it may run twice if a connection
                breaks.
            parameters: Its `$parameters`.

        Returns:
            The rows that it returns.

        Raises:
            GraphError: if it is refused.
        """

        def work(transaction: ManagedTransaction) -> list[dict[str, Any]]:
            return [record.data() for record in transaction.run(cypher, dict(parameters or {}))]

        return self._execute(work)

    def write_schema(self, statements: Sequence[str]) -> None:
        """Create constraints and indexes in one transaction, about a second faster than in one each.

        Args:
            statements: Idempotent statements for the schema; one for data may not be among them.

        Raises:
            GraphError: if one is refused; then none is applied.
        """

        def work(transaction: ManagedTransaction) -> None:
            for statement in statements:
                transaction.run(statement).consume()

        self._execute(work)

    def write_batch(self, cypher: str, parameters: Parameters) -> bool:
        """Apply a batch of rows once, completely or not at all.

        Args:
            cypher: A file of cypher/write, which returns the number of rows it wrote as `done`.
            parameters: `load`, `before` and `after` (see kgedit.graph.writing) and `rows`.

        Returns:
            Whether every row was written; otherwise none was. A batch that was applied before also returns True.

        Raises:
            GraphError: if it is refused.
        """

        def work(transaction: ManagedTransaction) -> bool:
            note = "MATCH (l:Load {id: $load}) RETURN l.written AS written"
            if transaction.run(note, {"load": parameters["load"]}).data() == [{"written": parameters["after"]}]:
                return True
            written = transaction.run(cypher, dict(parameters)).data()
            if written != [{"done": len(parameters["rows"])}]:
                # Leaving with an error rolls the transaction back.
                raise _MissingPlaceError
            return True

        try:
            return self._execute(work)
        except _MissingPlaceError:
            return False

    def _execute(self, work: Callable[[ManagedTransaction], T]) -> T:
        """Run work in one transaction, with retries if they can help."""

        def attempt(transaction: ManagedTransaction) -> T:
            from neo4j.exceptions import Neo4jError

            try:
                return work(transaction)
            except Neo4jError as error:
                if error.code in OUT_OF_MEMORY:
                    # A GraphError leaves the driver's retry loop, which would retry for half a minute without success.
                    with as_graph_errors(self.address):
                        raise
                raise

        with as_graph_errors(self.address), self._driver.session(database=self.address.database) as session:
            return session.execute_write(attempt)

    def snapshot_dates(self) -> list[int]:
        """Day numbers of the snapshots that are completely in the graph, oldest first."""
        text = "MATCH (s:Snapshot {state: 'complete'}) RETURN s.date AS date ORDER BY date"
        return [row["date"] for row in self.rows(text)]

    def clear(self) -> None:
        """Remove all of kgedit's nodes and edges in batches. Can be repeated after an interruption.

        Snapshots are marked first and removed last, so that a partly emptied graph is never mistaken for an empty one.
        """
        self.write("MATCH (s:Snapshot) SET s.state = 'emptying'")
        for pattern, what in (
            ("()-[r:FACT]->()", "r"), ("()-[r:CLAIM]->()", "r"), ("()-[r:REDIRECT]->()", "r"),
            ("(n:Load)", "n"), ("(n:Term)", "n"), ("(n:Snapshot)", "n"),
        ):  # fmt: skip
            self._write_in_batches(f"MATCH {pattern} CALL ({what}) {{ DELETE {what} }} IN TRANSACTIONS OF 10000 ROWS")

    def _write_in_batches(self, cypher: str) -> None:
        """Run a query that commits its own transactions."""
        with as_graph_errors(self.address), self._driver.session(database=self.address.database) as session:
            session.run(cypher).consume()

    def refuse_foreign_content(self) -> None:
        """Refuse a database with nodes that are not kgedit's, in constant time.

        Raises:
            GraphError: if there are any.
        """
        # The server answers each of these from stored counts, without looking at nodes.
        counts = {"": "MATCH (n) RETURN count(n) AS nodes"}
        counts |= {label: f"MATCH (n:{label}) RETURN count(n) AS nodes" for label in LABELS}
        nodes = {label: int(self.rows(query)[0]["nodes"]) for label, query in counts.items()}
        foreign = nodes[""] - sum(nodes[label] for label in LABELS)
        if foreign > 0:
            raise GraphError(
                f"The database '{self.address.database or 'default'}' at {self.address.uri} contains {foreign} nodes "
                f"that are not kgedit's. Use an empty one (KGEDIT_GRAPH_DATABASE, KGEDIT_GRAPH_URI); kgedit's own "
                f"server is used when KGEDIT_GRAPH_URI is not set."
            )

    def _refuse_all_but_reading(self, cypher: str, parameters: Parameters | None, timeout: float) -> None:
        try:
            # The server caches the plan, so that the query itself is not planned again.
            with self._read(f"EXPLAIN {cypher}", parameters, timeout) as result:
                summary = result.consume()
        except GraphError as error:
            if "conflicting values for execution mode" in str(error):
                raise GraphError("A query here is run and not profiled: leave PROFILE out.") from error
            raise
        refuse_all_but_reading(summary.query_type, summary.plan, self.address.uri)

    @contextmanager
    def _read(self, cypher: str, parameters: Parameters | None, timeout: float | None) -> Iterator[Result]:
        from neo4j import READ_ACCESS, Query

        refuse_what_bolt_cannot_carry(cypher, parameters or {})
        query: Query = Query(cypher, timeout=timeout)
        with (
            as_graph_errors(self.address, timeout=timeout),
            self._driver.session(
                database=self.address.database, default_access_mode=READ_ACCESS, fetch_size=_RECORDS_AT_A_TIME
            ) as session,
        ):
            # Auto-commit: without retries, a query that is too large fails once and immediately.
            yield session.run(query, dict(parameters or {}))


def _in_chunks(cypher: str, names: Sequence[str]) -> str:
    """Rewrite a query to return a thousand rows per record, because records are expensive for the driver.

    The server holds the whole result in memory meanwhile, as it does for sorting anyway.
    """
    row = ", ".join(f"`{name.replace('`', '``')}`" for name in names)
    return (
        f"CALL () {{\n{cypher}\n}}\nWITH collect([{row}]) AS rows\n"
        f"UNWIND range(0, size(rows) - 1, {_ROWS_IN_A_RECORD}) AS start\n"
        f"RETURN rows[start..start + {_ROWS_IN_A_RECORD}] AS rows"
    )


def table_from_batches(names: Sequence[str], batches: Iterable[Sequence[tuple[Any, ...]]]) -> pa.Table:
    """Convert batches of rows to columns. A column with integers and floats becomes floats.

    Args:
        names: Column names, kept if there are no rows.
        batches: Batches of rows; each batch is converted before the next one is read.

    Raises:
        GraphError: if a column mixes types, or contains nodes, maps or other values that no column can hold.
    """
    parts = [pa.table([pa.nulls(0) for _ in names], names=list(names))]
    for rows in batches:
        columns = zip(*rows, strict=True)
        parts.append(
            pa.table([_column(name, values) for name, values in zip(names, columns, strict=True)], names=list(names))
        )
    try:
        return pa.concat_tables(parts, promote_options="permissive")
    except pa.ArrowException as error:
        raise GraphError(f"A column of the query's result mixes types: {error}") from error


def _column(name: str, values: Sequence[Any]) -> pa.Array:
    try:
        column = pa.array(values)
    except pa.ArrowException as error:
        raise GraphError(
            f"The column '{name}' of the query's result cannot be a table's: {error}. Let the query return numbers, "
            f"strings, booleans or lists of them."
        ) from error
    if pa.types.is_struct(column.type):
        raise GraphError(
            f"The column '{name}' of the query's result contains maps or nodes. Let the query return values."
        )
    return column
