"""BERTScore, computed by an encoder in `kgedit score --metric bertscore`; this module only reads the values."""

from __future__ import annotations

import math
from functools import partial
from typing import Literal

from kgedit.metrics.contract import Earlier, Metric
from kgedit.records.runs import Answer, JudgedAnswer

NAMES = ("bertscore", "bertscore_precision", "bertscore_recall")
"""Names of the metrics in this file."""

_SOURCE = "Zhang et al. 2020, BERTScore: Evaluating Text Generation with BERT, section 3"


def _judge(
    answer: Answer,
    before: Earlier | None,  # noqa: ARG001 - the signature of every metric
    *,
    part: Literal["precision", "recall", "f1"],
) -> float | None:
    found = answer.bertscore if isinstance(answer, JudgedAnswer) else None
    if found is None:
        return None
    return {"precision": found.precision, "recall": found.recall, "f1": found.f1}[part]


def _metric(name: str, part: Literal["precision", "recall", "f1"], formula: str) -> Metric:
    return Metric(
        name=name,
        minimum=-math.inf,  # rescaling with a baseline close to 1 can give scores far below 0
        maximum=1.0,
        higher_is_better=True,
        formula=f"{formula}; of several accepted answers the nearest by F1",
        citation=_SOURCE,
        generation="free",
        of_correctness=False,
        afterwards=True,
        judge=partial(_judge, part=part),
    )


BERTSCORE = _metric(NAMES[0], "f1", "F1 = 2PR / (P + R) of BERTScore's precision and recall")
BERTSCORE_PRECISION = _metric(
    NAMES[1], "precision", "mean, over the text's tokens, of the highest cosine with a token of the accepted answer"
)
BERTSCORE_RECALL = _metric(
    NAMES[2], "recall", "mean, over the accepted answer's tokens, of the highest cosine with a token of the text"
)
