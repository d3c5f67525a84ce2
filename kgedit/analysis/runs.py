"""Finished runs as used by reports: spec, scores and answers; and groups of comparable runs.

Runs are comparable if cases, model, training format and evaluation are the same.
A method without training has no training format, so its runs belong to every group of their cases and model. Means over
models are taken over runs with the same cases and evaluation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from kgedit.html_tables import html_table
from kgedit.records.answer_table import ANSWERS, CASES
from kgedit.records.cases import AXES, Axis
from kgedit.records.runs import PROTOCOLS, Preset, RunSpec
from kgedit.records.scores import SHARE, EvaluationStage, MetricScale, RunScores, Score


@dataclass(frozen=True, slots=True, repr=False)
class Run:
    """One finished run.

    Attributes:
        folder: Path of the run's folder.
        spec: Spec of the run.
        scores: All scores.
        answers: One row per answer (kgedit.records.answer_table), used for comparisons.
        cases: One row per edited case; empty for runs of earlier versions.
        knowledge_cutoff: Last month covered by the model's pretraining texts, as YYYY-MM; None if unknown.
    """

    folder: Path
    spec: RunSpec
    scores: RunScores
    answers: pa.Table = field(default_factory=ANSWERS.empty_table, repr=False, compare=False)
    cases: pa.Table = field(default_factory=CASES.empty_table, repr=False, compare=False)
    knowledge_cutoff: str | None = None

    def __repr__(self) -> str:
        edits = self.scores.edits.edits
        return f"<Run of {self.spec.method} on {self.model}: {edits:,} edits, in {str(self.folder)!r}>"

    def _repr_html_(self) -> str:
        """Table for notebooks: main scores over all timesteps, before any edit and after each timestep's own edits."""
        rows = []
        for preset in self.spec.presets:
            for axis in AXES:
                before, after = (self._main_score(stage, axis, preset.name) for stage in ("before", "own"))
                if before or after:
                    shown = (_shown(score, self.scale_of(preset.metric)) for score in (before, after))
                    rows.append((axis, preset.name, preset.metric, *shown))
        title = f"{self.model}, {self.spec.method}, {self.spec.protocol}: {self.scores.edits.edits:,} edits"
        columns = ("axis", "preset", "metric", "before", "after")
        return html_table(title, columns, rows, note=f"Shares in %. Run folder: {self.folder}")

    def _main_score(self, stage: EvaluationStage, axis: Axis, preset: str) -> Score | None:
        return next((score for score in self.pooled(stage, axis, preset).values() if score.main), None)

    def scale_of(self, metric: str) -> MetricScale:
        """Range and direction of a metric; the scale of shares if the run has no score by it."""
        return self.scores.scales.get(metric, SHARE)

    @property
    def model(self) -> str:
        """Name of the model; the last part if it is a folder."""
        return self.spec.model.rstrip("/").rpartition("/")[2] or self.spec.model

    @property
    def seconds_per_edit(self) -> float | None:
        """Wall time of the method's calls per edit; None if there were no edits."""
        edits = self.scores.edits
        return edits.seconds / edits.edits_given if edits.edits_given else None

    @property
    def cpu_seconds_per_edit(self) -> float | None:
        """CPU time of the method's calls per edit; None if there were no edits."""
        edits = self.scores.edits
        return edits.cpu_seconds / edits.edits_given if edits.edits_given else None

    def questions_per_second(self, preset: str) -> float | None:
        """Questions answered per second under a preset after editing; None if there were none."""
        for speed in self.scores.speed:
            if (speed.preset, speed.edited) == (preset, True) and speed.seconds:
                return speed.questions / speed.seconds
        return None

    def pooled(self, stage: EvaluationStage, axis: Axis, preset: str) -> dict[str, Score]:
        """Scores pooled over all timesteps, by metric, the preset's own metric first."""
        return {
            score.metric: score
            for score in self.scores.scores
            if (score.stage, score.timestep, score.axis, score.preset) == (stage, None, axis, preset)
        }


def _shown(score: Score | None, scale: MetricScale) -> str:
    if score is None:
        return ""
    return f"{100 * score.mean:.1f}" if scale.is_share else f"{score.mean:.4g}"


def in_report_order(runs: Iterable[Run]) -> list[Run]:
    """Sort runs in the order of every report: model, method, protocol, edits, timesteps, seed, folder."""
    return sorted(runs, key=_sort_key)


def _sort_key(run: Run) -> tuple[str, str, int, int, tuple[str, ...], int, str]:
    protocol, edits = PROTOCOLS.index(run.spec.protocol), run.scores.edits.edits
    return run.model, run.spec.method, protocol, edits, run.scores.timesteps, run.spec.seed, str(run.folder)


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
