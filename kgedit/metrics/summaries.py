"""Scores of a whole run: retention over timesteps, retrieval, agreement with the judge, general ability, and costs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median

import numpy as np

from kgedit.clustered_statistics import Floats, Integers, clustered_interval
from kgedit.metrics.judged import EXPIRES, FIRST_HOP, SECOND_HOP, SECOND_HOP_KNOWN, AnswerGroup, Judged, pool
from kgedit.records.cases import AXES, TWO_HOP_AXES, Axis
from kgedit.records.runs import UNEDITED, AbilityMeasurement, Answer, ModelState, TaskMeasurement
from kgedit.records.scores import AbilityScore, Agreement, Retention, RetrievalScore, Speed, TaskScore


def mean_of_lasting(group: Judged) -> float | None:
    """Mean of the preset's own metric over questions that no later timestep makes outdated; None if none was scored.

    All rows of a column therefore cover the same questions.
    """
    values = group.values[(group.found & EXPIRES) == 0, 0]
    judged = values[~np.isnan(values)]
    return round(float(judged.mean()), 6) if len(judged) else None


def retention(
    groups: Mapping[AnswerGroup, Judged], *, learned: list[str], timesteps: list[str], presets: list[str]
) -> list[Retention]:
    """Accuracy matrix of each axis and preset.

    Args:
        groups: Scored answers.
        learned: Timesteps in the order in which they were edited; the rows.
        timesteps: The same, followed by evaluated timesteps without edits; the columns.
        presets: Presets, in the order of the result.
    """
    if len(learned) < 2:
        return []
    rows = []
    for axis in AXES:
        for preset in presets:
            matrix = tuple(
                tuple(
                    _cell(groups.get(AnswerGroup(ModelState(last), timestep, axis, preset))) for timestep in timesteps
                )
                for last in learned
            )
            if any(cell is not None for row in matrix for cell in row):
                rows.append(_retention(axis, preset, matrix))
    return rows


def _cell(group: Judged | None) -> float | None:
    return None if group is None else mean_of_lasting(group)


def _retention(axis: Axis, preset: str, matrix: tuple[tuple[float | None, ...], ...]) -> Retention:
    forgotten, transferred = [], []
    last = len(matrix) - 1
    for column in range(last):
        final, own = matrix[last][column], matrix[column][column]
        if final is None or own is None:
            continue
        earlier = [value for row in matrix[column:last] if (value := row[column]) is not None]
        forgotten.append(max(earlier) - final)
        transferred.append(final - own)
    return Retention(
        axis=axis,
        preset=preset,
        matrix=matrix,
        forgetting=round(sum(forgotten) / len(forgotten), 6) if forgotten else None,
        backward_transfer=round(sum(transferred) / len(transferred), 6) if transferred else None,
    )


def retrieval(asked: AnswerGroup, group: Judged) -> RetrievalScore:
    """Share of the group's questions for which the needed facts were retrieved."""
    first = (group.found & FIRST_HOP) > 0
    known = (group.found & SECOND_HOP_KNOWN) > 0
    second = (group.found & SECOND_HOP) > 0
    two_hops = asked.axis in TWO_HOP_AXES
    complete = (first & second)[known] if two_hops else first
    values = (group.values[known] if two_hops else group.values)[complete, 0]
    values = values[~np.isnan(values)]
    return RetrievalScore(
        last_timestep=asked.model_state.timestep or "",
        timestep=asked.timestep,
        axis=asked.axis,
        preset=asked.preset,
        n=len(first),
        first_hop=round(float(first.mean()), 6),
        second_hop=round(float(second[known].mean()), 6) if known.any() else None,
        both_hops=round(float(complete.mean()), 6) if known.any() else None,
        accuracy_when_found=round(float(values.mean()), 6) if len(values) else None,
    )


RULES = ("exact_match", "exact_match_any", "first_line", "contains", "contains_any", "single_answer", "token_f1")
"""Metrics with a right or wrong verdict; those by which the run was scored are used."""


RIGHT_FROM = 0.5
"""Minimum value of a right answer; all rules except token_f1 are 0 or 1."""


