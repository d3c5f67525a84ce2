"""Growable columns and an index over them, used instead of objects to store millions of facts.

An index consists of a few sorted runs of 64-bit keys, each several times smaller than the previous one. New entries
form a new run, and runs of similar size are merged, so that adding few entries to many is cheap.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

Keys = NDArray[np.uint64]
Numbers = NDArray[np.int32]
_MERGED = 4
"""A run is merged with the previous one unless that is this many times as long."""


def hashed(texts: Iterable[str]) -> Keys:
    """64-bit keys of texts. Among a million texts, the probability of a collision is 1 in 30 million."""
    digests = b"".join(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest() for text in texts)
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)


class NumberColumn:
    """Growable column of 32-bit integers."""

    def __init__(self) -> None:
        self._entries: Numbers = np.empty(16, dtype=np.int32)
        self._length = 0

    def __len__(self) -> int:
        return self._length

    @property
    def view(self) -> Numbers:
        """All entries, readable and writable; valid until the next `extend`."""
        return self._entries[: self._length]

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self._entries.nbytes

    def extend(self, entries: ArrayLike) -> None:
        """Add entries at the end."""
        added = np.asarray(entries, dtype=np.int32)
        length = self._length + len(added)
        if length > len(self._entries):
            grown: Numbers = np.empty(max(length, len(self._entries) * 3 // 2), dtype=np.int32)
            grown[: self._length] = self.view
            self._entries = grown
        self._entries[self._length : length] = added
        self._length = length


class TextColumn:
    """Growable column of texts, stored as one UTF-8 buffer with end offsets."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._ends: NDArray[np.int64] = np.zeros(16, dtype=np.int64)
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, number: int) -> str:
        start = int(self._ends[number - 1]) if number else 0
        return self._bytes[start : int(self._ends[number])].decode("utf-8", "surrogatepass")

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return len(self._bytes) + self._ends.nbytes

    def extend(self, texts: Sequence[str]) -> None:
        """Add texts at the end."""
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
        length = self._length + len(encoded)
        if length > len(self._ends):
            grown = np.zeros(max(length, len(self._ends) * 3 // 2), dtype=np.int64)
            grown[: self._length] = self._ends[: self._length]
            self._ends = grown
        self._ends[self._length : length] = len(self._bytes) + np.cumsum([len(each) for each in encoded])
        self._bytes += b"".join(encoded)
        self._length = length

    def to_arrow(self) -> pa.Array:
        """All texts, as an Arrow array."""
        ends = np.concatenate([np.zeros(1, dtype=np.int64), self._ends[: self._length]])
        return pa.LargeStringArray.from_buffers(
            self._length, pa.py_buffer(ends.tobytes()), pa.py_buffer(bytes(self._bytes))
        )


class KeyedNumbers:
    """Numbers by key; several numbers of one key keep the order in which they were added."""

    def __init__(self) -> None:
        self._runs: list[tuple[Keys, Numbers]] = []

    def __len__(self) -> int:
        return sum(len(keys) for keys, _ in self._runs)

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return sum(keys.nbytes + numbers.nbytes for keys, numbers in self._runs)

    def add(self, keys: Keys, numbers: ArrayLike) -> None:
        """Add pairs."""
        if not len(keys):
            return
        self._runs.append(_sorted(keys, np.asarray(numbers, dtype=np.int32)))
        while len(self._runs) > 1 and len(self._runs[-1][0]) * _MERGED >= len(self._runs[-2][0]):
            (late, late_numbers), (early, early_numbers) = self._runs.pop(), self._runs.pop()
            merged = np.concatenate([early, late]), np.concatenate([early_numbers, late_numbers])
            self._runs.append(_sorted(*merged))

    def find(self, keys: Keys) -> tuple[NDArray[np.int64], Numbers]:
        """Find all numbers of keys.

        Returns:
            Indices of the keys, ascending, and the numbers: one entry per number found.
        """
        places, numbers = [], []
        for own, several in self._runs:
            starts = own.searchsorted(keys)
            # Most words of a question are in no index: only the ends of known keys are looked up.
            known = np.flatnonzero(own.take(starts, mode="clip") == keys)
            if len(known):
                first = starts[known]
                counts = own.searchsorted(keys[known], side="right") - first
                places.append(np.repeat(known, counts))
                numbers.append(several[_ranges(first, counts)])
        return _together(places, numbers)

    def between(self, lows: Keys, highs: Keys) -> tuple[NDArray[np.int64], Numbers]:
        """Find all numbers in closed ranges of keys; within a run, numbers are ordered by key."""
        places, numbers = [], []
        for keys, own in self._runs:
            starts = keys.searchsorted(lows)
            counts = keys.searchsorted(highs, side="right") - starts
            if counts.any():
                places.append(np.repeat(np.arange(len(lows)), counts))
                numbers.append(own[_ranges(starts, counts)])
        return _together(places, numbers)

    def first(self, keys: Keys) -> Numbers:
        """The first number of each key, (keys,); -1 if there is none."""
        found: Numbers = np.full(len(keys), -1, dtype=np.int32)
        for own, numbers in reversed(self._runs):
            places = own.searchsorted(keys)
            there = np.flatnonzero(own.take(places, mode="clip") == keys)
            if len(there):
                found[there] = numbers[places[there]]
        return found

    def to_arrow(self) -> pa.Table:
        """All pairs, as columns key and number."""
        keys = np.concatenate([np.empty(0, dtype=np.uint64), *(keys for keys, _ in self._runs)])
        numbers = np.concatenate([np.empty(0, dtype=np.int32), *(numbers for _, numbers in self._runs)])
        return pa.table({"key": keys, "number": numbers})


def _ranges(starts: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Indices of several ranges, one after the other."""
    ends = counts.cumsum()
    return np.arange(int(ends[-1])) + np.repeat(starts - (ends - counts), counts)


def _together(places: Sequence[NDArray[np.int64]], numbers: Sequence[Numbers]) -> tuple[NDArray[np.int64], Numbers]:
    """Findings of all runs, ordered by place; those of one place keep the order of the runs."""
    if not places:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32)
    if len(places) == 1:
        return places[0], numbers[0]
    together = np.concatenate(places)
    order = np.argsort(together, kind="stable")
    return together[order], np.concatenate(numbers)[order]


def _sorted(keys: Keys, numbers: Numbers) -> tuple[Keys, Numbers]:
    order = np.argsort(keys, kind="stable")
    return keys[order], numbers[order]
