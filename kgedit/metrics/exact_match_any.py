"""Exact match with an accepted answer: the gold answer or an alias of its item."""

from __future__ import annotations

from kgedit.metrics.contract import Earlier, Metric
from kgedit.metrics.normalization import comparable
from kgedit.records.runs import Answer


def _judge(answer: Answer, before: Earlier | None) -> float:  # noqa: ARG001 - the signature of every metric
    pairs = (comparable(answer.text, accepted) for accepted in answer.answers)
    return float(any(text == gold for text, gold in pairs))


EXACT_MATCH_ANY = Metric(
    name="exact_match_any",
    minimum=0.0,
    maximum=1.0,
    higher_is_better=True,
    formula="1 if normalized text = normalized form of any accepted answer, else 0",
    citation="Joshi et al. 2017, TriviaQA (best match over the aliases of the answer)",
    generation="free",
    judge=_judge,
)
