"""`ike`: prepends demonstrations of using a new fact, and the edit, to every prompt; weights do not change (IKE).

A demonstration states a fact with a changed answer, followed by the same question (copy), its rephrase (update), or
another question, which keeps its answer (retain). The edit itself follows the demonstrations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

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
from kgedit.editing.hparams.memory_based import IkeSettings
from kgedit.editing.in_context.text_index import FactMemory, TextIndex, embedder_beside
from kgedit.editing.training import known_of, known_rows
from kgedit.llm.contexts import Context, read_template
from kgedit.llm.language_model import LanguageModel
from kgedit.progress import Advance, ignore
from kgedit.records.cases import Case, KnownFact
from kgedit.resources import data_folder
from kgedit.timesteps.edit_files.same_facts import FactKey, keys_of_cases, keys_of_known

_KINDS = ("copy", "retain", "update", "retain", "update", "retain", "update", "retain")
"""1 copy, 3 update and 4 retain, repeated from the nearest demonstration on."""


class InContextEditing(Editor[IkeSettings]):
    """Prepends an edit and the demonstrations nearest to it to every prompt, including locality probes.

    With one edit, as published, every prompt gets that edit; with several, each prompt gets the edit with the nearest
    question. Demonstrations are facts of the older snapshot, except those that a probe of an edit asks for, because
    they would reveal the answer.
    """

    capabilities = Capabilities(
        protocols=("single", "sequential", "per_timestep"),
        changes_prompt=True,
        needs_known_facts=True,
        source="IKE, arXiv 2305.12740",
    )
    settings_type = IkeSettings

    def __init__(self, model: LanguageModel, settings: IkeSettings, *, contexts: Sequence[Context], seed: int) -> None:
        super().__init__(model, settings, contexts=contexts, seed=seed)
        before, _, after = read_template(data_folder("prompts") / "memory" / "new_fact.txt").partition("{fact}")
        self._before, self._between = before, after.partition("{prompt}")[0]
        embed = embedder_beside(model, settings.embedder, on=settings.embed_on)
        self._memory = FactMemory(TextIndex(embed))
        self._probed: set[FactKey] = set()
        self._known: list[KnownFact] = []
        self._answers: dict[str, set[str]] = {}
        self._known_index = TextIndex(embed)

    def prepare(self, known: Sequence[KnownFact], *, advance: Advance) -> None:  # noqa: ARG002 - the contract's shape
        """Index the known facts for demonstrations."""
        self._known = list(dict.fromkeys(known)) if self.settings.k else []
        self._answers = {fact.fact.property: set() for fact in self._known}
        for fact in self._known:
            self._answers[fact.fact.property].add(fact.answer)
        self._known_index.clear()
        self._known_index.add([fact.question for fact in self._known])

    def apply(self, cases: Sequence[Case], run: RunContext = NO_RUN) -> AppliedEdits:  # noqa: ARG002 - the contract's shape
        """Add the cases to the memory."""
        self._memory.add(cases)
        self._probed |= keys_of_cases(cases)
        return AppliedEdits()

    def prefixes(self, questions: Sequence[str]) -> list[Prefix]:
        """Return demonstrations and the nearest edit for each question."""
        if not self._memory.edits:
            return super().prefixes(questions)
        indexes = [found[0] for found in self._memory.nearest(questions, k=1)]
        made = {index: self._prefix(index) for index in sorted(set(indexes))}
        return [made[index] for index in indexes]

    def restore(self) -> None:
        """Remove all edits; the known facts are kept."""
        self._memory.clear()
        self._probed = set()

    def state(self) -> EditorState:
        """Return the edits, and the facts that their probes ask for."""
        state = self._memory.state()
        return EditorState(state.tensors, {**state.record, "probed": [list(key) for key in sorted(self._probed)]})

    def load_state(self, state: EditorState) -> None:
        """Load the edits."""
        self._memory.load_state(state)
        self._probed = {tuple(key) for key in state.record["probed"]}

    def memory(self) -> EditorState:
        """Return the edits, and the known facts for demonstrations."""
        state = self.state()
        return EditorState(state.tensors, {**state.record, "known_facts": known_rows(self._known)})

    def load_memory(self, memory: EditorState) -> None:
        """Load edits and known facts."""
        self.prepare(known_of(memory.record["known_facts"]), advance=ignore)
        self.load_state(memory)

    def _prefix(self, index: int) -> Prefix:
        """The prefix for one edit: demonstrations, the nearest one last, then the edit."""
        edit = self._memory.edits[index]
        ranked = (self._known[row] for row in self._known_index.ranking(self._memory.vector(index)))
        free = (fact for fact in ranked if self._probed.isdisjoint(keys_of_known(fact)))
        return Prefix(
            (*reversed(self._demonstrations(free)), PrefixPart(self._stated(edit.question, edit.answer), edit.case_id))
        )

    def _demonstrations(self, ranked: Iterator[KnownFact]) -> list[PrefixPart]:
        """Demonstrations from the nearest usable facts, best first; `ranked` is consumed only as far as needed."""
        near = list(islice(ranked, 2 * self.settings.k))
        chosen, beyond = near[: self.settings.k], near[self.settings.k :]
        targets = self._other_answers(chosen, chain(near, ranked))
        parts = []
        for index, (fact, target) in enumerate(zip(chosen, targets, strict=True)):
            other = beyond[index % len(beyond)] if beyond else chosen[index - 1]
            asked = {
                "copy": (fact.question, target),
                "update": (fact.rephrase or fact.question, target),
                "retain": (other.question, other.answer),
            }
            pair = asked[_KINDS[index % len(_KINDS)]]
            parts.append(PrefixPart(self._stated(fact.question, target), pair=pair, ending="\n\n"))
        return parts

    def _other_answers(self, facts: Sequence[KnownFact], ranked: Iterable[KnownFact]) -> list[str]:
        """Another answer for each fact: that of the nearest fact of the same relation with a different answer.

        These make the facts new to the model. A fact that is the only one of its relation keeps its answer.
        """
        found: dict[KnownFact, str] = {}
        missing = [fact for fact in facts if len(self._answers[fact.fact.property]) > 1]
        for other in ranked:
            if not missing:
                break
            same = [fact for fact in missing if fact.fact.property == other.fact.property]
            found |= {fact: other.answer for fact in same if fact.answer != other.answer}
            missing = [fact for fact in missing if fact not in found]
        return [found.get(fact, fact.answer) for fact in facts]

    def _stated(self, question: str, answer: str) -> str:
        """Statement of a new fact, and the start of the prompt after it."""
        return f"{self._before}{question} {answer}{self._between}"
