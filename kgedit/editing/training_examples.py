"""Training examples from cases: the edit's question in one or more contexts, and its target."""

from __future__ import annotations

from collections.abc import Sequence

from kgedit.llm.contexts import Context
from kgedit.records.cases import Case


def examples(cases: Sequence[Case], contexts: Sequence[Context]) -> list[tuple[str, str]]:
    """Build (prompt, answer) pairs for every case in every context, case by case."""
    return [(context.prompt(case.question), case.answer) for case in cases for context in contexts]


def smaller_batch(batch: int, *, count: int, epochs: int, least_steps: int) -> int:
    """Number of examples per step: `batch`, or fewer so that all epochs over `count` examples have `least_steps`."""
    return min(batch, max(1, count * epochs // least_steps)) if least_steps else batch
