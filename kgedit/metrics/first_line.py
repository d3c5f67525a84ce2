"""Exact match of the first line, for answers that are not truncated at a newline."""

from __future__ import annotations

from kgedit.metrics.contract import Earlier, Metric
from kgedit.metrics.normalization import comparable
from kgedit.records.runs import Answer


def _judge(answer: Answer, before: Earlier | None) -> float:  # noqa: ARG001 - the signature of every metric
    text, gold = comparable(answer.text.strip().partition("\n")[0], answer.answers[0].strip().partition("\n")[0])
    return float(text == gold)


FIRST_LINE = Metric(
    name="first_line",
    minimum=0.0,
    maximum=1.0,
    higher_is_better=True,
    formula="1 if the normalized first line of the text = the normalized gold answer, else 0",
    citation="Gao et al. 2024, A Framework for Few-Shot Language Model Evaluation (generation up to a newline)",
    generation="free",
    judge=_judge,
)
