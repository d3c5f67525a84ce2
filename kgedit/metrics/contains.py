"""Whether the text contains the correct answer; lenient: lists and contradictions count as right."""

from __future__ import annotations

from kgedit.metrics.contract import Earlier, Metric
from kgedit.metrics.normalization import comparable
from kgedit.records.runs import Answer


def _judge(answer: Answer, before: Earlier | None) -> float:  # noqa: ARG001 - the signature of every metric
    text, gold = comparable(answer.text, answer.answers[0])
    # Whole words only: "Iran" is not contained in "Tirana".
    return float(f" {gold} " in f" {text} ")


CONTAINS = Metric(
    name="contains",
    minimum=0.0,
    maximum=1.0,
    higher_is_better=True,
    formula="1 if the words of the normalized gold answer stand in a row in the normalized text, else 0",
    citation="Mallen et al. 2023, When Not to Trust Language Models (accuracy on PopQA; there without word borders)",
    generation="free",
    judge=_judge,
)
