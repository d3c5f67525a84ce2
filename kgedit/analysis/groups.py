"""Groups of comparable runs: same cases, model, training format and evaluation.

A method without training has no training format, so its runs belong to every group of their cases and model. Means over
models are taken over runs with the same cases and evaluation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kgedit.analysis.runs import Run
from kgedit.records.runs import Preset


@dataclass(frozen=True, slots=True)
class RunGroup:
    """Comparable runs.

    Attributes:
        runs: In report order.
        train_context: Training format of all runs; None if none of them trains anything.
    """

    runs: tuple[Run, ...]
    train_context: str | None


def comparable_groups(runs: Sequence[Run]) -> list[RunGroup]:
    """Comparable groups, in the order of their first runs."""
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
    """Group runs with the same cases and evaluation, regardless of model, method and training format.

    With `only_failed`, each model has different cases; those selected from the same sample belong together.
    """
    return _partition(runs, lambda one, other: choice_of(one) == choice_of(other))


def choice_of(run: Run) -> object:
    """Key of the edited cases: the cases themselves, or with `only_failed` the sample from which they were selected."""
    spec = run.spec
    if not spec.only_failed:
        return run.scores.cases_sha256
    seed = None if spec.sample is None else spec.seed
    return run.scores.timesteps, spec.limit, spec.sample, spec.stratify, spec.population, spec.only_cases, seed


def _partition(runs: Sequence[Run], alike: Callable[[Run, Run], bool]) -> list[list[Run]]:
    """Partition into groups of similar runs, split further if a preset's name means different things."""
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
