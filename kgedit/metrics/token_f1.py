"""F1 of the words shared by text and gold answer."""

from __future__ import annotations

from collections import Counter

from kgedit.metrics.contract import Earlier, Metric
from kgedit.metrics.normalization import comparable
from kgedit.records.runs import Answer


def _judge(answer: Answer, before: Earlier | None) -> float:  # noqa: ARG001 - the signature of every metric
    text, gold = (form.split() for form in comparable(answer.text, answer.answers[0]))
    shared = (Counter(text) & Counter(gold)).total()
    # 2PR / (P + R) with P = shared / |text| and R = shared / |gold|, which is 0 / 0 if no words are shared.
    return 2 * shared / (len(text) + len(gold)) if shared else 0.0


TOKEN_F1 = Metric(
    name="token_f1",
    minimum=0.0,
    maximum=1.0,
    higher_is_better=True,
    formula="2 |text ∩ gold| / (|text| + |gold|) over bags of normalized words",
    citation="Rajpurkar et al. 2016, SQuAD",
    generation="free",
    judge=_judge,
)
