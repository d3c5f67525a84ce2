"""Edits indexed by their questions, for retrieval by similarity of meaning: the memory of `rag` and `ike`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from kgedit.editing.editor import EditorState
from kgedit.editing.hparams.memory_based import EmbedOn
from kgedit.errors import MissingExtraError
from kgedit.llm.embeddings import Embedder, Vectors, embedder_on_demand
from kgedit.llm.language_model import LanguageModel
from kgedit.records.cases import Case

# `exact` computes every inner product. `hnsw` walks a graph of neighbours (arXiv 1603.09320) and so visits few of
# hundreds of thousands of vectors; it occasionally misses one. On ties the vector added later ranks first.


_SCORES_AT_ONCE = 2**24  # 64 MB of float32
_ROUNDING = 1e-5
"""Upper bound of the error of a matrix product of unit vectors in float32."""

# More than separated vectors need: among 20,000 in 2,000 clusters (384 dimensions), a search with 32 candidates finds
# 99.9 % of the five nearest in 0.25 ms, and one with 128 all of them in 0.8 ms. The rest is spare for sentences.
_LINKS, _BUILD_WIDTH, _SEARCH_WIDTH = 32, 100, 128
"""HNSW parameters: neighbours per vector, and number of candidates while adding and while searching."""


class VectorIndex(ABC):
    """Vectors indexed in insertion order."""

    @abstractmethod
    def __len__(self) -> int:
        """Number of vectors."""

    @abstractmethod
    def __getitem__(self, index: int) -> Vectors:
        """Return the vector at an index."""

    @abstractmethod
    def add(self, vectors: Vectors) -> None:
        """Append vectors, at least one."""

    @abstractmethod
    def nearest(self, queries: Vectors, *, k: int) -> list[list[int]]:
        """Return the indexes of the k nearest for each query, best first; fewer if the index is smaller."""

    @abstractmethod
    def saved(self) -> NDArray[Any]:
        """Return a copy of all that `load` needs; not for an empty index."""

    @abstractmethod
    def load(self, saved: NDArray[Any]) -> None:
        """Load a saved index; it then behaves exactly like the saved one."""


class ExactIndex(VectorIndex):
    """Exact index: computes every inner product and sorts only the best."""

    def __init__(self) -> None:
        self._room: Vectors = np.empty((0, 0), dtype=np.float32)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: int) -> Vectors:
        vector: Vectors = self._room[: self._size][index]
        return vector

    def add(self, vectors: Vectors) -> None:
        """Append vectors; the capacity doubles when full, so that adding one by one copies each only a few times."""
        size = self._size + len(vectors)
        if size > len(self._room):
            room = np.empty((max(size, 2 * self._size), vectors.shape[1]), dtype=np.float32)
            if self._size:
                room[: self._size] = self._room[: self._size]
            self._room = room
        self._room[self._size : size] = vectors
        self._size = size

    def nearest(self, queries: Vectors, *, k: int) -> list[list[int]]:
        """See `VectorIndex`; the result is exact."""
        if not self._size:
            return [[] for _ in queries]
        found: list[list[int]] = []
        vectors = self._room[: self._size]
        step = max(1, _SCORES_AT_ONCE // self._size)
        for start in range(0, len(queries), step):
            some = queries[start : start + step]
            for query, scores in zip(some, some @ vectors.T, strict=True):
                indexes = _at_least_kth(scores, k)
                found.append(_in_order(query, vectors[indexes], indexes)[:k])
        return found

    def saved(self) -> Vectors:
        """Return the vectors."""
        return self._room[: self._size].copy()

    def load(self, saved: NDArray[Any]) -> None:
        """Load the vectors."""
        self._room, self._size = saved, len(saved)


class HnswIndex(VectorIndex):
    """Approximate index by faiss, whose search time hardly grows with the number of vectors.

    The same vectors, added in the same portions, give the same graph: one thread adds them, and the random levels of
    HNSW depend only on the number of vectors, because faiss does not save its random generator.

    Raises:
        MissingExtraError: if faiss-cpu is not installed.
    """

    def __init__(self) -> None:
        if find_spec("faiss") is None:
            raise MissingExtraError("faiss-cpu", "rag")
        import faiss

        self._faiss: Any = faiss
        self._graph: Any = None

    def __len__(self) -> int:
        return 0 if self._graph is None else int(self._graph.ntotal)

    def __getitem__(self, index: int) -> Vectors:
        vector: Vectors = self._graph.reconstruct(index)
        return vector

    def add(self, vectors: Vectors) -> None:
        """See `VectorIndex`; afterwards the process's number of threads is restored."""
        if self._graph is None:
            self._graph = self._faiss.IndexHNSWFlat(vectors.shape[1], _LINKS, self._faiss.METRIC_INNER_PRODUCT)
            self._graph.hnsw.efConstruction = _BUILD_WIDTH
            self._graph.hnsw.efSearch = _SEARCH_WIDTH
        threads = self._faiss.omp_get_max_threads()
        self._faiss.omp_set_num_threads(1)
        try:
            self._graph.hnsw.rng = self._faiss.RandomGenerator(len(self))
            self._graph.add(np.ascontiguousarray(vectors))
        finally:
            self._faiss.omp_set_num_threads(threads)

    def nearest(self, queries: Vectors, *, k: int) -> list[list[int]]:
        """Return the best vectors that the walk visits; it may miss some, so there may be fewer than k."""
        if not len(self):
            return [[] for _ in queries]
        _, rows = self._graph.search(np.ascontiguousarray(queries), min(len(self), max(k, _SEARCH_WIDTH)))
        met = [row[row >= 0] for row in rows]
        return [
            _in_order(query, self._graph.reconstruct_batch(indexes), indexes)[:k]
            for query, indexes in zip(queries, met, strict=True)
        ]

    def saved(self) -> NDArray[Any]:
        """Return the graph with its vectors, as bytes."""
        saved: NDArray[Any] = self._faiss.serialize_index(self._graph)
        return saved

    def load(self, saved: NDArray[Any]) -> None:
        """Load the graph."""
        self._graph = self._faiss.deserialize_index(saved)


