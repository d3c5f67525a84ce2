"""Computes the scores of a run: every metric of every group, with intervals, and scores over the whole run.

The latter are retention over timesteps, retrieval, agreement with the judge, general ability, and costs. Scores are
deterministic for the same answers.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, median

import numpy as np

from kgedit.clustered_statistics import INTERVAL_METHOD, Floats, Integers, clustered_interval
from kgedit.metrics import METRICS, Earlier
from kgedit.metrics.answer_table import stage_of
from kgedit.metrics.judged import (
    EXPIRES,
    FIRST_HOP,
    SECOND_HOP,
    SECOND_HOP_KNOWN,
    AnswerGroup,
    BeforeKey,
    Judged,
    judge_answers,
    pool,
)
from kgedit.metrics.probability import SCORED_SCENARIOS
from kgedit.records.cases import AXES, LOCALITY_AXES, TWO_HOP_AXES, Axis
from kgedit.records.runs import (
    UNEDITED,
    AbilityMeasurement,
    Answer,
    EditCost,
    ModelState,
    Preparation,
    Preset,
    TaskMeasurement,
)
from kgedit.records.scores import (
    POOLED_STAGES,
    AbilityScore,
    Agreement,
    EditTotals,
    Encoding,
    EvaluationStage,
    Judging,
    Retention,
    RetrievalScore,
    RunScores,
    Score,
    Speed,
    TaskScore,
)


def score_answers(
    read_answers: Callable[[], Iterable[Answer]],
    presets: Sequence[Preset],
    *,
    answers_sha256: str,
    train_context: str | None,
    costs: Iterable[EditCost],
    preparation: Preparation | None,
    ability: Iterable[AbilityMeasurement] = (),
    ability_tasks: Iterable[TaskMeasurement] = (),
    also: Sequence[str] = (),
    judging: Judging | None = None,
    encoding: Encoding | None = None,
) -> RunScores:
    """Compute all scores of a run.

    Args:
        read_answers: Returns the run's answers in file order; called twice, so that they need not fit into memory.
        presets: Presets of the run.
        answers_sha256: Hash of the answers file.
        train_context: Format that edits were trained in; None means a method without training.
        costs: Costs of the run's edits.
        preparation: Preparation before the first edit; None if the run has not got that far.
        ability: Measurements of general ability.
        ability_tasks: Measurements of general ability by tasks of lm-evaluation-harness.
        also: Names of metrics to compute in addition to the presets' own and the side metrics.
        judging: Origin of the answers' verdicts; None if they have none.
        encoding: Origin of the answers' BERTScores; None if they have none.

    Raises:
        TimestepError: if an answer's preset is unknown or its metric does not apply.
    """
    survey = _Survey(read_answers())
    own_metrics = {preset.name: preset.metric for preset in presets}
    groups = judge_answers(read_answers(), own_metrics, before=survey.before, also=also)
    names = list(own_metrics)
    groups = dict(sorted(groups.items(), key=lambda item: survey.sort_key(item[0], names)))
    scores = [
        score
        for asked, group in groups.items()
        for score in _scores(survey.stage(asked), asked.model_state, asked.timestep, asked=asked, group=group)
    ]
    return RunScores(
        answers_sha256=answers_sha256,
        cases_sha256=survey.cases_sha256,
        train_context=train_context,
        also=tuple(also),
        answers=sum(len(group.values) for group in groups.values()),
        repeated=sum(group.repeated for group in groups.values()),
        intervals=INTERVAL_METHOD,
        scales={name: METRICS[name].scale for name in sorted({score.metric for score in scores})},
        timesteps=tuple(survey.timesteps),
        scores=tuple(scores + _pooled(groups, survey, names)),
        retention=tuple(retention(groups, learned=survey.learned, timesteps=survey.timesteps, presets=names)),
        retrieval=_retrievals(groups) if survey.retrieves else (),
        speed=survey.costs.speeds(names),
        edits=_edit_totals(costs, preparation),
        judging=judging and replace(judging, agreement=agreements(groups, names)),
        encoding=encoding,
        ability=ability_scores(ability),
        ability_tasks=task_scores(ability_tasks),
    )


class _Survey:
    """Properties of all answers that are needed before any can be scored, collected in one pass.

    Attributes:
        before: Answers before any edit, on the axes where unchanged answers are scored.
        cases_sha256: Hash of the timesteps and ids of all cases, in order.
        learned: Timesteps in the order in which they were edited.
        timesteps: The same, followed by evaluated timesteps without edits.
        retrieves: Whether facts were retrieved for any answer.
        costs: Costs of evaluation.
    """

    def __init__(self, answers: Iterable[Answer]) -> None:
        self.before: dict[BeforeKey, Earlier] = {}
        self.costs = AskingCosts()
        self.retrieves = False
        learned: dict[str, None] = {}
        asked: set[str] = set()
        cases: set[str] = set()
        for answer in answers:
            asked.add(answer.timestep)
            cases.add(f"{answer.timestep}\t{answer.case_id}")
            self.retrieves = self.retrieves or bool(answer.retrieved)
            if answer.model_state.timestep is not None:
                learned[answer.model_state.timestep] = None
            else:
                _remember(answer, self.before)
            self.costs.add(answer)
        self.cases_sha256 = hashlib.sha256("\n".join(sorted(cases)).encode()).hexdigest()
        self.learned = list(learned)
        self.timesteps = self.learned + sorted(asked - set(learned))

    def stage(self, asked: AnswerGroup) -> EvaluationStage:
        """Stage at which a group's questions were evaluated."""
        return stage_of(asked.model_state, asked.timestep, self.timesteps)

    def belongs(self, asked: AnswerGroup, stage: EvaluationStage) -> bool:
        """Whether a group is part of a pooled stage."""
        if stage == "final":
            return bool(self.learned) and asked.model_state == ModelState(self.learned[-1])
        return self.stage(asked) == stage

    def covers_all_learned(self, groups: list[AnswerGroup]) -> bool:
        """Whether these groups cover all of several edited timesteps; with one timestep, "final" would repeat "own"."""
        return len(self.learned) > 1 and {asked.timestep for asked in groups} >= set(self.learned)

    def sort_key(self, asked: AnswerGroup, presets: list[str]) -> tuple[int, ...]:
        """Sort key of a group: last timestep, its edits (all of them last), timestep, axis, preset."""
        state = asked.model_state
        last = -1 if state.timestep is None else self.timesteps.index(state.timestep)
        timestep = self.timesteps.index(asked.timestep)
        preset = presets.index(asked.preset)
        edits = (1, 0) if state.edits is None else (0, state.edits)
        return last, *edits, timestep, AXES.index(asked.axis), preset


