"""Runs that may be ranked together: of the same cases and model, trained in the same format, asked in the same ways.

A method that trains nothing has no training format, so its run belongs to every group of its cases and its model. Means
over models are taken over runs of the same cases that were asked in the same ways.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kgedit.analysis.runs import Run
from kgedit.records.runs import Preset


@dataclass(frozen=True, slots=True)
class RunGroup:
    """Runs that compare.

    Attributes:
        runs: In the order of reports.
        train_context: The format that all of them were trained in; None where none of them trains anything.
    """

    runs: tuple[Run, ...]
    train_context: str | None


def comparable_groups(runs: Sequence[Run]) -> list[RunGroup]:
    """The groups of some runs, in the order of the first run of each."""
    groups: list[RunGroup] = []
    for same in _partition(runs, _same_cases):
        formats: list[str | None] = list(
            dict.fromkeys(run.spec.train_context for run in same if run.spec.train_context)
        )
        for train_context in formats or [None]:
            chosen = tuple(run for run in same if run.spec.train_context in (None, train_context))
            groups.append(RunGroup(chosen, train_context))
    return groups


def groups_over_models(runs: Sequence[Run]) -> list[list[Run]]:
    """Runs of the same cases asked in the same ways, whatever their model, method and training format.

    With `only_failed` each model has other cases; those that were chosen from the same draw belong together.
    """
    return _partition(runs, lambda one, other: choice_of(one) == choice_of(other))


def choice_of(run: Run) -> object:
    """What decides which cases a run edits: the cases themselves, or with `only_failed` the draw they were left of."""
    spec = run.spec
    if not spec.only_failed:
        return run.scores.cases_sha256
    seed = None if spec.sample is None else spec.seed
    return run.scores.timesteps, spec.limit, spec.sample, spec.stratify, spec.population, spec.only_cases, seed


def _partition(runs: Sequence[Run], alike: Callable[[Run, Run], bool]) -> list[list[Run]]:
    """Runs that are alike, apart where a name of a preset means different things."""
    parts: list[list[Run]] = []
    for run in runs:
        part = next((part for part in parts if alike(part[0], run) and _same_presets(part, run)), None)
        if part is None:
            parts.append([run])
        else:
            part.append(run)
    return parts


def _same_cases(one: Run, other: Run) -> bool:
    return (one.spec.model, one.scores.cases_sha256) == (other.spec.model, other.scores.cases_sha256)


def _same_presets(part: Sequence[Run], run: Run) -> bool:
    known: dict[str, Preset] = {preset.name: preset for own in part for preset in own.spec.presets}
    return all(known.get(preset.name, preset) == preset for preset in run.spec.presets)
