"""What every metric states about itself."""

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
    """What the unedited model said to the same question under the same preset; the fields are those of an Answer."""

    text: str
    probability: float | None = None
    old_probability: float | None = None
    static_probability: float | None = None
    alternative_probability: float | None = None
    highest_alternative: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A judgement of one answer, and all that a reader of its mean must know.

    Attributes:
        name: Its name in the registry.
        minimum: Lowest value.
        maximum: Highest value.
        higher_is_better: Direction.
        formula: In words or symbols.
        citation: Where it is defined.
        generation: "teacher_forcing" (needs the gold answer to be fed), "free" (needs decoding) or "any".
        axes: Axes on which it says something.
        judge: Value for one answer, given the same question's answer before any edit (None where it was not asked);
            None if the answer cannot be judged.
        of_correctness: Whether the gold answer gets the best value; not so of what is measured about a text as such, or
            about probabilities.
        afterwards: Whether it needs more than the answer, so that a run cannot be scored by it while it is made.
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
        """Its range and direction, as recorded with scores."""
        minimum, maximum = (end if math.isfinite(end) else None for end in (self.minimum, self.maximum))
        return MetricScale(minimum=minimum, maximum=maximum, higher_is_better=self.higher_is_better)

    def judges(self, generation: str) -> bool:
        """Whether it can judge answers that were generated in this way."""
        forced = generation == "teacher_forcing"
        return self.generation == "any" or forced == (self.generation == "teacher_forcing")

    def applies_to(self, answer: Answer) -> bool:
        """Whether the answer's axis and way of generation are ones that the metric is made for."""
        return self.judges(answer.generation) and answer.axis in self.axes
