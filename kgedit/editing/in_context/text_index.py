"""Text index for retrieval by similarity of meaning, used by `rag` and `ike`."""

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
    """Texts as unit vectors, indexed in insertion order.

    A repeated text reuses its vector: embedders give a text slightly different vectors in different batches, and then
    the later of two equal texts would not always win ties.

    Args:
        embed: Embedder that computes the vectors of texts.
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
        """Remove all texts."""
        self._vectors = self._new_index()
        self._indexes: dict[str, int] = {}

    def vector(self, index: int) -> Vectors:
        """Return the vector of the text at an index."""
        return self._vectors[index]

    def nearest(self, texts: Sequence[str], *, k: int) -> list[list[int]]:
        """Return the indexes of the k nearest for each text, best first; fewer if the index is smaller."""
        if not len(self):
            return [[] for _ in texts]
        found: list[list[int]] = []
        for start in range(0, len(texts), _AT_ONCE):
            found += self._vectors.nearest(self._embed(texts[start : start + _AT_ONCE]), k=k)
        return found

    def ranking(self, vector: Vectors) -> Iterator[int]:
        """Iterate over all indexes, nearest to a vector first, in growing portions, so that a few are cheap."""
        done, size = 0, _PORTION
        while done < len(self):
            found = self._vectors.nearest(vector[None], k=size)[0]
            yield from found[done:]
            done, size = min(size, len(self)), 4 * size

    def saved(self) -> NDArray[Any]:
        """Return a copy of all that `load` needs besides the texts; not for an empty index."""
        return self._vectors.saved()

    def load(self, saved: NDArray[Any], texts: Sequence[str]) -> None:
        """Load a saved index with its texts; it then behaves exactly like the saved one."""
        self.clear()
        self._vectors.load(saved)
        for index, text in enumerate(texts):
            self._indexes.setdefault(text, index)
