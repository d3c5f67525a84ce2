"""`rag`: the model stays as it is; remembered questions and answers go ahead of each prompt (RAG of WikiBigEdit)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from kgedit.editing.contract import Applied, Capabilities, Editor, Prefix, State
from kgedit.editing.settings import Bounds, setting
from kgedit.editing.text_index import EMBEDDER_MEANING, TextIndex
from kgedit.llm.contexts import Context, read_template
from kgedit.llm.language_model import LanguageModel
from kgedit.records.cases import Case
from kgedit.resources import data_folder


@dataclass(frozen=True, slots=True)
class RagSettings:
    """Hyperparameters of retrieval."""

    k: int = setting(2, "remembered pairs put ahead of a question", bounds=Bounds(least=1))
    embedder: str = setting("all-minilm-l6-v2", EMBEDDER_MEANING)


@dataclass(frozen=True, slots=True)
class _Pair:
    case_id: str
    question: str
    answer: str


class Retrieval(Editor[RagSettings]):
    """Remembers update questions with their answers; finds the nearest to the question asked, by that question alone.

    The best pair stands last, next to the question. Of equally near pairs the one learned later is the better.
    """

    capabilities = Capabilities(
        protocols=("per_timestep", "sequential", "single"),
        changes_prompt=True,
        source="WikiBigEdit, arXiv 2503.05683 appendix C.3",
    )
    settings_type = RagSettings
    method = "rag"

    def __init__(self, model: LanguageModel, settings: RagSettings, *, asked: Sequence[Context], seed: int) -> None:
        super().__init__(model, settings, asked=asked, seed=seed)
        self._template = read_template(data_folder("prompts") / "memory" / "question_answer.txt")
        self._pairs: list[_Pair] = []
        self._index = TextIndex(settings.embedder, device=str(model.device))

    def apply(self, cases: Sequence[Case]) -> Applied:
        """Remember the cases."""
        self._index.add([case.question for case in cases])
        self._pairs += [_Pair(case.case_id, case.question, case.answer) for case in cases]
        return Applied()

    def prefixes(self, questions: Sequence[str]) -> list[Prefix]:
        """The k nearest pairs of each question."""
        return [self._prefix(rows) for rows in self._index.nearest(questions, k=self.settings.k)]

    def restore(self) -> None:
        """Forget everything."""
        self._pairs = []
        self._index.clear()

    def state(self) -> State:
        """The memory and its index."""
        if self._index.vectors is None:
            return State()
        pairs = [[pair.case_id, pair.question, pair.answer] for pair in self._pairs]
        return State({"vectors": torch.from_numpy(self._index.vectors.copy())}, {"pairs": pairs})

    def load_state(self, state: State) -> None:
        """Take the memory over."""
        self._pairs = [_Pair(*row) for row in state.record.get("pairs", [])]
        self._index.vectors = state.tensors["vectors"].numpy() if self._pairs else None

    def _prefix(self, rows: list[int]) -> Prefix:
        pairs = [self._pairs[row] for row in rows]
        before, _, after = self._template.partition("{question}")
        middle, _, end = after.partition("{answer}")
        text = "".join(f"{before}{pair.question}{middle}{pair.answer}{end}\n" for pair in reversed(pairs))
        return Prefix(text, tuple(pair.case_id for pair in pairs))
