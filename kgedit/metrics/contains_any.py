"""Whether the text contains an accepted answer: the gold answer or an alias of its item."""

from __future__ import annotations

from kgedit.metrics.containment import contains
from kgedit.metrics.contract import Earlier, Metric
from kgedit.records.runs import Answer


def _judge(answer: Answer, before: Earlier | None) -> float:  # noqa: ARG001 - the signature of every metric
    return float(any(contains(answer.text, accepted) for accepted in answer.answers))


CONTAINS_ANY = Metric(
    name="contains_any",
    minimum=0.0,
    maximum=1.0,
    higher_is_better=True,
    formula="1 if the text has the words of any accepted answer in a row, as contains compares them, else 0",
    citation="Mallen et al. 2023, When Not to Trust Language Models (accuracy on PopQA, over all aliases)",
    generation="free",
    judge=_judge,
)
