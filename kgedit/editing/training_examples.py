"""Training examples from cases: the edit's question in one or more contexts, and its target."""

from __future__ import annotations

from collections.abc import Sequence

from kgedit.llm.contexts import Context
from kgedit.records.cases import Case


def examples(cases: Sequence[Case], contexts: Sequence[Context]) -> list[tuple[str, str]]:
    """(prompt, answer) for every case in every context, case by case."""
    return [(context.prompt(case.question), case.answer) for case in cases for context in contexts]
