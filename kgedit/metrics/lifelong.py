"""Scores specific to runs over several timesteps, and to retrieval methods."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kgedit.metrics.judged import EXPIRES, FIRST_HOP, SECOND_HOP, SECOND_HOP_KNOWN, AnswerGroup, Judged
from kgedit.records.cases import AXES, TWO_HOP_AXES, Axis
from kgedit.records.runs import ModelState
from kgedit.records.scores import Retention, RetrievalScore


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
                rows.append(_summary(axis, preset, matrix))
    return rows


def _cell(group: Judged | None) -> float | None:
    return None if group is None else mean_of_lasting(group)


def _summary(axis: Axis, preset: str, matrix: tuple[tuple[float | None, ...], ...]) -> Retention:
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
