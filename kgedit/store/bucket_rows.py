"""Rows of a bucket as parsed, which are read in pieces because a bucket may be larger than memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow as pa

from kgedit.store.schemas import CLAIMS, ENTITIES

_Piece = TypeVar("_Piece")

_ROWS_AT_ONCE = 100_000
"""Claims and entities for which facts and digests are computed at once, about 70 MB; a block that has more is taken
alone."""

BLOCK = pa.field("block", pa.int32())
"""Number of the block (or split) of the dump in which a row was read. An entity's rows share a block."""

BUCKET_CLAIMS = CLAIMS.append(BLOCK)
BUCKET_ENTITIES = ENTITIES.append(BLOCK)
"""Columns of a bucket's rows as parsed."""


@dataclass(frozen=True, slots=True)
class BucketRows:
    """Rows of one bucket as parsed, in the order of the dump: all of them, or those of some consecutive blocks.

    Attributes:
        claims: Columns BUCKET_CLAIMS.
        entities: Columns BUCKET_ENTITIES, with redirects.
    """

    claims: pa.Table
    entities: pa.Table


ReadRows = Callable[[Mapping[str, Sequence[str]] | None], Iterable[BucketRows]]
"""Reads all rows of a bucket, some consecutive blocks at a time; may be called again. Takes the columns of ``claims``
and ``entities`` that are needed, None for all. Tables with further columns are permitted."""


def together(pieces: Iterable[BucketRows]) -> Iterator[BucketRows]:
    """Yield small pieces together, up to _ROWS_AT_ONCE rows."""
    for waiting in grouped(pieces, lambda rows: rows.claims.num_rows + rows.entities.num_rows):
        yield _joined(waiting)


def grouped(pieces: Iterable[_Piece], rows_of: Callable[[_Piece], int]) -> Iterator[list[_Piece]]:
    """Yield consecutive pieces together, up to _ROWS_AT_ONCE rows.

    Args:
        pieces: The pieces.
        rows_of: Number of rows of a piece.
    """
    waiting: list[_Piece] = []
    count = 0
    for piece in pieces:
        more = rows_of(piece)
        if waiting and count + more > _ROWS_AT_ONCE:
            yield waiting
            waiting, count = [], 0
        waiting.append(piece)
        count += more
    if waiting:
        yield waiting


def _joined(pieces: Sequence[BucketRows]) -> BucketRows:
    return BucketRows(*(pa.concat_tables(getattr(rows, name) for rows in pieces) for name in ("claims", "entities")))


def divided(rows: BucketRows) -> Iterator[BucketRows]:
    """Yield consecutive blocks, which contain whole entities, about _ROWS_AT_ONCE rows at a time."""
    blocks = [table["block"].to_numpy() for table in (rows.claims, rows.entities)]
    numbers, sizes = np.unique(np.concatenate(blocks), return_counts=True)
    cuts, waiting = [], 0
    for number, size in zip(numbers.tolist(), sizes.tolist(), strict=True):
        if waiting and waiting + size > _ROWS_AT_ONCE:
            cuts.append(number)
            waiting = 0
        waiting += size
    starts = [[0, *np.searchsorted(block, cuts).tolist(), len(block)] for block in blocks]
    for group in range(len(cuts) + 1):
        yield BucketRows(*(
            table.slice(start[group], start[group + 1] - start[group]).combine_chunks()
            for table, start in zip((rows.claims, rows.entities), starts, strict=True)
        ))  # fmt: skip
