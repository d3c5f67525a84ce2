"""`rag`: the model stays as it is; remembered questions and answers go ahead of each prompt (RAG of WikiBigEdit)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kgedit.editing.contract import Applied, Capabilities, Editor, Part, Prefix, State
from kgedit.editing.fact_memory import FactMemory
from kgedit.editing.settings import Bounds, setting
from kgedit.editing.text_index import EMBEDDER_MEANING, TextIndex
from kgedit.editing.vector_index import VECTOR_INDEXES
from kgedit.llm.contexts import Context, read_template
from kgedit.llm.embeddings import embedder_on_demand
from kgedit.llm.language_model import LanguageModel
from kgedit.records.cases import Case
from kgedit.resources import data_folder


@dataclass(frozen=True, slots=True)
class RagSettings:
    """Hyperparameters of retrieval."""

    k: int = setting(2, "remembered pairs put ahead of a question", bounds=Bounds(least=1))
    embedder: str = setting("all-minilm-l6-v2", EMBEDDER_MEANING)
    index: str = setting(
        "exact",
        "how pairs are looked for: exact, or hnsw, approximate, for hundreds of thousands",
        choices=tuple(VECTOR_INDEXES),
    )


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
        template = read_template(data_folder("prompts") / "memory" / "question_answer.txt")
        self._before, _, after = template.partition("{question}")
        self._between, _, self._after = after.partition("{answer}")
        embed = embedder_on_demand(settings.embedder, device=str(model.device))
        self._memory = FactMemory(TextIndex(embed, search=settings.index))

    def apply(self, cases: Sequence[Case]) -> Applied:
        """Remember the cases."""
        self._memory.add(cases)
        return Applied()

    def prefixes(self, questions: Sequence[str]) -> list[Prefix]:
        """The k nearest pairs of each question."""
        found = self._memory.nearest(questions, k=self.settings.k)
        return [Prefix(tuple(map(self._part, reversed(places)))) for places in found]

    def restore(self) -> None:
        """Forget everything."""
        self._memory.clear()

    def state(self) -> State:
        """The memory and its index."""
        return self._memory.state()

    def load_state(self, state: State) -> None:
        """Take the memory over."""
        self._memory.load_state(state)

    def _part(self, place: int) -> Part:
        pair = self._memory.edits[place]
        return Part(f"{self._before}{pair.question}{self._between}{pair.answer}{self._after}\n", pair.case_id)
