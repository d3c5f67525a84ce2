"""Whether the text contains any accepted answer: the gold one or an alias of its item."""

from __future__ import annotations

from kgedit.metrics.contract import Earlier, Metric
from kgedit.metrics.normalization import comparable
from kgedit.records.runs import Answer


def _judge(answer: Answer, before: Earlier | None) -> float:  # noqa: ARG001 - the signature of every metric
    pairs = (comparable(answer.text, accepted) for accepted in answer.answers if accepted.strip())
    return float(any(f" {gold} " in f" {text} " for text, gold in pairs))


CONTAINS_ANY = Metric(
    name="contains_any",
    minimum=0.0,
    maximum=1.0,
    higher_is_better=True,
    formula="1 if the words of any normalized accepted answer stand in a row in the normalized text, else 0",
    citation="Mallen et al. 2023, When Not to Trust Language Models (accuracy on PopQA, over all aliases)",
    generation="free",
    judge=_judge,
)
