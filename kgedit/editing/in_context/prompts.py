"""`prompt`, `rag`, `graph_rag`: facts in front of the question: its own, the most similar ones, or those of a graph."""

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
from kgedit.editing.hparams.memory_based import GraphRagSettings, PromptSettings, RagSettings
from kgedit.editing.in_context.text_index import FactMemory, TextIndex, embedder_beside
from kgedit.graph_memory.gate import read_gate
from kgedit.graph_memory.graph_memory import FoundPath, GraphMemory, Remembered, Search
from kgedit.graph_memory.matching import read_matcher
from kgedit.graph_memory.retrieval import reading_order
from kgedit.llm.contexts import Context
from kgedit.llm.language_model import LanguageModel
from kgedit.records.cases import Case
from kgedit.records.runs import EditFailure


class Prompting(Editor[PromptSettings]):
    """States the facts of the latest call before every prompt; the next call replaces them.

    The text does not depend on the question: locality probes get the facts too.
    """

    capabilities = Capabilities(
        protocols=("single", "sequential", "per_timestep"),
        changes_prompt=True,
        replaces_edits=True,
        source="the baseline PROMPT of WikiFactDiff, arXiv 2403.14364 section 6",
    )
    settings_type = PromptSettings
    _facts: tuple[str, ...] = ()

    def apply(self, cases: Sequence[Case], run: RunContext = NO_RUN) -> AppliedEdits:  # noqa: ARG002 - the contract's shape
        """Replace the facts by those of these cases."""
        self._facts = tuple(statement(case) for case in cases[-self.settings.most :])
        reason = f"the prompt states the last {len(self._facts)} facts only: settings.most"
        left_out = cases[: len(cases) - len(self._facts)]
        return AppliedEdits(failures=tuple(EditFailure(case_id=case.case_id, reason=reason) for case in left_out))

    def prefixes(self, questions: Sequence[str]) -> list[Prefix]:
        """Return the same text for every question."""
        prefix = Prefix(tuple(PrefixPart(f"{fact}\n") for fact in self._facts))
        return [prefix for _ in questions]

    def restore(self) -> None:
        """Remove the facts."""
        self._facts = ()

    def state(self) -> EditorState:
        """Return the facts."""
        return EditorState(record={"facts": list(self._facts)})

    def load_state(self, state: EditorState) -> None:
        """Load the facts."""
        self._facts = tuple(state.record["facts"])


def statement(case: Case) -> str:
    """An edit's fact as a sentence: its filled-in cloze, or, if it has none, its question with the answer."""
    begun = case.cloze or case.question
    return f"{begun} {case.answer}{'' if case.answer.endswith('.') else '.'}"


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


# `rag` retrieves edits with similar questions, which misses the second fact of a two-hop question. Here the subject is
# found by its name, and the path of relations from it by the question's wording (kgedit.graph_memory).


class GraphRetrieval(Editor[GraphRagSettings]):
    """Stores edits as a graph, and prepends the facts of the best paths to a question, first hop before second.

    The best path is last, next to the question. A question without a known subject, or without a matching path, gets no
    text.
    """

    capabilities = Capabilities(
        protocols=("per_timestep", "sequential", "single"),
        changes_prompt=True,
        source="kgedit, docs/graph-memory.md",
    )
    settings_type = GraphRagSettings

    def __init__(
        self, model: LanguageModel, settings: GraphRagSettings, *, contexts: Sequence[Context], seed: int
    ) -> None:
        super().__init__(model, settings, contexts=contexts, seed=seed)
        self._memory = GraphMemory(
            embedder_beside(model, settings.embedder, on=settings.embed_on),
            gate=read_gate(settings.embedder),
            matcher=read_matcher(settings.embedder),
        )
        self._search = Search(
            k=settings.k,
            hops=settings.hops,
            gate=settings.gate,
            near=settings.near,
            misspelt=settings.misspelt,
        )

    def apply(self, cases: Sequence[Case], run: RunContext = NO_RUN) -> AppliedEdits:  # noqa: ARG002 - the contract's shape
        """Add the cases to the memory."""
        self._memory.learn(cases)
        return AppliedEdits()

    def prefixes(self, questions: Sequence[str]) -> list[Prefix]:
        """Return the facts of the best paths of each question."""
        bridged = self.settings.bridged
        return [prefix_of(finding.paths, bridged=bridged) for finding in self._memory.find(questions, self._search)]

    def restore(self) -> None:
        """Remove all edits."""
        self._memory.clear()

    def state(self) -> EditorState:
        """Return the memory."""
        return EditorState(record=self._memory.state())

    def load_state(self, state: EditorState) -> None:
        """Load the memory."""
        self._memory.load(state.record)


def prefix_of(paths: Sequence[FoundPath], *, bridged: bool = False) -> Prefix:
    """Order paths for reading: the best one last, each from its first hop to its last, every fact once.

    Args:
        paths: Best first.
        bridged: Whether a second hop's question states in brackets whose head, owner or team its subject is.
    """
    return Prefix(tuple(part for row in reading_order(paths) for part in _parts(row, bridged=bridged)))


def _parts(row: Remembered, *, bridged: bool) -> list[PrefixPart]:
    """A fact as question and answer; further edits of the same row are listed without text."""
    first, *others = row.case_ids or ("",)
    pair = PrefixPart("", first, pair=(row.bridged if bridged else row.question, row.answer), ending="\n")
    return [*(PrefixPart("", case_id) for case_id in others), pair]
