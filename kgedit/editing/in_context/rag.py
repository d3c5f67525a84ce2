"""`rag`: prepends the nearest edits to each prompt as question and answer; no weights change (RAG of WikiBigEdit)."""

from __future__ import annotations

from collections.abc import Sequence

from kgedit.editing.editor import (
    NO_RUN,
    AppliedEdits,
    Capabilities,
    Deviation,
    Deviations,
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

RAG_DEVIATIONS = Deviations((
    Deviation(
        what="what is looked up",
        published='in the released code the question cut at "? ", the gold answer with it',
        ours="the question alone",
        why="the answer is not known when a question is asked",
        effect="none to gain: the question alone finds its pair for 100 of 100 CounterFact edits and their rephrased "
        "questions",
    ),
    Deviation(
        what="embeddings",
        published="all-mpnet-base-v2",
        ours="all-minilm-l6-v2, `embedder` for another",
        why="it comes as a package and needs no hub",
        effect="none to gain: they find the pair of every update and rephrased question (100 CounterFact edits)",
    ),
    Deviation(
        what="wording of the pairs",
        published="question and answer, in one form ahead of every prompt",
        ours="as the context words its own question",
        why="an answer then follows theirs in the same way",
        effect="SmolLM2-135M, 20 CounterFact edits, `wording: question_answer`: teacher-forced update 30 in place of "
        "55, rephrased 10.8 in place of 7.5, unchanged 25 in place of 45; none under few_shot, whose form that is",
    ),
))  # fmt: skip


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
    deviations = RAG_DEVIATIONS
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