def cohens_kappa(one: Sequence[bool], other: Sequence[bool]) -> float | None:
    """Agreement beyond chance: (observed - expected) / (1 - expected); None if either input is constant.

    Source: Cohen 1960, A Coefficient of Agreement for Nominal Scales.
    """
    first, second = np.asarray(one, dtype=bool), np.asarray(other, dtype=bool)
    if len({*first.tolist()}) < 2 or len({*second.tolist()}) < 2:
        return None
    expected = first.mean() * second.mean() + (1 - first.mean()) * (1 - second.mean())
    return float(((first == second).mean() - expected) / (1 - expected))


def agreements(groups: Mapping[AnswerGroup, Judged], presets: Sequence[str]) -> tuple[Agreement, ...]:
    """Each rule against the judge, over all answers of a preset; empty if no answers were judged."""
    found = []
    for preset in presets:
        # Each axis has its own metrics, so only axes with the same metrics can be pooled.
        by_metrics: dict[tuple[str, ...], list[Judged]] = {}
        for asked, group in groups.items():
            if asked.preset == preset and "judge" in group.metrics:
                by_metrics.setdefault(group.metrics, []).append(group)
        pooled = [pool(same) for same in by_metrics.values()]
        for rule in RULES:
            pairs = [_pairs(group, rule) for group in pooled if rule in group.metrics]
            if pairs and len(values := np.concatenate([values for values, _ in pairs])):
                relations = np.concatenate([clusters for _, clusters in pairs])
                found.append(_agreement(preset, rule, values, relations))
    return tuple(found)


def _pairs(group: Judged, rule: str) -> tuple[Floats, Integers]:
    """Answers judged by both: values of judge and rule, shape (answers, 2), and the relation of each answer."""
    columns = group.values[:, [group.metrics.index("judge"), group.metrics.index(rule)]]
    both = ~np.isnan(columns).any(axis=1)
    return columns[both], group.clusters[both]


def _agreement(preset: str, rule: str, values: Floats, relations: Integers) -> Agreement:
    right = values >= RIGHT_FROM
    same = (right[:, 0] == right[:, 1]).astype(np.float64)
    low, high = clustered_interval(same, relations) or (None, None)
    kappa = cohens_kappa(right[:, 0].tolist(), right[:, 1].tolist())
    return Agreement(
        preset=preset,
        rule=rule,
        n=len(right),
        share=round(float(same.mean()), 6),
        low=None if low is None else round(low, 6),
        high=None if high is None else round(high, 6),
        kappa=None if kappa is None else round(kappa, 6),
    )


def ability_scores(measurements: Iterable[AbilityMeasurement]) -> tuple[AbilityScore, ...]:
    """One score per model state and text, in the order of the first measurement."""
    groups: dict[tuple[ModelState, str], list[AbilityMeasurement]] = {}
    for measurement in measurements:
        groups.setdefault((measurement.model_state, measurement.text_sha256), []).append(measurement)
    return tuple(_ability_score(group) for group in groups.values())


def _ability_score(group: list[AbilityMeasurement]) -> AbilityScore:
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


@dataclass(slots=True)
class _Totals:
    questions: int = 0
    cached: int = 0
    seconds: float = 0.0
    prompt_tokens: int = 0
    new_tokens: int = 0


@dataclass(slots=True)
class AskingCosts:
    """Accumulates costs over the answers of a run."""

    _totals: dict[tuple[str, bool], _Totals] = field(default_factory=dict)

    def add(self, answer: Answer) -> None:
        """Add one answer; an answer that took no time is from the cache, and its tokens cost nothing."""
        totals = self._totals.setdefault((answer.preset, answer.model_state != UNEDITED), _Totals())
        if answer.seconds == 0:
            totals.cached += 1
            return
        totals.questions += 1
        totals.seconds += answer.seconds
        totals.prompt_tokens += answer.prompt_tokens
        totals.new_tokens += answer.new_tokens

    def speeds(self, presets: Sequence[str]) -> tuple[Speed, ...]:
        """Speed of each preset, before and then after editing; only where questions were evaluated."""
        return tuple(
            Speed(
                preset=preset,
                edited=edited,
                questions=totals.questions,
                cached=totals.cached,
                seconds=round(totals.seconds, 6),
                prompt_tokens=totals.prompt_tokens,
                new_tokens=totals.new_tokens,
            )
            for preset in presets
            for edited in (False, True)
            if (totals := self._totals.get((preset, edited)))
        )
