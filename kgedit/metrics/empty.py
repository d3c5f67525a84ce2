"""Empty answers: their share distinguishes a format that the model does not follow from missing knowledge."""

from __future__ import annotations

from kgedit.metrics.contract import Earlier, Metric
from kgedit.records.runs import Answer


def _judge(answer: Answer, before: Earlier | None) -> float:  # noqa: ARG001 - the signature of every metric
    return float(not answer.text.strip())


EMPTY = Metric(
    name="empty",
    minimum=0.0,
    maximum=1.0,
    higher_is_better=False,
    formula="1 if nothing but white space is left of the text, else 0",
    citation="kgedit 2026 (an instruct model ends a raw prompt at once)",
    generation="free",
    judge=_judge,
)
