"""Edits indexed by their questions: the memory of methods that insert edits into prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from kgedit.editing.editor import EditorState
from kgedit.editing.in_context.text_index import TextIndex
from kgedit.llm.embeddings import Vectors
from kgedit.records.cases import Case


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
