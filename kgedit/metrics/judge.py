"""Verdict of a judge, requested by `kgedit score --metric judge`; this module only reads it."""

from __future__ import annotations

from kgedit.metrics.contract import Earlier, Metric
from kgedit.records.runs import Answer, JudgedAnswer


def _judge(answer: Answer, before: Earlier | None) -> float | None:  # noqa: ARG001 - the signature of every metric
    right = answer.right if isinstance(answer, JudgedAnswer) else None
    return None if right is None else float(right)


JUDGE = Metric(
    name="judge",
    minimum=0.0,
    maximum=1.0,
    higher_is_better=True,
    formula="1 if a language model that is shown question, accepted answers and text calls the text correct, else 0",
    citation="Yang et al. 2025, The Mirage of Model Editing, section 3 (LLM-as-a-judge)",
    generation="free",
    of_correctness=False,
    afterwards=True,
    judge=_judge,
)
