"""Share of the gold answer's tokens that were arg max under teacher forcing; flatters, see Mirage, section 4."""

from __future__ import annotations

from kgedit.metrics.contract import Metric
from kgedit.records.runs import Answer


def _judge(answer: Answer, before: str | None) -> float | None:  # noqa: ARG001 - the signature of every metric
    return answer.token_match


TOKEN_MATCH = Metric(
    name="token_match",
    minimum=0.0,
    maximum=1.0,
    higher_is_better=True,
    formula="gold tokens predicted by arg max, given the gold tokens before them / gold tokens",
    citation="Yang et al. 2025, The Mirage of Model Editing, section 4 and table 2 (synthetic, match ratio)",
    generation="teacher_forcing",
    judge=_judge,
)
