"""Answers of a run as arrays, the input of comparisons, breakdowns and two-hop tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgedit.analysis.runs import Run
from kgedit.analysis.tables import Estimate
from kgedit.clustered_statistics import Floats, Integers, clustered_interval
from kgedit.records.cases import Axis
from kgedit.records.scores import SHARE, EvaluationStage, MetricScale

Hashes = np.ndarray[Any, np.dtype[np.uint64]]
Booleans = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True)
class JudgedQuestions:
    """Answers to one kind of question at one stage, ordered by question.

    Attributes:
        questions: Hashes of the questions, ascending.
        values: Scores by the preset's own metric, or another column of answers.parquet.
        relations: Property of each question.
    """

    questions: Hashes
    values: Floats
    relations: np.ndarray[Any, np.dtype[np.str_]]

    @property
    def estimate(self) -> Estimate | None:
        """Mean of the values as a share."""
        return estimate_of(self.values, self.relations)


def rows_of(run: Run, stage: EvaluationStage, axis: Axis, preset: str) -> pa.Table:
    """Rows of answers.parquet at one stage, over all timesteps."""
    return run.answers.filter(
        (pc.field("stage") == stage) & (pc.field("axis") == axis) & (pc.field("preset") == preset)
    )


def judged_questions(
    run: Run, stage: EvaluationStage, axis: Axis, preset: str, *, column: str = "value"
) -> JudgedQuestions:
    """Return the answers that have a value.

    Args:
        column: Column of answers.parquet; "value" is the preset's own metric.
    """
    return judged_rows(rows_of(run, stage, axis, preset), column=column)


def judged_rows(rows: pa.Table, *, column: str = "value") -> JudgedQuestions:
    """Rows of answers.parquet that have a value, one per question; booleans become 1 and 0."""
    rows = rows.filter(pc.field(column).is_valid()).sort_by("question")
    return JudgedQuestions(
        rows["question"].to_numpy(),
        rows[column].cast(pa.float64()).to_numpy(),
        np.array(rows["relation"].to_pylist(), dtype=np.str_),
    )


def mean_over_runs(several: Sequence[JudgedQuestions]) -> JudgedQuestions:
    """Mean over runs for each question that all of them answered."""
    common = common_questions(several)
    same = [at_questions(item, common) for item in several]
    return JudgedQuestions(common, np.mean([item.values for item in same], axis=0), same[0].relations)


def hashes_in(rows: pa.Table, column: str = "case") -> Hashes:
    """Hashes in a column of a table of answers or cases."""
    hashes: Hashes = rows[column].to_numpy()
    return hashes


def common_questions(several: Sequence[JudgedQuestions]) -> Hashes:
    """Questions in all of the given results, ascending."""
    found = several[0].questions
    for other in several[1:]:
        found = np.intersect1d(found, other.questions, assume_unique=True)
    return found


def at_questions(judged: JudgedQuestions, questions: Hashes) -> JudgedQuestions:
    """Select the given questions, all of which must be present."""
    index = np.searchsorted(judged.questions, questions)
    return JudgedQuestions(questions, judged.values[index], judged.relations[index])


def numbered(names: np.ndarray[Any, Any]) -> Integers:
    """Index of each name in the sorted distinct names, used as cluster id."""
    return np.unique(names, return_inverse=True)[1].astype(np.int64) if len(names) else np.zeros(0, dtype=np.int64)


def estimate_of(values: Floats, relations: np.ndarray[Any, Any], scale: MetricScale = SHARE) -> Estimate | None:
    """Mean and 95 % interval, clustered by relation; None if there are no values."""
    if not len(values):
        return None
    low, high = interval_of(values, numbered(relations), scale) or (None, None)
    return Estimate(float(values.mean()), low, high, len(values))


def estimates_by(rows: pa.Table, names: Sequence[str], scale: MetricScale) -> dict[str, Estimate]:
    """Mean and interval of the answers, grouped by name.

    Args:
        rows: Rows of answers.parquet; rows without a value are ignored.
        names: One per row.
    """
    values = rows["value"].to_numpy(zero_copy_only=False).astype(np.float64)
    relations = np.array(rows["relation"].to_pylist(), dtype=np.str_)
    named, judged = np.array(names, dtype=np.str_), ~np.isnan(values)
    found = {str(name): judged & (named == name) for name in np.unique(named)}
    estimates = {name: estimate_of(values[chosen], relations[chosen], scale) for name, chosen in found.items()}
    return {name: estimate for name, estimate in estimates.items() if estimate is not None}


def interval_of(values: Floats, clusters: Integers, scale: MetricScale) -> tuple[float, float] | None:
    """95 % interval of the mean of values on a scale."""
    minimum = -math.inf if scale.minimum is None else scale.minimum
    maximum = math.inf if scale.maximum is None else scale.maximum
    return clustered_interval(values, clusters, minimum=minimum, maximum=maximum)
