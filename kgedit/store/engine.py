"""DuckDB connections of the store: one per step, with bounded memory, spilling to a folder of the store.

Opening and closing an in-memory database takes about 40 ms of processor time, because DuckDB registers every function
in its catalog. Steps reuse idle databases instead; each has its own empty catalog, limits and spill folder.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from kgedit.errors import StoreError
from kgedit.machine import available_memory, parse_size, usable_cores

_CORES = 2
"""Number of cores with which the memory needs of the steps were measured."""

_IN_MEMORY = 224 * 1024**2
"""Bytes that two threads need for tables in memory, as for an export."""

_IDLE = 4
"""Maximum number of databases of a process that wait for the next step; one takes 4 MB."""

_CATALOG = "step"
"""Name of the catalog in which a step keeps its tables; the database's own stays empty."""


@contextmanager
def open_engine(spill: Path, *, memory: str = "1GB", share: int = 1) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a connection that spills into a folder, which DuckDB deletes at the end if it has created it.

    ``$KGEDIT_STORE_MEMORY`` ("2GB") replaces the planned limit, ``$KGEDIT_STORE_THREADS`` the number of cores.

    Tables, views and variables of the connection vanish at its end; settings other than the limits do not, so a step
    resets those that it changes.

    Args:
        spill: Spill folder; created when it is needed.
        memory: Memory that the step needs on two cores ("224MB"), from which `plan_engine` derives the limits.
        share: Number of connections that are open at once and share the cores and the memory.

    Raises:
        StoreError: if one of the variables is not a valid size or number of threads.
    """
    cores, available, limit = _machine()
    granted = limit // share if limit else None
    plan = plan_engine(parse_size(memory), max(cores // share, 1), available // share, granted)
    with _connect(*plan, spill=spill) as connection:
        yield connection


@contextmanager
def open_in_memory() -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a connection for Arrow tables that fit in memory; it spills nowhere, and may take what the process may.

    Raises:
        StoreError: if ``$KGEDIT_STORE_MEMORY`` or ``$KGEDIT_STORE_THREADS`` is not valid.
    """
    with _connect(*_plan_in_memory(), spill=None) as connection:
        yield connection


def plan_engine(needed: int, cores: int, available: int, limit: int | None = None) -> tuple[int, int]:
    """Number of threads and total bytes of memory; each DuckDB thread buffers its own rows.

    The only function that decides either, because a limit that does not grow with the threads is an error in the middle
    of a query: 64 threads sort no million rows in 224 MB.

    Args:
        needed: Bytes that the step needs on two cores; fewer cores need as much.
        cores: Maximum number of threads.
        available: Bytes available to the process; the plan takes at most half of them, or `needed` if that is more.
        limit: Bytes that the user grants instead; None means none.

    Returns:
        As many threads as cores and memory allow, each with half of `needed`.

    >>> plan_engine(200, 16, 10_000), plan_engine(200, 64, 10_000), plan_engine(200, 1, 300)
    ((16, 1600), (50, 5000), (1, 200))
    >>> plan_engine(200, 64, 10_000, limit=900), plan_engine(200, 64, 10_000, limit=50)
    ((9, 900), (1, 50))
    """
    each = needed // _CORES
    room = max(needed, available // 2) if limit is None else limit
    threads = max(1, min(cores, room // each))
    return threads, max(needed, threads * each) if limit is None else limit


@contextmanager
def open_cursor(connection: duckdb.DuckDBPyConnection) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a second connection to the tables of a step, for another thread, without its temporary and Arrow tables."""
    with connection.cursor() as cursor:
        cursor.execute(f"USE {_CATALOG}")
        yield cursor


def _plan_in_memory() -> tuple[int, int]:
    cores, available, limit = _machine()
    return plan_engine(_IN_MEMORY, cores, available, limit or available * 4 // 5)


@contextmanager
def _connect(threads: int, memory: int, *, spill: Path | None) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection to an idle database, or to a new one, whose default catalog is empty."""
    idle = _idle_databases(os.getpid())
    try:
        database = idle.pop()
    except IndexError:
        database = _new_database(threads)
    try:
        _limit(database, threads, memory)
        database.execute("SET temp_directory = ?", ["" if spill is None else str(spill)])
        database.execute(f"ATTACH ':memory:' AS {_CATALOG}")
        with open_cursor(database) as connection:
            yield connection
    except BaseException:
        # Its state is not known.
        database.close()
        raise
    # After spilling, a database cannot change its spill folder, and deletes it only when it is closed.
    if len(idle) < _IDLE and not (spill and any(spill.glob("duckdb_temp_*"))) and _emptied(database):
        idle.append(database)
    else:
        database.close()


def _emptied(database: duckdb.DuckDBPyConnection) -> bool:
    """Empty a database, and whether that was possible."""
    try:
        database.execute(f"DETACH {_CATALOG}")
        # Turning it off empties the cache of what was read from Parquet files.
        database.execute("SET enable_external_file_cache = false; RESET enable_external_file_cache")
        # DuckDB returns freed memory to the system when a limit is lowered, and otherwise keeps it for the next step.
        database.execute("SET memory_limit = '1MB'")
    except duckdb.Error:
        return False
    return True


def _new_database(threads: int) -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": threads})


def _limit(database: duckdb.DuckDBPyConnection, threads: int, memory: int) -> None:
    database.execute(f"SET threads = {threads}; SET memory_limit = '{memory}B'")


@cache
def _idle_databases(_process: int) -> list[duckdb.DuckDBPyConnection]:
    """Databases that no step uses, of one process: those of its parent lack their threads after a fork."""
    return []


def _machine() -> tuple[int, int, int | None]:
    """Cores, bytes available to the process, and the limit that the user set; None without one."""
    threads = _from_environment("KGEDIT_STORE_THREADS", _read_threads, "a number of threads, such as 4")
    limit = _from_environment("KGEDIT_STORE_MEMORY", parse_size, "a number with k, m or g: 2g")
    return threads or usable_cores(), available_memory(), limit


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
    """Run a query on Arrow tables and return its result.

    Args:
        query: SQL that refers to the tables by their keyword names.
        parameters: Query parameters by name.
        connection: Connection to use, with its tables; None means an empty one.
        tables: Further tables for the query.
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
    """An empty in-memory database for single queries, which is never closed."""
    threads, memory = _plan_in_memory()
    database = _new_database(threads)
    _limit(database, threads, memory)
    return database


def literal(path: Path | str) -> str:
    """Quote a path as an SQL literal, where a parameter is not allowed.

    >>> literal("it's")
    "'it''s'"
    """
    return "'" + str(path).replace("'", "''") + "'"


def listed(names: Iterable[str]) -> str:
    """Write names without quotes in them as a list for SQL's IN, in their order.

    >>> listed(["P31", "P279"])
    "('P31', 'P279')"
    """
    return "(" + ", ".join(f"'{name}'" for name in names) + ")"


def add_columns(relation: str, groups: Iterable[Mapping[str, str]]) -> str:
    """Write SQL that adds columns to a relation, each group of which may use those of the groups before it.

    In one expression, DuckDB would plan what several columns are made of wherever it occurs.

    >>> add_columns("FROM t", [{"b": "a + 1"}, {"c": "b * b"}])
    'SELECT *, b * b AS c FROM (SELECT *, a + 1 AS b FROM (FROM t))'
    """
    query = relation
    for group in groups:
        query = f"SELECT *, {', '.join(f'{sql} AS {name}' for name, sql in group.items())} FROM ({query})"
    return query
