"""Edits indexed by their questions, for retrieval by similarity of meaning: the memory of `rag` and `ike`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from kgedit.editing.editor import EditorState
from kgedit.editing.in_context.vector_index import VECTOR_INDEXES
from kgedit.hparams.memory_based import EmbedOn
from kgedit.llm.embeddings import Embedder, Vectors, embedder_on_demand
from kgedit.llm.language_model import LanguageModel
from kgedit.records.cases import Case

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
    """An edit as question and target."""

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
        self.edits += [StoredEdits(case.case_id, case.question, case.answer) for case in cases]

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
