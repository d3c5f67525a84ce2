"""Probabilities measured by teacher forcing, and metrics derived from them, for all scenarios of WikiFactDiff.

P(o | c) is exp of the mean log-probability of o's tokens after c. Table 7's efficacy is difference and success on the
axis update, generalization the same on rephrase and personas, bleedover the loss of locality answers: k-nearest
neighbours on the axis locality, random ones on random_locality.

Scenarios other than replacement have no pair of old and new answer. An answer is compared with alternatives instead:
objects of the same relation with similar frequency that are not and were not correct for the subject
(kgedit.timesteps.edit_files.wikifactdiff). docs/reference/metrics.md gives the reasons.
"""

from __future__ import annotations

from collections.abc import Callable

from kgedit.metrics import Earlier, Metric
from kgedit.records.cases import LOCALITY_AXES, Axis
from kgedit.records.runs import UNEDITED, Answer

_CITATION = "Ammar Khodja et al. 2024, WikiFactDiff, section 5 and table 7"
_ASKS_FOR_THE_EDIT: tuple[Axis, ...] = ("update", "rephrase", "personas")


def _probability(answer: Answer, _: Earlier | None) -> float | None:
    return answer.probability


def _difference(answer: Answer, _: Earlier | None) -> float | None:
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


ADDITIONS = ("AddObject", "AddRelation", "AddEntity")
ARCHIVE = "Archive"
SCORED_SCENARIOS = (*ADDITIONS, ARCHIVE)
"""Scenarios that these metrics score by comparison with the answer before any edit."""


_SCENARIO_CITATION = (
    "kgedit 2026 (docs/reference/metrics.md), for the scenarios of WikiFactDiff (Ammar Khodja et al. 2024), section 3"
)


def _gain(answer: Answer, before: Earlier | None) -> float | None:
    now, earlier = answer.probability, _edited_since(answer, before)
    if answer.scenario not in ADDITIONS or now is None or earlier is None or earlier.probability is None:
        return None
    return now - earlier.probability


def _preferred(answer: Answer, _: Earlier | None) -> float | None:
    if answer.scenario not in ADDITIONS or answer.probability is None or answer.highest_alternative is None:
        return None
    return float(answer.probability > answer.highest_alternative)


def _static_loss(answer: Answer, before: Earlier | None) -> float | None:
    now, earlier = answer.static_probability, _edited_since(answer, before)
    if answer.scenario != "AddObject" or now is None or earlier is None or earlier.static_probability is None:
        return None
    return max(0.0, earlier.static_probability - now)


def _archive_drop(answer: Answer, before: Earlier | None) -> float | None:
    earlier = _edited_since(answer, before)
    if answer.scenario != ARCHIVE or earlier is None:
        return None
    stood = _standing(earlier.old_probability, earlier.alternative_probability)
    stands = _standing(answer.old_probability, answer.alternative_probability)
    return None if stood is None or stands is None else stood - stands


def _archived(answer: Answer, _: Earlier | None) -> float | None:
    stands = _standing(answer.old_probability, answer.alternative_probability)
    return None if answer.scenario != ARCHIVE or stands is None else float(stands <= 0.5)


def _replaced(answer: Answer, before: Earlier | None) -> float | None:
    now, earlier = answer.highest_alternative, _edited_since(answer, before)
    if answer.scenario != ARCHIVE or now is None or earlier is None or earlier.highest_alternative is None:
        return None
    return max(0.0, now - earlier.highest_alternative)


def _edited_since(answer: Answer, before: Earlier | None) -> Earlier | None:
    """The answer before any edit; None if the answer itself was given by the unedited model."""
    return None if answer.model_state == UNEDITED else before


def _standing(probability: float | None, alternatives: float | None) -> float | None:
    """P / (P + mean P of the alternatives); 1/2 if it is as likely as the alternatives."""
    if probability is None or alternatives is None or probability + alternatives == 0:
        return None
    return probability / (probability + alternatives)


def _scenario(
    name: str,
    judge: Callable[[Answer, Earlier | None], float | None],
    formula: str,
    *,
    minimum: float = 0.0,
    higher_is_better: bool = True,
) -> Metric:
    return Metric(
        name=name,
        minimum=minimum,
        maximum=1.0,
        higher_is_better=higher_is_better,
        formula=formula,
        citation=_SCENARIO_CITATION,
        generation="teacher_forcing",
        axes=_ASKS_FOR_THE_EDIT,
        of_correctness=False,
        judge=judge,
    )


GAIN = _scenario("gain", _gain, "P of the new answer now - P of it before any edit; added facts only", minimum=-1.0)
PREFERRED = _scenario(
    "preferred", _preferred, "1 if P of the new answer > P of the likeliest alternative, else 0; added facts only"
)
STATIC_LOSS = _scenario(
    "static_loss",
    _static_loss,
    "max(0, mean P of the answers that stay right before any edit - now); AddObject only",
    higher_is_better=False,
)
ARCHIVE_DROP = _scenario(
    "archive_drop",
    _archive_drop,
    "standing of the archived answer before any edit - now, standing = P / (P + mean P of alternatives); Archive only",
    minimum=-1.0,
)
ARCHIVED = _scenario(
    "archived", _archived, "1 if P of the archived answer is not above the mean P of the alternatives; Archive only"
)
REPLACED = _scenario(
    "replaced",
    _replaced,
    "max(0, P of the likeliest alternative now - before any edit): something else took its place; Archive only",
    higher_is_better=False,
)
