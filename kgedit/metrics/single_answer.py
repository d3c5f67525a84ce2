"""Rule closest to manual judgement: one line that contains an accepted answer and does not repeat itself.

Rejects answers that a judge calls wrong although they contain the answer: lists of several answers, repetitive text.
"""

from __future__ import annotations

from collections import Counter

from kgedit.metrics.containment import contains
from kgedit.metrics.contract import Earlier, Metric
from kgedit.metrics.normalization import comparable
from kgedit.records.runs import Answer

_WORDS = 4
_TOO_OFTEN = 3


def _judge(answer: Answer, before: Earlier | None) -> float:  # noqa: ARG001 - the signature of every metric
    pairs = [comparable(answer.text, accepted) for accepted in answer.answers if accepted.strip()]
    if any(text == accepted for text, accepted in pairs):
        return 1.0
    named = any(contains(answer.text, accepted) for accepted in answer.answers)
    return float(named and "\n" not in answer.text.strip() and not _goes_in_circles(answer.text))


def _goes_in_circles(text: str) -> bool:
    words = text.lower().split()
    runs = Counter(zip(*(words[start:] for start in range(_WORDS)), strict=False))
    return max(runs.values(), default=0) >= _TOO_OFTEN


SINGLE_ANSWER = Metric(
    name="single_answer",
    minimum=0.0,
    maximum=1.0,
    higher_is_better=True,
    formula="1 if the text contains any accepted answer, is one line, and holds no four words in a row thrice, else 0",
    citation="kgedit 2026 (docs/evaluation.md: agreement with judgement by hand)",
    generation="free",
    judge=_judge,
)
