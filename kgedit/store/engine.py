"""DuckDB as the store uses it: one connection per step, in bounded memory, spilling beside the store."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import closing, nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from kgedit.errors import StoreError
from kgedit.machine import available_memory, parse_size, usable_cores

_CORES = 2
"""Cores on which the steps' bounds of memory were measured."""


def open_engine(spill: Path, *, memory: str | None = None) -> duckdb.DuckDBPyConnection:
    """A connection that spills into a folder; it takes it away again when it is closed.

    ``$KGEDIT_STORE_MEMORY`` ("2GB") and ``$KGEDIT_STORE_THREADS`` override what is planned.

    Args:
        spill: The folder; created when it is needed.
        memory: What the step needs on two cores ("224MB"), from which plan_engine chooses; None for DuckDB's own
            bound, four fifths of the machine's.

    Raises:
        StoreError: if a variable is no size or no number of threads.
    """
    given = _from_environment("KGEDIT_STORE_THREADS", _read_threads, "a number of threads, such as 4")
    limit = _from_environment("KGEDIT_STORE_MEMORY", parse_size, "a number with k, m or g: 2g")
    threads = given or usable_cores()
    if limit is None and memory is not None:
        planned, limit = plan_engine(parse_size(memory), threads, available_memory())
        threads = given or planned
    connection = duckdb.connect(config={"threads": threads})
    connection.execute("SET temp_directory = ?", [str(spill)])
    if limit is not None:
        connection.execute(f"SET memory_limit = '{limit}B'")
    return connection


def plan_engine(needed: int, cores: int, available: int) -> tuple[int, int]:
    """Threads, and bytes of memory for all of them: every thread of DuckDB buffers rows of its own.

    Args:
        needed: Bytes that the step needs on two cores; fewer cores take no less.
        cores: Most threads.
        available: Bytes that the process may use; the plan takes at most half of them, or what the step needs.

    Returns:
        As many threads as there are cores and memory for, each with half of what is needed.

    >>> plan_engine(200, 16, 10_000), plan_engine(200, 64, 10_000), plan_engine(200, 1, 300)
    ((16, 1600), (50, 5000), (1, 200))
    """
    each = needed // _CORES
    threads = max(1, min(cores, max(needed, available // 2) // each))
    return threads, max(needed, threads * each)


def _read_threads(text: str) -> int:
    threads = int(text)
    if threads < 1:
        raise ValueError(text)
    return threads


def _from_environment(name: str, read: Callable[[str], int], wanted: str) -> int | None:
    text = os.environ.get(name)
    if not text:
        return None
    try:
        return read(text)
    except ValueError as error:
        raise StoreError(f"{name} is '{text}'. Set it to {wanted}.") from error


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
