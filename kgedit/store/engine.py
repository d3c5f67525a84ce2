"""DuckDB as the store uses it: one connection per step, in bounded memory, spilling beside the store."""

from __future__ import annotations

import os
from pathlib import Path

import duckdb


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


def literal(path: Path | str) -> str:
    """A path as SQL text, where a parameter is not allowed.

    >>> literal("it's")
    "'it''s'"
    """
    return "'" + str(path).replace("'", "''") + "'"
