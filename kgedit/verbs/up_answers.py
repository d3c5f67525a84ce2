"""Verbatim answers of the models of `up`: the old answers that they knew, and a few examples before and after.

Everything is read from the runs' answers under their free preset; correctness does not affect the choice of examples.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kgedit.analysis.cells import Estimate
from kgedit.analysis.runs import Run
from kgedit.clustered_statistics import clustered_interval
from kgedit.metrics import METRICS
from kgedit.records.answer_table import case_hash
from kgedit.records.runs import UNEDITED, Answer, ModelState, Preset
from kgedit.runs.run_files import old_answers, read_answers

EXAMPLES = 3
"""Number of questions whose answers are shown."""

Key = tuple[str, str]
"""Timestep and id of a case."""


@dataclass(frozen=True, slots=True)
class AnswerPair:
    """Answers of one model to a question.

    Attributes:
        model: Name of the model.
        method: Name of the editing method.
        before: Free answer before any edit.
        after: Free answer after the timestep's edits.
        right: Whether `after` is right by the metric of the preset.
    """

    model: str
    method: str
    before: str
    after: str
    right: bool


@dataclass(frozen=True, slots=True)
class AnsweredUpdate:
    """One update question with its answers.

    Attributes:
        question: Question text.
        target: Answer that the edit should produce.
        old_answers: Answers that were correct before; empty if the subject had no value.
        answers: One per run that has the case.
    """

    question: str
    target: str
    old_answers: tuple[str, ...]
    answers: tuple[AnswerPair, ...]


@dataclass(frozen=True, slots=True)
class UpdateAnswers:
    """Free answers of a run to its update questions, by case.

    Attributes:
        run: The run.
        preset: Free preset of the answers.
        before: Answers of the unedited model.
        after: Answers after all edits of the case's timestep.
    """

    run: Run
    preset: Preset
    before: Mapping[Key, Answer]
    after: Mapping[Key, Answer]

    @property
    def old_answers(self) -> dict[Key, tuple[str, ...]]:
        """Answers that were correct before the edit, for cases that have some."""
        known = old_answers(self.run.cases)
        return {key: old for key in self.before if (old := known.get(case_hash(*key)))}

    def is_right(self, answer: Answer) -> bool:
        """Whether an answer has the best value of the preset's metric."""
        metric = METRICS[self.preset.metric]
        return metric.judge(answer, None) == (metric.maximum if metric.higher_is_better else metric.minimum)


def read_update_answers(run: Run, preset: Preset) -> UpdateAnswers:
    """Read the answers of a run under one preset, without those of other model states."""
    before: dict[Key, Answer] = {}
    after: dict[Key, Answer] = {}
    for answer in read_answers(run.folder):
        if (answer.axis, answer.preset) != ("update", preset.name):
            continue
        key = (answer.timestep, answer.case_id)
        if answer.model_state == UNEDITED:
            before[key] = answer
        elif answer.model_state == ModelState(answer.timestep):
            after[key] = answer
    return UpdateAnswers(run, preset, before, after)


def old_answers_known(answers: UpdateAnswers) -> Estimate | None:
    """Share of cases with an old answer for which the unedited model gave it.

    None if no case has an old answer, or the preset's metric does not measure correctness.
    """
    old = answers.old_answers
    if not old or not METRICS[answers.preset.metric].of_correctness:
        return None
    asked = [answers.before[key] for key in old]
    known = [
        any(answers.is_right(replace(answer, answers=(text,))) for text in old[answer.timestep, answer.case_id])
        for answer in asked
    ]
    values = np.array(known, dtype=np.float64)
    relations = {relation: number for number, relation in enumerate(dict.fromkeys(answer.relation for answer in asked))}
    clusters = np.array([relations[answer.relation] for answer in asked], dtype=np.int64)
    low, high = clustered_interval(values, clusters) or (None, None)
    return Estimate(float(values.mean()), low, high, len(values))


def choose_examples(runs: Sequence[UpdateAnswers], *, seed: int) -> list[AnsweredUpdate]:
    """Draw some cases by the seed from those that every run edited, with each run's answers.

    If the runs have no case in common, cases of the first run are drawn.
    """
    if not runs:
        return []
    of_first = [key for key in runs[0].before if key in runs[0].after]
    common = [key for key in of_first if all(key in run.before and key in run.after for run in runs)]
    keys = sorted(common or of_first)
    drawn = random.Random(f"examples {seed}").sample(keys, min(EXAMPLES, len(keys)))
    old = runs[0].old_answers
    return [
        AnsweredUpdate(
            question=runs[0].before[key].question,
            target=runs[0].before[key].answers[0],
            old_answers=old.get(key, ()),
            answers=tuple(_pairs(runs, key)),
        )
        for key in drawn
    ]


def _pairs(runs: Sequence[UpdateAnswers], key: Key) -> Iterator[AnswerPair]:
    for one in runs:
        if key in one.before and key in one.after:
            before, after = one.before[key], one.after[key]
            yield AnswerPair(
                one.run.model, one.run.spec.method, before.text.strip(), after.text.strip(), one.is_right(after)
            )
