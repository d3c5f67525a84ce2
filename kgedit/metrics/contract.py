"""Definition of a metric."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from kgedit.records.cases import AXES, Axis
from kgedit.records.runs import Answer
from kgedit.records.scores import MetricScale


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