def answers_before(answers: Iterable[Answer]) -> dict[BeforeKey, Earlier]:
    """Answers of the unedited model needed for comparison: locality, and scenarios with separate scores."""
    before: dict[BeforeKey, Earlier] = {}
    for answer in answers:
        if answer.model_state.timestep is None:
            _remember(answer, before)
    return before


def _remember(answer: Answer, before: dict[BeforeKey, Earlier]) -> None:
    if answer.axis in LOCALITY_AXES or answer.scenario in SCORED_SCENARIOS:
        key = BeforeKey(answer.timestep, answer.preset, answer.case_id, answer.question)
        earlier = Earlier(
            text=answer.text,
            probability=answer.probability,
            old_probability=answer.old_probability,
            static_probability=answer.static_probability,
            alternative_probability=answer.alternative_probability,
            highest_alternative=answer.highest_alternative,
        )
        before.setdefault(key, earlier)


def _scores(
    stage: EvaluationStage, model_state: ModelState | None, timestep: str | None, *, asked: AnswerGroup, group: Judged
) -> list[Score]:
    scores = []
    for index, metric in enumerate(group.metrics):
        judged = ~np.isnan(group.values[:, index])
        values, clusters = group.values[judged, index], group.clusters[judged]
        if not len(values):
            continue
        kind = METRICS[metric]
        interval = clustered_interval(values, clusters, minimum=kind.minimum, maximum=kind.maximum)
        scores.append(
            Score(
                stage=stage,
                model_state=model_state,
                timestep=timestep,
                axis=asked.axis,
                preset=asked.preset,
                metric=metric,
                main=index == 0,
                n=len(values),
                relations=len(np.unique(clusters)),
                mean=round(float(values.mean()), 6),
                low=None if interval is None else round(interval[0], 6),
                high=None if interval is None else round(interval[1], 6),
            )
        )
    return scores


def _pooled(groups: Mapping[AnswerGroup, Judged], survey: _Survey, presets: list[str]) -> list[Score]:
    scores = []
    for stage in POOLED_STAGES:
        for axis in AXES:
            for preset in presets:
                chosen = [
                    asked
                    for asked in groups
                    if (asked.axis, asked.preset) == (axis, preset) and survey.belongs(asked, stage)
                ]
                if chosen and (stage != "final" or survey.covers_all_learned(chosen)):
                    everything = pool([groups[asked] for asked in chosen])
                    scores += _scores(stage, None, None, asked=chosen[0], group=everything)
    return scores


def _retrievals(groups: Mapping[AnswerGroup, Judged]) -> tuple[RetrievalScore, ...]:
    return tuple(
        retrieval(asked, group)
        for asked, group in groups.items()
        if asked.model_state.timestep is not None
        and asked.model_state.edits is None
        and asked.axis not in LOCALITY_AXES
    )


def _edit_totals(costs: Iterable[EditCost], preparation: Preparation | None) -> EditTotals:
    applied: set[tuple[str, str]] = set()
    given: set[tuple[str, str]] = set()
    calls, seconds, cpu_seconds, edits_given, peak = 0, 0.0, 0.0, 0, 0
    for cost in costs:
        cases = {(cost.timestep, case_id) for case_id in cost.case_ids}
        given |= cases
        applied |= cases - {(cost.timestep, failure.case_id) for failure in cost.failures}
        calls += 1
        seconds += cost.seconds
        cpu_seconds += cost.cpu_seconds
        edits_given += len(cost.case_ids)
        peak = max(peak, cost.peak_memory_bytes)
    return EditTotals(
        edits=len(applied),
        failed=len(given - applied),
        calls=calls,
        seconds=round(seconds, 6),
        cpu_seconds=round(cpu_seconds, 6),
        edits_given=edits_given,
        peak_memory_bytes=peak,
        preparation_seconds=preparation.seconds if preparation else 0.0,
    )


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
