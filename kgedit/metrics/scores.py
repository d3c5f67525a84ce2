"""Computes the scores of a run: every metric of every group, with intervals. Deterministic for the same answers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from kgedit.clustered_statistics import INTERVAL_METHOD, clustered_interval
from kgedit.metrics import METRICS, Earlier
from kgedit.metrics.answer_table import stage_of
from kgedit.metrics.judged import AnswerGroup, BeforeKey, Judged, judge_answers, pool
from kgedit.metrics.probability import SCORED_SCENARIOS
from kgedit.metrics.summaries import AskingCosts, ability_scores, agreements, retention, retrieval, task_scores
from kgedit.records.cases import AXES, LOCALITY_AXES
from kgedit.records.runs import AbilityMeasurement, Answer, EditCost, ModelState, Preparation, Preset, TaskMeasurement
from kgedit.records.scores import (
    POOLED_STAGES,
    EditTotals,
    Encoding,
    EvaluationStage,
    Judging,
    RetrievalScore,
    RunScores,
    Score,
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
