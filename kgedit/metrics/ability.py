"""General ability: measurements of each state of the model as one score."""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import median

from kgedit.records.runs import AbilityMeasurement, ModelState
from kgedit.records.scores import AbilityScore


def ability_scores(measurements: Iterable[AbilityMeasurement]) -> tuple[AbilityScore, ...]:
    """One score for each state and text, in the order of the first measurement."""
    groups: dict[tuple[ModelState, str], list[AbilityMeasurement]] = {}
    for measurement in measurements:
        groups.setdefault((measurement.model_state, measurement.text_sha256), []).append(measurement)
    return tuple(_score(group) for group in groups.values())


def _score(group: list[AbilityMeasurement]) -> AbilityScore:
    return AbilityScore(
        model_state=group[0].model_state,
        text=group[0].text,
        text_sha256=group[0].text_sha256,
        measured=len(group),
        perplexity=_perplexity(median(item.loss for item in group)),
        worst_perplexity=_perplexity(max(item.loss for item in group)),
        bits_per_byte=round(median(item.loss * item.tokens / math.log(2) / item.text_bytes for item in group), 6),
    )


def _perplexity(loss: float) -> float:
    # A destroyed model may have a loss whose exponential no float can hold, and JSON has no infinity.
    return float(f"{math.exp(min(loss, 700.0)):.6g}")
