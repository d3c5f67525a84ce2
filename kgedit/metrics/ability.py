"""General ability: combines the measurements of each model state, by text and by task."""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import fmean, median

from kgedit.records.runs import AbilityMeasurement, ModelState, TaskMeasurement
from kgedit.records.scores import AbilityScore, TaskScore


def ability_scores(measurements: Iterable[AbilityMeasurement]) -> tuple[AbilityScore, ...]:
    """One score per model state and text, in the order of the first measurement."""
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


def task_scores(measurements: Iterable[TaskMeasurement]) -> tuple[TaskScore, ...]:
    """One score per model state, task and metric, in the order of the first measurement."""
    groups: dict[tuple[ModelState, str, str], list[TaskMeasurement]] = {}
    for measurement in measurements:
        groups.setdefault((measurement.model_state, measurement.task, measurement.metric), []).append(measurement)
    return tuple(_task_score(group) for group in groups.values())


def _task_score(group: list[TaskMeasurement]) -> TaskScore:
    first, values = group[0], [item.value for item in group]
    worst = {True: min(values), False: max(values)}
    return TaskScore(
        model_state=first.model_state,
        task=first.task,
        metric=first.metric,
        version=first.version,
        n=first.n,
        measured=len(group),
        value=round(fmean(values), 6),
        error=first.error if len(group) == 1 else None,
        worst=None if first.higher_is_better is None else worst[first.higher_is_better],
    )


def _perplexity(loss: float) -> float:
    # The exponential of a damaged model's loss may overflow a float, and JSON has no infinity.
    return float(f"{math.exp(min(loss, 700.0)):.6g}")
