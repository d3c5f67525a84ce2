"""Locality as identity with the unedited model's answer, whether correct or not."""

from __future__ import annotations

from kgedit.metrics.contract import Earlier, Metric
from kgedit.records.cases import LOCALITY_AXES
from kgedit.records.runs import UNEDITED, Answer


def _judge(answer: Answer, before: Earlier | None) -> float | None:
    return None if before is None or answer.model_state == UNEDITED else float(answer.text == before.text)


UNCHANGED = Metric(
    name="unchanged",
    minimum=0.0,
    maximum=1.0,
    higher_is_better=True,
    formula="1 if text = text before any edit to the same question under the same preset, else 0",
    citation="Yang et al. 2025, The Mirage of Model Editing (locality: same output before and after)",
    generation="any",
    axes=LOCALITY_AXES,
    judge=_judge,
)