VECTOR_INDEXES: Mapping[str, Callable[[], VectorIndex]] = {"exact": ExactIndex, "hnsw": HnswIndex}


def _at_least_kth(scores: Vectors, k: int) -> NDArray[np.int64]:
    """Ascending indexes of the k best scores and of all that equal the k-th up to rounding."""
    last = len(scores) - k
    if last <= 0:
        return np.arange(len(scores))
    return np.flatnonzero(scores >= np.partition(scores, last)[last] - _ROUNDING)


def _in_order(query: Vectors, vectors: Vectors, indexes: NDArray[np.int64]) -> list[int]:
    """Indexes of vectors, best first.

    The scores of a matrix product differ in their last bits from column to column. Here each row is summed in the same
    way, so that equal vectors are equally near at any index.
    """
    scores = (vectors * query).sum(axis=1)
    order: list[int] = indexes[np.lexsort((-indexes, -scores))].tolist()
    return order


_AT_ONCE = 256
"""Maximum number of texts whose vectors are in memory at once."""
_PORTION = 64
"""Size of the first portion of a ranking: most callers stop within it."""


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


@dataclass(frozen=True, slots=True)
class StoredEdits:
    """An edit as question and target; `case_id` is unique within the run."""

    case_id: str
    question: str
    answer: str


class FactMemory:
    """Edits in insertion order, retrieved by similarity of questions.

    Args:
        index: Empty index for the questions.
    """

    def __init__(self, index: TextIndex) -> None:
        self._index = index
        self.edits: list[StoredEdits] = []

    def add(self, cases: Sequence[Case]) -> None:
        """Add the cases."""
        self._index.add([case.question for case in cases])
        self.edits += [StoredEdits(case.id_in_run, case.question, case.answer) for case in cases]

    def nearest(self, questions: Sequence[str], *, k: int) -> list[list[int]]:
        """Return the indexes in `edits` of the k nearest for each question, best first; ties go to the later edit."""
        return self._index.nearest(questions, k=k)

    def vector(self, index: int) -> Vectors:
        """Return the vector of an edit's question."""
        return self._index.vector(index)

    def clear(self) -> None:
        """Remove all edits."""
        self._index.clear()
        self.edits = []

    def state(self) -> EditorState:
        """Return the edits and their index."""
        if not self.edits:
            return EditorState(record={"edits": []})
        edits = [[edit.case_id, edit.question, edit.answer] for edit in self.edits]
        return EditorState({"index": torch.from_numpy(self._index.saved())}, {"edits": edits})

    def load_state(self, state: EditorState) -> None:
        """Load the edits."""
        self.clear()
        self.edits = [StoredEdits(*row) for row in state.record["edits"]]
        if self.edits:
            self._index.load(state.tensors["index"].numpy(), [edit.question for edit in self.edits])


def embedder_beside(model: LanguageModel, name: str, *, on: EmbedOn) -> Embedder:
    """Create an embedder that is loaded on its first call.

    Args:
        model: With "device", the embedder is on the model's input device, also after the model is moved.
        name: See `kgedit.llm.embeddings.load_embedder`.
        on: "device" or "cpu".
    """
    return embedder_on_demand(name, device="cpu" if on == "cpu" else lambda: str(model.device))
