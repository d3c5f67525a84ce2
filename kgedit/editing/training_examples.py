"""Training examples from cases: the edit's question in one or more contexts, and its target."""

from __future__ import annotations

from collections.abc import Sequence

from kgedit.errors import SpecError
from kgedit.hparams.settings import PRESETS
from kgedit.llm.contexts import Context, read_context
from kgedit.records.cases import Case


def training_contexts(choice: str, contexts: Sequence[Context]) -> list[Context]:
    """The contexts that a `context` setting stands for, without repetition."""
    if choice != PRESETS:
        return [read_context(choice)]
    if not contexts:
        raise SpecError(["settings.context is 'presets', but the run has no presets"])
    return list(dict.fromkeys(contexts))


def examples(cases: Sequence[Case], contexts: Sequence[Context]) -> list[tuple[str, str]]:
    """(prompt, answer) for every case in every context, case by case."""
    return [(context.prompt(case.question), case.answer) for case in cases for context in contexts]
