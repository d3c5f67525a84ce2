"""Metrics: their definition, and the registry METRICS; scores.py applies them to the answers of a run."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from kgedit.records.cases import AXES, Axis
from kgedit.records.runs import Answer
from kgedit.records.scores import MetricScale
from kgedit.registry import Registry


@dataclass(frozen=True, slots=True)
class Earlier:
    """The unedited model's answer to the same question under the same preset; fields as in Answer."""

    text: str
    probability: float | None = None
    old_probability: float | None = None
    static_probability: float | None = None
    alternative_probability: float | None = None
    highest_alternative: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """Score of one answer, with everything needed to interpret its mean.

    Attributes:
        name: Name in the registry.
        minimum: Lowest possible value.
        maximum: Highest possible value.
        higher_is_better: Whether higher values are better.
        formula: Formula, in words or symbols.
        citation: Source of the definition.
        generation: "teacher_forcing" (the gold answer is fed), "free" (decoding) or "any".
        axes: Axes to which the metric applies.
        judge: Value of one answer, given the same question's answer before any edit (None if it was not evaluated
            then); None if the answer cannot be scored.
        of_correctness: Whether the gold answer gets the best value; not the case for properties of the text and for
            probabilities.
        afterwards: Whether it needs more than the answer, so that it cannot be computed during the run.
    """

    name: str
    minimum: float
    maximum: float
    higher_is_better: bool
    formula: str
    citation: str
    generation: Literal["teacher_forcing", "free", "any"]
    judge: Callable[[Answer, Earlier | None], float | None]
    axes: tuple[Axis, ...] = AXES
    of_correctness: bool = True
    afterwards: bool = False

    @property
    def scale(self) -> MetricScale:
        """Range and direction, as recorded with scores."""
        minimum, maximum = (end if math.isfinite(end) else None for end in (self.minimum, self.maximum))
        return MetricScale(minimum=minimum, maximum=maximum, higher_is_better=self.higher_is_better)

    def judges(self, generation: str) -> bool:
        """Whether it applies to answers generated in this way."""
        forced = generation == "teacher_forcing"
        return self.generation == "any" or forced == (self.generation == "teacher_forcing")

    def applies_to(self, answer: Answer) -> bool:
        """Whether it applies to the answer's axis and generation."""
        return self.judges(answer.generation) and answer.axis in self.axes


METRICS: Registry[Metric] = Registry(
    "metric",
    {
        "archive_drop": "kgedit.metrics.probability:ARCHIVE_DROP",
        "archived": "kgedit.metrics.probability:ARCHIVED",
        "bertscore": "kgedit.metrics.text:BERTSCORE",
        "bertscore_precision": "kgedit.metrics.text:BERTSCORE_PRECISION",
        "bertscore_recall": "kgedit.metrics.text:BERTSCORE_RECALL",
        "bleedover": "kgedit.metrics.probability:BLEEDOVER",
        "contains": "kgedit.metrics.text:CONTAINS",
        "contains_any": "kgedit.metrics.text:CONTAINS_ANY",
        "empty": "kgedit.metrics.text:EMPTY",
        "exact_match": "kgedit.metrics.text:EXACT_MATCH",
        "exact_match_any": "kgedit.metrics.text:EXACT_MATCH_ANY",
        "first_line": "kgedit.metrics.text:FIRST_LINE",
        "fluency": "kgedit.metrics.text:FLUENCY",
        "gain": "kgedit.metrics.probability:GAIN",
        "judge": "kgedit.metrics.text:JUDGE",
        "ngram_entropy": "kgedit.metrics.text:NGRAM_ENTROPY",
        "preferred": "kgedit.metrics.probability:PREFERRED",
        "probability": "kgedit.metrics.probability:PROBABILITY",
        "probability_difference": "kgedit.metrics.probability:PROBABILITY_DIFFERENCE",
        "probability_success": "kgedit.metrics.probability:PROBABILITY_SUCCESS",
        "replaced": "kgedit.metrics.probability:REPLACED",
        "rouge_1": "kgedit.metrics.text:ROUGE_1",
        "rouge_2": "kgedit.metrics.text:ROUGE_2",
        "rouge_l": "kgedit.metrics.text:ROUGE_L",
        "single_answer": "kgedit.metrics.text:SINGLE_ANSWER",
        "static_loss": "kgedit.metrics.probability:STATIC_LOSS",
        "token_f1": "kgedit.metrics.text:TOKEN_F1",
        "token_match": "kgedit.metrics.text:TOKEN_MATCH",
        "unchanged": "kgedit.metrics.text:UNCHANGED",
    },
    group="kgedit.metrics",
)
