"""DuckDB as the store uses it: one connection per step, in bounded memory, spilling beside the store."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import closing, nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa


def open_engine(spill: Path, *, memory: str | None = None) -> duckdb.DuckDBPyConnection:
    """A connection that spills into a folder; it takes it away again when it is closed.

    Args:
        spill: The folder; created when it is needed.
        memory: Bound of its memory ("2GB") where ``$KGEDIT_STORE_MEMORY`` sets none; None for DuckDB's own, four
            fifths of the machine's.
    """
    connection = duckdb.connect()
    connection.execute("SET temp_directory = ?", [str(spill)])
    limit = os.environ.get("KGEDIT_STORE_MEMORY") or memory
    if limit:
        connection.execute("SET memory_limit = ?", [limit])
    return connection


def select(
    query: str,
    parameters: Mapping[str, Any] | None = None,
    *,
    connection: duckdb.DuckDBPyConnection | None = None,
    **tables: pa.Table,
) -> pa.Table:
    """The result of a query on Arrow tables.

    Args:
        query: Names the tables as they are named here.
        parameters: By name.
        connection: Where it runs, with the tables that are there; None for one that holds none.
        tables: What the query may read besides.
    """
    with closing(_in_memory(os.getpid()).cursor()) if connection is None else nullcontext(connection) as engine:
        for name, table in tables.items():
            engine.register(name, table)
        try:
            found: pa.Table = engine.sql(query, params=dict(parameters or {})).to_arrow_table()
        finally:
            for name in tables:
                engine.unregister(name)
    return found


@cache
def _in_memory(_process: int) -> duckdb.DuckDBPyConnection:
    """An empty in-memory database, opened once: opening one takes ten times as long as a small query."""
    return duckdb.connect()


def literal(path: Path | str) -> str:
    """A path as SQL text, where a parameter is not allowed.

    >>> literal("it's")
    "'it''s'"
    """
    return "'" + str(path).replace("'", "''") + "'"
