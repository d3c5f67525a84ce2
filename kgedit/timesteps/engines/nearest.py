"""Finds the entities most similar to given ones in the store, by products of sparse matrices of features from SQL."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from scipy import sparse

from kgedit.store.window import Window
from kgedit.timesteps.engines import NEAREST
from kgedit.timesteps.engines.sparse_cosine import (
    DOCUMENTS_AT_ONCE,
    Nearest,
    NeighbourIndex,
    inverse_frequencies,
    weigh,
)

_ROWS_AT_ONCE = 1_000_000
"""Rows of a result table: 2,000 subjects with 500 neighbours each, about 40 MB."""

_KEPT_ENTITIES = ("numbered", "sought", "entity_feature", "document_feature", "sought_feature")
"""Tables that entity_features.sql creates in the connection."""


def find_nearest(window: Window, *, n: int) -> Iterator[pa.Table]:
    """Find the n documents most similar to each subject, from the tables of entity_features.sql, which are dropped.

    Yields:
        Columns NEAREST, about a million rows at a time.
    """
    names, subjects = (
        window.select(f"SELECT id FROM {table} ORDER BY number")["id"] for table in ("numbered", "sought")
    )
    holders = window.select("SELECT holders FROM entity_feature ORDER BY number")["holders"].to_numpy()
    weights = inverse_frequencies(holders, len(names))
    sought = weigh(_matrix(window, "sought_feature", range(len(subjects)), len(holders)), weights)
    places = range(len(names))
    blocks = (places[start : start + DOCUMENTS_AT_ONCE] for start in places[::DOCUMENTS_AT_ONCE])
    index = NeighbourIndex((_matrix(window, "document_feature", block, len(holders)) for block in blocks), weights)
    own = window.select(
        "SELECT coalesce(n.number, -1) AS own FROM sought s LEFT JOIN numbered n USING (id) ORDER BY s.number"
    )
    for table in _KEPT_ENTITIES:
        window.connection.execute(f"DROP TABLE {table}")
    if not len(names) or not len(subjects):
        return
    waiting: list[Nearest] = []
    for block in index.nearest(sought, own["own"].to_numpy(), n=n):
        waiting.append(block)
        if sum(len(part.query) for part in waiting) >= _ROWS_AT_ONCE:
            yield _table(waiting, subjects, names)
            waiting = []
    if waiting:
        yield _table(waiting, subjects, names)


def _table(blocks: list[Nearest], subjects: pa.ChunkedArray, names: pa.ChunkedArray) -> pa.Table:
    columns = [
        subjects.take(pa.array(np.concatenate([block.query for block in blocks]))),
        names.take(pa.array(np.concatenate([block.document for block in blocks]))),
        pa.array(np.concatenate([block.cosine for block in blocks])),
    ]
    return pa.table(columns, names=NEAREST.names).cast(NEAREST)


def _matrix(window: Window, table: str, lines: range, features: int) -> sparse.csr_array:
    """Convert some lines of a table (line, feature, times), sorted by line, to a sparse matrix of feature counts."""
    narrow = "line::INTEGER AS line, feature::INTEGER AS feature, times::INTEGER AS times"
    some = f"line BETWEEN {lines.start} AND {lines.stop - 1}"
    found = window.select(f"SELECT {narrow} FROM {table} WHERE {some} ORDER BY line, feature")
    starts = np.searchsorted(found["line"].to_numpy(), np.arange(lines.start, lines.stop + 1))
    times = found["times"].to_numpy().astype(np.float64)
    return sparse.csr_array((times, found["feature"].to_numpy(), starts), shape=(len(lines), features))
