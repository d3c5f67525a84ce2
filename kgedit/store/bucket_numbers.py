"""Numbers of buckets: how many a dump has, and which one an id belongs to."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kgedit.store.compiled import find_compiled_order

TEXT_PER_BUCKET = 512 * 2**20
"""Bytes of JSON: 400,000 statements of a full dump, or a million thin ones."""

_PRIME, _BASIS = np.uint64(0x100000001B3), np.uint64(0xCBF29CE484222325)  # FNV-1a with 64 bits
_MIX = np.uint64(0xFF51AFD7ED558CCD)  # from MurmurHash3's finalizer: FNV's low bits alone are not even


def bucket_count(text_bytes: int) -> int:
    """Number of buckets for a dump: a power of two, so that bucket k of B is the buckets k and k + B of 2B.

    Args:
        text_bytes: Bytes of the decompressed dump, which may be estimated (kgedit.store.sources.DumpFile.text_bytes).

    >>> bucket_count(10**6), bucket_count(10**9), bucket_count(1_600 * 10**9)
    (1, 2, 4096)
    """
    return 1 << (max(text_bytes - 1, 0) // TEXT_PER_BUCKET).bit_length()


def bucket_of(ids: pa.Array | pa.ChunkedArray, buckets: int) -> pa.Array:
    """Bucket of each id: the low bits of a hash of its UTF-8 text, which no library's version changes.

    Args:
        ids: Ids of entities, none of them null.
        buckets: Number of buckets, a power of two, at most 65,536.

    Returns:
        Numbers in [0, buckets), as uint16.

    >>> bucket_of(pa.array(["Q42", "P31", "Q42"]), 8).to_pylist()
    [4, 2, 4]
    """
    if isinstance(ids, pa.ChunkedArray):
        ids = ids.combine_chunks()
    encoded = ids.dictionary_encode()  # the claims of a subject are neighbours, so that few texts are hashed
    low = _hashes(encoded.dictionary) & np.uint64(buckets - 1)
    return pa.array(low.astype(np.uint16)[encoded.indices.to_numpy(zero_copy_only=False)])


def divide(rows: pa.Table, column: str, buckets: int, *, start: int = 0, step: int = 1) -> list[pa.Table]:
    """Rows of each bucket, in their order.

    Args:
        rows: The rows.
        column: Column of the ids whose bucket counts, none of them null.
        buckets: Number of buckets, as in `bucket_of`.
        start: Lowest bucket of any row.
        step: Distance between the buckets of the rows.
    """
    order, ends = order_by_bucket(rows[column], buckets, start=start, step=step)
    by_bucket = rows.take(order)
    return [by_bucket.slice(first, end - first) for first, end in pairwise([0, *ends])]


def order_by_bucket(
    ids: pa.Array | pa.ChunkedArray, buckets: int, *, start: int = 0, step: int = 1
) -> tuple[NDArray[np.int64], list[int]]:
    """Positions of ids by bucket, in their order within each, and the end of each bucket among these positions.

    Args:
        ids: Ids of entities, none of them null.
        buckets: Number of buckets, as in `bucket_of`.
        start: Lowest bucket of any id.
        step: Distance between the buckets of the ids.
    """
    if compiled := find_compiled_order():
        whole = ids.combine_chunks() if isinstance(ids, pa.ChunkedArray) else ids
        return compiled(whole, buckets, start, step)
    of = bucket_of(ids, buckets).to_numpy()
    order = np.argsort(of, kind="stable")
    return order, np.searchsorted(of[order], np.arange(start + step, buckets + step, step)).tolist()


def _hashes(texts: pa.StringArray) -> NDArray[np.uint64]:
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int32, len(texts) + 1, 4 * texts.offset).astype(np.int64)
    starts, length = ends[:-1], np.diff(ends)
    content = np.frombuffer(data or b"", np.uint8)
    hashes = np.full(len(texts), _BASIS)
    with np.errstate(over="ignore"):
        for place in range(int(length.max(initial=0))):
            reached = length > place
            hashes[reached] = (hashes[reached] ^ content[starts[reached] + place]) * _PRIME
        hashes = (hashes ^ (hashes >> np.uint64(33))) * _MIX
    return hashes ^ (hashes >> np.uint64(33))
