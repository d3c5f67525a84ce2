"""Whether the text contains the correct answer; lenient, because lists and contradictions also count as correct."""

from __future__ import annotations

from kgedit.metrics.containment import contains
from kgedit.metrics.contract import Earlier, Metric
from kgedit.records.runs import Answer


def _judge(answer: Answer, before: Earlier | None) -> float:  # noqa: ARG001 - the signature of every metric
    return float(contains(answer.text, answer.answers[0]))


CONTAINS = Metric(
    name="contains",
    minimum=0.0,
    maximum=1.0,
    higher_is_better=True,
    formula="1 if the text has the words of the gold answer in a row, without case, accents and punctuation, else 0",
    citation="Mallen et al. 2023, When Not to Trust Language Models (accuracy on PopQA; there without word borders)",
    generation="free",
    judge=_judge,
)
