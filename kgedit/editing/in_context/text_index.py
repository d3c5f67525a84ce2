"""Texts retrieved by similarity of meaning: the index of `rag` and `ike`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kgedit.editing.in_context.vector_index import VECTOR_INDEXES
from kgedit.llm.embeddings import Embedder, Vectors

_AT_ONCE = 256
_PORTION = 64


class TextIndex:
    """Texts as unit vectors; a text's index is its position in the order of adding.

    A repeated text reuses its vector: embedders give a text slightly different vectors in different batches, and then
    ties between equal texts would not always go to the later one.

    Args:
        embed: Computes the vectors of texts.
        search: Name in VECTOR_INDEXES.
    """

    def __init__(self, embed: Embedder, *, search: str = "exact") -> None:
        self._embed = embed
        self._new_index = VECTOR_INDEXES[search]
        self.clear()

    def __len__(self) -> int:
        return len(self._vectors)

    def add(self, texts: Sequence[str]) -> None:
        """Append texts."""
        if not texts:
            return
        fresh = [text for text in dict.fromkeys(texts) if text not in self._indexes]
        vectors = dict(zip(fresh, self._embed(fresh), strict=True)) if fresh else {}
        known = {text: self._vectors[self._indexes[text]] for text in texts if text in self._indexes}
        for index, text in enumerate(texts, start=len(self)):
            self._indexes.setdefault(text, index)
        self._vectors.add(np.stack([(vectors if text in vectors else known)[text] for text in texts]))

    def clear(self) -> None:
        """Forget every text."""
        self._vectors = self._new_index()
        self._indexes: dict[str, int] = {}

    def vector(self, index: int) -> Vectors:
        """The vector of the text at a index."""
        return self._vectors[index]

    def nearest(self, texts: Sequence[str], *, k: int) -> list[list[int]]:
        """Indexes of the k nearest for each text, best first; fewer where there are fewer."""
        if not len(self):
            return [[] for _ in texts]
        found: list[list[int]] = []
        for start in range(0, len(texts), _AT_ONCE):
            found += self._vectors.nearest(self._embed(texts[start : start + _AT_ONCE]), k=k)
        return found

    def ranking(self, vector: Vectors) -> Iterator[int]:
        """Every index, nearest to a vector first, in ever larger portions: who needs only a few pays for a few."""
        done, size = 0, _PORTION
        while done < len(self):
            found = self._vectors.nearest(vector[None], k=size)[0]
            yield from found[done:]
            done, size = min(size, len(self)), 4 * size

    def saved(self) -> NDArray[Any]:
        """A copy of all that `load` needs beside the texts; not for an empty index."""
        return self._vectors.saved()

    def load(self, saved: NDArray[Any], texts: Sequence[str]) -> None:
        """Take over what was saved with its texts, and behave exactly as the saved one would."""
        self.clear()
        self._vectors.load(saved)
        for index, text in enumerate(texts):
            self._indexes.setdefault(text, index)
