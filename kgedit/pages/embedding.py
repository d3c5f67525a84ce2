"""Data embedded in a page: columns of small integers with each string stored once, as gzip in base64.

Base64 does not contain "<", so no label can close the element that contains it. The page unpacks the data with
DecompressionStream.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Hashable, Iterable
from typing import Any, Generic, TypeVar

Value = TypeVar("Value", bound=Hashable)

NOTHING = -1
"""Index of a missing value."""


class Numbered(Generic[Value]):
    """Distinct values, numbered in the order of first appearance."""

    def __init__(self, first: Iterable[Value] = ()) -> None:
        self._numbers: dict[Value, int] = {}
        for value in first:
            self.number(value)

    def number(self, value: Value | None) -> int:
        """Number of a value; NOTHING for None."""
        if value is None:
            return NOTHING
        return self._numbers.setdefault(value, len(self._numbers))

    @property
    def values(self) -> list[Value]:
        """Values in the order of their numbers."""
        return list(self._numbers)


def packed(data: Any) -> str:
    """Compress data as JSON in base64; the same data gives the same text."""
    written = json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode()
    return base64.b64encode(gzip.compress(written, compresslevel=9, mtime=0)).decode("ascii")
