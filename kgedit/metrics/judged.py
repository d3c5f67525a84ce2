"""Scores answers: reads each answer of a run once and keeps numeric columns, one group per score.

A group is identified by model state, timestep, axis and preset. Texts are not kept, so that a run of millions of
answers fits into memory.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from kgedit.clustered_statistics import Floats, Integers
from kgedit.errors import TimestepError
from kgedit.metrics import METRICS, Earlier, Metric
from kgedit.records.answer_table import SCENARIO_SCORES
from kgedit.records.cases import Axis
from kgedit.records.runs import Answer, ModelState

SIDE_METRICS = (
    "contains",
    "empty",
    "exact_match",
    "exact_match_any",
    "probability",
    "probability_difference",
    "probability_success",
    "token_f1",
    "token_match",
    "bleedover",
    "unchanged",
    *SCENARIO_SCORES,
)
"""Computed in addition to each preset's own metric, wherever they apply."""

FIRST_HOP, SECOND_HOP, SECOND_HOP_KNOWN, EXPIRES = 1, 2, 4, 8
"""Bits of a group's `found`: the case was retrieved; its second hop was retrieved; there is a second hop to retrieve; a
later timestep of the run makes the question outdated.
"""


class AnswerGroup(NamedTuple):
    """Identity of a group of answers."""

    model_state: ModelState
    timestep: str
    axis: Axis
    preset: str


class BeforeKey(NamedTuple):
    """Identity of a question whose answer before any edit is used for comparison."""

    timestep: str
    preset: str
    case_id: str
    question: str


@dataclass(slots=True)
class _Growing:
    metrics: tuple[Metric, ...]
    relations: array[int] = field(default_factory=lambda: array("q"))
    questions: array[int] = field(default_factory=lambda: array("Q"))
    found: array[int] = field(default_factory=lambda: array("b"))
    values: array[float] = field(default_factory=lambda: array("d"))


@dataclass(frozen=True, slots=True)
class Judged:
    """One group of answers as columns, without repeated questions.

    Attributes:
        metrics: Names of the metrics, the preset's own first.
        values: Shape (answers, metrics); NaN if a metric could not be computed.
        clusters: Relation index of each answer, in the order of property ids.
        found: Bits FIRST_HOP, SECOND_HOP, SECOND_HOP_KNOWN and EXPIRES of each answer.
        repeated: Number of answers left out because the same question of the same case already had one.
    """

    metrics: tuple[str, ...]
    values: Floats
    clusters: Integers
    found: Integers
    repeated: int


def judge_answers(
    answers: Iterable[Answer],
    own_metrics: Mapping[str, str],
    *,
    before: Mapping[BeforeKey, Earlier],
    also: Sequence[str] = (),
) -> dict[AnswerGroup, Judged]:
    """Score each answer by its preset's own metric and by the applicable side metrics.

    Args:
        answers: Answers in file order.
        own_metrics: Name of each preset's metric, by preset.
        before: Answers before any edit, for metrics that compare with them.
        also: Names of further metrics, computed wherever they apply.

    Returns:
        Groups in the order of their first answer.

    Raises:
        TimestepError: if an answer's preset is unknown, or its metric does not apply.
    """
    growing: dict[AnswerGroup, _Growing] = {}
    relations: dict[str, int] = {}
    for answer in answers:
        asked = AnswerGroup(answer.model_state, answer.timestep, answer.axis, answer.preset)
        group = growing.get(asked)
        if group is None:
            group = growing[asked] = _Growing(_metrics_for(answer, own_metrics, also))
        earlier = before.get(BeforeKey(answer.timestep, answer.preset, answer.case_id, answer.question))
        for metric in group.metrics:
            value = metric.judge(answer, earlier)
            group.values.append(float("nan") if value is None else value)
        group.relations.append(relations.setdefault(answer.relation, len(relations)))
        group.questions.append(_digest(answer))
        group.found.append(_found(answer))
    # Numbered by name instead of first appearance, so that sums over relations do not depend on the order of the file.
    rank = {relation: index for index, relation in enumerate(sorted(relations))}
    ranks = np.array([rank[relation] for relation in relations], dtype=np.int64)
    return {asked: _columns(group, ranks) for asked, group in growing.items()}


def _metrics_for(answer: Answer, own_metrics: Mapping[str, str], also: Sequence[str]) -> tuple[Metric, ...]:
    if answer.preset not in own_metrics:
        raise TimestepError(
            f"answers.jsonl has the preset '{answer.preset}', which spec.yaml in the same folder does not. "
            "Put back the spec.yaml of this run."
        )
    own = METRICS[own_metrics[answer.preset]]
    if not own.applies_to(answer):
        raise TimestepError(
            f"The preset '{answer.preset}' asks by {answer.generation} on the axis {answer.axis}, which its metric "
            f"{own.name} cannot judge. Choose another metric for the preset in the run spec."
        )
    side = [METRICS[name] for name in dict.fromkeys((*SIDE_METRICS, *also)) if name != own.name]
    return (own, *(metric for metric in side if metric.applies_to(answer)))


def _digest(answer: Answer) -> int:
    text = f"{answer.case_id}\0{answer.question}".encode()
    # 64 bits: two of a million questions are equal with a probability of 3e-8.
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")


def _found(answer: Answer) -> int:
    bits = FIRST_HOP if answer.has_retrieved(answer.case_id) else 0
    if answer.second_case_id is not None:
        bits |= SECOND_HOP_KNOWN | (SECOND_HOP if answer.has_retrieved(answer.second_case_id) else 0)
    return bits | (EXPIRES if answer.expires is not None else 0)


def _columns(group: _Growing, ranks: Integers) -> Judged:
    _, first = np.unique(np.array(group.questions, dtype=np.uint64), return_index=True)
    # np.unique orders by digest; the answers keep their own order.
    rows = np.sort(first)
    values = np.array(group.values, dtype=np.float64).reshape(-1, len(group.metrics))
    return Judged(
        metrics=tuple(metric.name for metric in group.metrics),
        values=values[rows],
        clusters=ranks[np.array(group.relations, dtype=np.int64)[rows]],
        found=np.array(group.found, dtype=np.int64)[rows],
        repeated=len(values) - len(rows),
    )


def pool(groups: list[Judged]) -> Judged:
    """Combine groups with the same metrics into one."""
    return Judged(
        metrics=groups[0].metrics,
        values=np.concatenate([group.values for group in groups]),
        clusters=np.concatenate([group.clusters for group in groups]),
        found=np.concatenate([group.found for group in groups]),
        repeated=sum(group.repeated for group in groups),
    )
