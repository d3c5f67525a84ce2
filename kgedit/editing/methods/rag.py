"""`rag`: the model stays as it is; remembered questions and answers go ahead of each prompt (RAG of WikiBigEdit)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from kgedit.editing.contract import Applied, Capabilities, Editor, Prefix, State
from kgedit.editing.settings import Bounds, setting
from kgedit.llm.contexts import Context, read_template
from kgedit.llm.embeddings import Embedder, Vectors, load_embedder
from kgedit.llm.language_model import LanguageModel
from kgedit.records.cases import Case
from kgedit.resources import data_folder

_QUERIES_AT_ONCE = 256


@dataclass(frozen=True, slots=True)
class RagSettings:
    """Hyperparameters of retrieval."""

    k: int = setting(2, "remembered pairs put ahead of a question", bounds=Bounds(least=1))
    embedder: str = setting("all-minilm-l6-v2", "or character-ngrams, or a sentence-transformers model")


@dataclass(frozen=True, slots=True)
class _Pair:
    case_id: str
    question: str
    answer: str


class Retrieval(Editor[RagSettings]):
    """Remembers update questions with their answers; finds the nearest to the question asked, by that question alone.

    Search is exact: every inner product is computed. The best pair stands last, next to the question. Of equally near
    pairs the one learned later is the better.
    """

    capabilities = Capabilities(
        protocols=("per_timestep", "sequential", "single"),
        changes_prompt=True,
        source="WikiBigEdit, arXiv 2503.05683 appendix C.3",
    )
    settings_type = RagSettings

    def __init__(self, model: LanguageModel, settings: RagSettings, *, asked: Sequence[Context], seed: int) -> None:
        super().__init__(model, settings, asked=asked, seed=seed)
        self._template = read_template(data_folder("prompts") / "memory" / "question_answer.txt")
        self._embedder: Embedder | None = None
        self._pairs: list[_Pair] = []
        self._vectors: Vectors | None = None

    def apply(self, cases: Sequence[Case]) -> Applied:
        """Remember the cases."""
        new = self._embed([case.question for case in cases])
        self._vectors = new if self._vectors is None else np.concatenate([self._vectors, new])
        self._pairs += [_Pair(case.case_id, case.question, case.answer) for case in cases]
        return Applied()

    def prefixes(self, questions: Sequence[str]) -> list[Prefix]:
        """The k nearest pairs of each question."""
        if self._vectors is None:
            return super().prefixes(questions)
        found = []
        for start in range(0, len(questions), _QUERIES_AT_ONCE):
            found += self._nearest(self._embed(questions[start : start + _QUERIES_AT_ONCE]), self._vectors)
        return [self._prefix(rows) for rows in found]

    def restore(self) -> None:
        """Forget everything."""
        self._pairs, self._vectors = [], None

    def state(self) -> State:
        """The memory and its index."""
        if self._vectors is None:
            return State()
        pairs = [[pair.case_id, pair.question, pair.answer] for pair in self._pairs]
        return State({"vectors": torch.from_numpy(self._vectors.copy())}, {"pairs": pairs})

    def load_state(self, state: State) -> None:
        """Take the memory over."""
        self._pairs = [_Pair(*row) for row in state.record.get("pairs", [])]
        self._vectors = state.tensors["vectors"].numpy() if self._pairs else None

    def _embed(self, texts: Sequence[str]) -> Vectors:
        if self._embedder is None:
            self._embedder = load_embedder(self.settings.embedder, device=str(self.model.device))
        return self._embedder(texts)

    def _nearest(self, asked: Vectors, known: Vectors) -> list[list[int]]:
        """Rows of the memory, best first, for each vector asked for."""
        scores = asked @ known.T
        later_first = -np.arange(len(known))
        return [np.lexsort((later_first, -own))[: self.settings.k].tolist() for own in scores]

    def _prefix(self, rows: list[int]) -> Prefix:
        pairs = [self._pairs[row] for row in rows]
        before, _, after = self._template.partition("{question}")
        middle, _, end = after.partition("{answer}")
        text = "".join(f"{before}{pair.question}{middle}{pair.answer}{end}\n" for pair in reversed(pairs))
        return Prefix(text, tuple(pair.case_id for pair in pairs))
