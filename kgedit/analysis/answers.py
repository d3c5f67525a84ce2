"""Answers of a run as arrays: what comparisons, breakdowns and two-hop tables are computed from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgedit.analysis.cells import Estimate
from kgedit.analysis.runs import Run
from kgedit.records.cases import Axis
from kgedit.records.scores import EvaluationStage
from kgedit.resampling import Floats, Integers, clustered_interval, interval_within_relation

Hashes = np.ndarray[Any, np.dtype[np.uint64]]
Booleans = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True)
class JudgedQuestions:
    """Answers to one kind of question at one stage, ordered by question.

    Attributes:
        questions: Their hashes, ascending.
        values: By the preset's own metric.
        relations: Property of each.
    """

    questions: Hashes
    values: Floats
    relations: np.ndarray[Any, np.dtype[np.str_]]


def rows_of(run: Run, stage: EvaluationStage, axis: Axis, preset: str) -> pa.Table:
    """Rows of answers.parquet at a stage, over all timesteps."""
    return run.answers.filter(
        (pc.field("stage") == stage) & (pc.field("axis") == axis) & (pc.field("preset") == preset)
    )


def judged_questions(run: Run, stage: EvaluationStage, axis: Axis, preset: str) -> JudgedQuestions:
    """Answers that the preset's own metric could judge."""
    rows = rows_of(run, stage, axis, preset)
    rows = rows.filter(pc.field("value").is_valid()).sort_by("question")
    return JudgedQuestions(
        rows["question"].to_numpy(), rows["value"].to_numpy(), np.array(rows["relation"].to_pylist(), dtype=np.str_)
    )


def common_questions(several: Sequence[JudgedQuestions]) -> Hashes:
    """Questions that all of them answered, ascending."""
    found = several[0].questions
    for other in several[1:]:
        found = np.intersect1d(found, other.questions, assume_unique=True)
    return found


def at_questions(judged: JudgedQuestions, questions: Hashes) -> JudgedQuestions:
    """Only these questions, which must be among them."""
    index = np.searchsorted(judged.questions, questions)
    return JudgedQuestions(questions, judged.values[index], judged.relations[index])


def numbered(names: np.ndarray[Any, Any]) -> Integers:
    """Small integers in the order of names, as clusters."""
    return np.unique(names, return_inverse=True)[1].astype(np.int64) if len(names) else np.zeros(0, dtype=np.int64)


def estimate_of(values: Floats, relations: np.ndarray[Any, Any]) -> Estimate | None:
    """Mean and 95 % interval: bootstrap over relations, or within the relation where there is only one."""
    if not len(values):
        return None
    clusters = numbered(relations)
    interval = clustered_interval(values, clusters) if clusters.max() > 0 else interval_within_relation(values)
    low, high = interval or (None, None)
    return Estimate(float(values.mean()), low, high, len(values))
