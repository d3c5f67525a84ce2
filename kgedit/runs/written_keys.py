"""Set of answers or edits that a run had written before it was resumed, with sixteen bytes per key of any size.

A run with half a million edits writes millions of answers; their keys as Python objects would need gigabytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import msgspec
import numpy as np

_BYTES = 16
_TYPE = np.dtype((np.bytes_, _BYTES))


class WrittenKeys:
    """A set of keys that stores only sorted hashes of 128 bits.

    Args:
        keys: Tuples of JSON values; iterated once.
    """

    def __init__(self, keys: Iterable[tuple[object, ...]]) -> None:
        digests = bytearray()
        for key in keys:
            digests += _digest(key)
        self._sorted = np.sort(np.frombuffer(bytes(digests), dtype=_TYPE))

    def __len__(self) -> int:
        return len(self._sorted)

    @property
    def nbytes(self) -> int:
        """Number of bytes used by all keys."""
        return self._sorted.nbytes

    def __contains__(self, key: tuple[object, ...]) -> bool:
        if not len(self._sorted):
            return False
        digest = np.array([_digest(key)], dtype=_TYPE)
        index = int(np.searchsorted(self._sorted, digest)[0])
        return index < len(self._sorted) and bool(self._sorted[index] == digest[0])


def _digest(key: tuple[object, ...]) -> bytes:
    return hashlib.blake2b(msgspec.json.encode(key), digest_size=_BYTES).digest()
