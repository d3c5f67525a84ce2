"""`prompt`: prepends the facts of the latest call to every prompt as statements; weights do not change (PROMPT)."""

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
from kgedit.hparams.memory_based import PromptSettings
from kgedit.records.cases import Case
from kgedit.records.runs import EditFailure


class Prompting(Editor[PromptSettings]):
    """States the facts of the latest call before every prompt; the next call replaces them.

    The text does not depend on the question: locality probes get the facts too.
    """

    capabilities = Capabilities(
        protocols=("single", "sequential", "per_timestep"),
        changes_prompt=True,
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
