"""Exact match with the gold answer, after normalization."""

from __future__ import annotations

from kgedit.metrics.contract import Earlier, Metric
from kgedit.metrics.normalization import comparable
from kgedit.records.runs import Answer


def _judge(answer: Answer, before: Earlier | None) -> float:  # noqa: ARG001 - the signature of every metric
    text, gold = comparable(answer.text, answer.answers[0])
    return float(text == gold)


EXACT_MATCH = Metric(
    name="exact_match",
    minimum=0.0,
    maximum=1.0,
    higher_is_better=True,
    formula="1 if normalized text = normalized gold answer, else 0",
    citation="Rajpurkar et al. 2016, SQuAD; WILD-em of Yang et al. 2025, The Mirage of Model Editing",
    generation="any",
    judge=_judge,
)
