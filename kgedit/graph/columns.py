"""Converts rows from the graph to Arrow columns, batch by batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from kgedit.errors import GraphError


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
        raise GraphError(f"The column '{name}' of the query's result holds maps or nodes. Let the query return values.")
    return column
