"""Tables that are read one part after the other, such as the rows of some thousand edits at a time.

Rows are sorted by the number of their part once, on disk if they do not fit in memory. DuckDB then skips row groups of
other parts. If every part read a whole table, the work of all parts would grow with the square of the rows.

Parts of sorted rows are made of the rowid of a sorted table: a window function over all rows would hold them in memory.
"""

from __future__ import annotations

import duckdb


def keep_in_parts(connection: duckdb.DuckDBPyConnection, table: str, rows: str, *, by: str = "part") -> None:
    """Create a temporary table for `of_part`.

    Args:
        connection: Connection that the rows are read from and gets the table; one of this name is replaced.
        table: Name of the table.
        rows: SQL of the rows.
        by: Their column with the number of the part.
    """
    # Not in one statement, which would hold the hash tables of joins beside the rows to sort.
    connection.execute(f"CREATE OR REPLACE TEMP TABLE unsorted AS {rows}")
    connection.execute(f"CREATE OR REPLACE TEMP TABLE {table} AS FROM unsorted ORDER BY {by}; DROP TABLE unsorted")


def of_part(table: str, part: int, *, by: str = "part") -> str:
    """SQL of the rows of one part, without the column of its number."""
    return f"SELECT * EXCLUDE ({by}) FROM {table} WHERE {by} = {part}"
