"""`rag`: prepends the nearest edits to each prompt as question and answer; no weights change (RAG of WikiBigEdit)."""

from __future__ import annotations

from collections.abc import Sequence

from kgedit.editing.editor import (
    NO_RUN,
    AppliedEdits,
    Capabilities,
    Editor,
    EditorState,
    Prefix,
    PrefixPart,
    RunContext,
)
from kgedit.editing.in_context.text_index import FactMemory, TextIndex, embedder_beside
from kgedit.hparams.memory_based import RagSettings
from kgedit.llm.contexts import Context
from kgedit.llm.language_model import LanguageModel
from kgedit.records.cases import Case


class Rag(Editor[RagSettings]):
    """Stores edits as question and answer, and prepends the pairs nearest to a question.

    By default, pairs have the form of the context's question, so that the answer follows in the same form. The nearest
    pair is last, next to the question. On ties the pair that was added later wins.
    """

    capabilities = Capabilities(
        protocols=("per_timestep", "sequential", "single"),
        changes_prompt=True,
        source="WikiBigEdit, arXiv 2503.05683 appendix C.3",
    )
    settings_type = RagSettings

    def __init__(self, model: LanguageModel, settings: RagSettings, *, contexts: Sequence[Context], seed: int) -> None:
        super().__init__(model, settings, contexts=contexts, seed=seed)
        embed = embedder_beside(model, settings.embedder, on=settings.embed_on)
        self._memory = FactMemory(TextIndex(embed, search=settings.index))

    def apply(self, cases: Sequence[Case], run: RunContext = NO_RUN) -> AppliedEdits:  # noqa: ARG002 - the contract's shape
        """Add the cases to the memory."""
        self._memory.add(cases)
        return AppliedEdits()

    def prefixes(self, questions: Sequence[str]) -> list[Prefix]:
        """Return the k nearest pairs of each question."""
        found = self._memory.nearest(questions, k=self.settings.k)
        return [Prefix(tuple(map(self._part, reversed(indexes)))) for indexes in found]

    def restore(self) -> None:
        """Remove all edits."""
        self._memory.clear()

    def state(self) -> EditorState:
        """Return the memory and its index."""
        return self._memory.state()

    def load_state(self, state: EditorState) -> None:
        """Load the memory and its index."""
        self._memory.load_state(state)

    def _part(self, index: int) -> PrefixPart:
        pair = self._memory.edits[index]
        if self.settings.wording == "question_answer":
            return PrefixPart(f"Q: {pair.question}\nA: {pair.answer}\n", pair.case_id)
        return PrefixPart("", pair.case_id, pair=(pair.question, pair.answer), ending="\n")
