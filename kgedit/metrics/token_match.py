"""Share of the gold answer's tokens generated at the same index; inflated by teacher forcing (Mirage, section 4)."""

from __future__ import annotations

from kgedit.metrics.contract import Earlier, Metric
from kgedit.records.runs import Answer


def _judge(answer: Answer, before: Earlier | None) -> float | None:  # noqa: ARG001 - the signature of every metric
    return answer.token_match


TOKEN_MATCH = Metric(
    name="token_match",
    minimum=0.0,
    maximum=1.0,
    higher_is_better=True,
    formula="gold tokens that stand at their index among those generated (fed: predicted by arg max) / gold tokens",
    citation="Yang et al. 2025, The Mirage of Model Editing, section 4 and tables 2, 4 and 5 (match ratio)",
    generation="any",
    judge=_judge,
)
