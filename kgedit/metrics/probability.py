"""Probabilities measured by teacher forcing, and the metrics derived from them: WikiFactDiff's table 7.

P(o | c) is exp of the mean log-probability of o's tokens after c. Efficacy is difference and success on the axis
update, generalization the same on rephrase and personas, bleedover the loss of locality answers: k-nearest neighbours
on the axis locality, random ones on random_locality.
"""

from __future__ import annotations

from kgedit.metrics.contract import Earlier, Metric
from kgedit.records.cases import LOCALITY_AXES, Axis
from kgedit.records.runs import UNEDITED, Answer

_CITATION = "Ammar Khodja et al. 2024, WikiFactDiff, section 5 and table 7"
_ASKS_FOR_THE_EDIT: tuple[Axis, ...] = ("update", "rephrase", "personas")


def _probability(answer: Answer, before: Earlier | None) -> float | None:  # noqa: ARG001 - the signature of every metric
    return answer.probability


def _difference(answer: Answer, before: Earlier | None) -> float | None:  # noqa: ARG001 - the signature of every metric
    if answer.probability is None or answer.old_probability is None:
        return None
    return answer.probability - answer.old_probability


def _success(answer: Answer, before: Earlier | None) -> float | None:
    difference = _difference(answer, before)
    return None if difference is None else float(difference > 0)


def _bleedover(answer: Answer, before: Earlier | None) -> float | None:
    if before is None or before.probability is None or answer.probability is None or answer.model_state == UNEDITED:
        return None
    return max(0.0, before.probability - answer.probability)


PROBABILITY = Metric(
    name="probability",
    minimum=0.0,
    maximum=1.0,
    higher_is_better=True,
    formula="P(gold | prompt) = exp(mean log-probability of the gold answer's tokens)",
    citation=_CITATION,
    generation="teacher_forcing",
    of_correctness=False,
    judge=_probability,
)

PROBABILITY_DIFFERENCE = Metric(
    name="probability_difference",
    minimum=-1.0,
    maximum=1.0,
    higher_is_better=True,
    formula="D = P(new answer | prompt) - P(old answer | prompt), of several old answers the likeliest",
    citation=_CITATION,
    generation="teacher_forcing",
    axes=_ASKS_FOR_THE_EDIT,
    of_correctness=False,
    judge=_difference,
)

PROBABILITY_SUCCESS = Metric(
    name="probability_success",
    minimum=0.0,
    maximum=1.0,
    higher_is_better=True,
    formula="S = 1 if P(new answer | prompt) > P(old answer | prompt), of several old answers the likeliest, else 0",
    citation=_CITATION,
    generation="teacher_forcing",
    axes=_ASKS_FOR_THE_EDIT,
    of_correctness=False,
    judge=_success,
)

BLEEDOVER = Metric(
    name="bleedover",
    minimum=0.0,
    maximum=1.0,
    higher_is_better=False,
    formula="max(0, P before any edit - P now) of a neighbour's own answer, given the same prompt",
    citation=_CITATION,
    generation="teacher_forcing",
    axes=LOCALITY_AXES,
    of_correctness=False,
    judge=_bleedover,
)
