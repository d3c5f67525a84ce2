"""`graph_rag`: prepends facts found by walking the graph of edits to each prompt; weights do not change.

`rag` retrieves edits with similar questions, which misses the second fact of a two-hop question. Here the subject is
found by its name, and the path of relations from it by the question's wording (kgedit.graph_memory).
"""

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
from kgedit.editing.in_context.text_index import embedder_beside
from kgedit.graph_memory.findings import reading_order
from kgedit.graph_memory.gate import read_gate
from kgedit.graph_memory.graph_memory import FoundPath, GraphMemory, Remembered, Search
from kgedit.graph_memory.matching import read_matcher
from kgedit.hparams.memory_based import GraphRagSettings
from kgedit.llm.contexts import Context
from kgedit.llm.language_model import LanguageModel
from kgedit.records.cases import Case


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
