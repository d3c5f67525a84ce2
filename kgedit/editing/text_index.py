"""Texts found by nearness of meaning: what `rag` and `ike` remember by.

Search is exact: every inner product is computed. Of equally near texts the one added later is the better.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kgedit.llm.embeddings import Embedder, Vectors, load_embedder

_AT_ONCE = 256

EMBEDDER_MEANING = "all-minilm-l6-v2, character-ngrams, or a sentence-transformers model (folder or hub name)"


class TextIndex:
    """Unit vectors of texts, in the order in which they were added.

    Args:
        embedder: As load_embedder takes it; loaded when first needed.
        device: Where it runs.
        vectors: Of texts embedded before.
    """

    def __init__(self, embedder: str, *, device: str, vectors: Vectors | None = None) -> None:
        self._name = embedder
        self._device = device
        self._embedder: Embedder | None = None
        self.vectors = vectors

    def __len__(self) -> int:
        return 0 if self.vectors is None else len(self.vectors)

    def add(self, texts: Sequence[str]) -> None:
        """Put texts behind those that are there."""
        if texts:
            new = self._embed(texts)
            self.vectors = new if self.vectors is None else np.concatenate([self.vectors, new])

    def clear(self) -> None:
        """Forget every text."""
        self.vectors = None

    def nearest(self, texts: Sequence[str], *, k: int) -> list[list[int]]:
        """Places of the k nearest for each text, best first; fewer where there are fewer."""
        if self.vectors is None:
            return [[] for _ in texts]
        found: list[list[int]] = []
        later_first = -np.arange(len(self.vectors))
        for start in range(0, len(texts), _AT_ONCE):
            scores = self._embed(texts[start : start + _AT_ONCE]) @ self.vectors.T
            found += [np.lexsort((later_first, -own))[:k].tolist() for own in scores]
        return found

    def _embed(self, texts: Sequence[str]) -> Vectors:
        if self._embedder is None:
            self._embedder = load_embedder(self._name, device=self._device)
        return self._embedder(texts)
