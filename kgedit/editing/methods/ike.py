"""`ike`: the model stays as it is; demonstrations of obeying a new fact go ahead of every prompt (IKE).

A demonstration states a fact with a changed answer and then asks: the same again (copy), the same in other words
(update), or something else, which keeps its own answer (retain). After them comes the edit itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kgedit.editing.contract import Advance, Applied, Capabilities, Editor, Prefix, State
from kgedit.editing.settings import Bounds, setting
from kgedit.editing.text_index import EMBEDDER_MEANING, TextIndex
from kgedit.llm.contexts import Context, read_template
from kgedit.llm.language_model import LanguageModel
from kgedit.records.cases import Case, KnownFact
from kgedit.resources import data_folder

_KINDS = ("copy", "retain", "update", "retain", "update", "retain", "update", "retain")
"""1 copy to 3 update to 4 retain, dealt out again and again from the nearest demonstration on."""


@dataclass(frozen=True, slots=True)
class IkeSettings:
    """Hyperparameters of in-context editing."""

    k: int = setting(16, "demonstrations ahead of an edit", bounds=Bounds(least=0))
    embedder: str = setting("all-minilm-l6-v2", EMBEDDER_MEANING)


@dataclass(frozen=True, slots=True)
class _Edit:
    """A remembered edit; `probed` are the (subject, property) pairs that its probes ask for."""

    case_id: str
    question: str
    answer: str
    probed: tuple[tuple[str, str], ...]


class InContextEditing(Editor[IkeSettings]):
    """Puts the demonstrations nearest to the edit, then the edit, ahead of every prompt, locality probes too.

    With one edit, as published, every prompt carries that one; with several, each prompt carries the edit whose
    question is nearest to its own. Demonstrations come from the facts of the older snapshot; those that any probe of
    an edit asks for are left out, since they would tell the answer.
    """

    capabilities = Capabilities(
        protocols=("single", "sequential", "per_timestep"),
        changes_prompt=True,
        needs_known_facts=True,
        source="IKE, arXiv 2305.12740",
    )
    settings_type = IkeSettings
    method = "ike"

    def __init__(self, model: LanguageModel, settings: IkeSettings, *, asked: Sequence[Context], seed: int) -> None:
        super().__init__(model, settings, asked=asked, seed=seed)
        before, _, after = read_template(data_folder("prompts") / "memory" / "new_fact.txt").partition("{fact}")
        self._before, self._between = before, after.partition("{prompt}")[0]
        self._edits: list[_Edit] = []
        self._index = TextIndex(settings.embedder, device=str(model.device))
        self._known: list[KnownFact] = []
        self._known_index = TextIndex(settings.embedder, device=str(model.device))

    def prepare(self, known: Sequence[KnownFact], *, advance: Advance) -> None:  # noqa: ARG002 - the contract's shape
        """Index the facts from which demonstrations are made."""
        self._known = list(dict.fromkeys(known)) if self.settings.k else []
        self._known_index.clear()
        self._known_index.add([fact.question for fact in self._known])

    def apply(self, cases: Sequence[Case]) -> Applied:
        """Remember the cases."""
        self._index.add([case.question for case in cases])
        self._edits += [_Edit(case.case_id, case.question, case.answer, _probed(case)) for case in cases]
        return Applied()

    def prefixes(self, questions: Sequence[str]) -> list[Prefix]:
        """Demonstrations and the nearest edit for each question."""
        if not self._edits:
            return super().prefixes(questions)
        rows = [found[0] for found in self._index.nearest(questions, k=1)]
        texts = dict(zip(sorted(set(rows)), self._texts(sorted(set(rows))), strict=True))
        return [Prefix(texts[row], (self._edits[row].case_id,)) for row in rows]

    def restore(self) -> None:
        """Forget every edit; the known facts stay."""
        self._edits = []
        self._index.clear()

    def state(self) -> State:
        """The edits."""
        return State(record={"edits": [[e.case_id, e.question, e.answer, list(e.probed)] for e in self._edits]})

    def load_state(self, state: State) -> None:
        """Take the edits over."""
        self._edits = [
            _Edit(case_id, question, answer, tuple((subject, relation) for subject, relation in probed))
            for case_id, question, answer, probed in state.record["edits"]
        ]
        self._index.clear()
        self._index.add([edit.question for edit in self._edits])

    def _texts(self, rows: Sequence[int]) -> list[str]:
        """The whole text ahead of a prompt, for each of these edits."""
        told = {pair for edit in self._edits for pair in edit.probed}
        near = self._known_index.nearest([self._edits[row].question for row in rows], k=len(self._known_index))
        texts = []
        for row, ranked in zip(rows, near, strict=True):
            edit = self._edits[row]
            free = [self._known[place] for place in ranked if _asks(self._known[place]) not in told]
            # The nearest demonstration stands last, next to the edit.
            shown = [f"{text}\n\n" for text in reversed(self._demonstrations(free))]
            texts.append("".join(shown) + self._told(edit.question, edit.answer))
        return texts

    def _demonstrations(self, ranked: Sequence[KnownFact]) -> list[str]:
        chosen, beyond = ranked[: self.settings.k], ranked[self.settings.k :]
        texts = []
        for place, fact in enumerate(chosen):
            target = _other_answer(fact, ranked)
            other = beyond[place % len(beyond)] if beyond else chosen[place - 1]
            asked = {
                "copy": f"{fact.question} {target}",
                "update": f"{fact.rephrase or fact.question} {target}",
                "retain": f"{other.question} {other.answer}",
            }
            texts.append(self._told(fact.question, target) + asked[_KINDS[place % len(_KINDS)]])
        return texts

    def _told(self, question: str, answer: str) -> str:
        """A new fact and the beginning of a prompt."""
        return f"{self._before}{question} {answer}{self._between}"


def _probed(case: Case) -> tuple[tuple[str, str], ...]:
    facts = [case.fact, *(fact for probe in case.probes for fact in probe.facts)]
    return tuple(dict.fromkeys((fact.subject, fact.property) for fact in facts))


def _asks(known: KnownFact) -> tuple[str, str]:
    return known.fact.subject, known.fact.property


def _other_answer(fact: KnownFact, ranked: Sequence[KnownFact]) -> str:
    """The answer of the nearest fact of the same relation that has another one, so that the fact is new to a model."""
    same = (other.answer for other in ranked if other.fact.property == fact.fact.property)
    return next((answer for answer in same if answer != fact.answer), fact.answer)
