"""Finished runs as a report sees them: what was run, and what was measured."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from kgedit.html_tables import html_table
from kgedit.records.answer_table import ANSWERS, CASES
from kgedit.records.cases import AXES, Axis
from kgedit.records.runs import PROTOCOLS, RunSpec
from kgedit.records.scores import SHARE, EvaluationStage, MetricScale, RunScores, Score


@dataclass(frozen=True, slots=True, repr=False)
class Run:
    """One finished run.

    Attributes:
        folder: Where it lies.
        spec: What was asked for.
        scores: What was measured.
        answers: A row for each answer (kgedit.records.answer_table), what comparisons are made from.
        cases: A row for each edited case; none in runs of earlier versions.
        knowledge_cutoff: Month up to which the model's pretraining texts reach, as YYYY-MM; None where it is not known.
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
        """For notebooks: the main scores over all timesteps, before any edit and right after a timestep's own."""
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
        """Range and direction of a metric; that of shares where the run has no score by it."""
        return self.scores.scales.get(metric, SHARE)

    @property
    def model(self) -> str:
        """The model's name; of a folder only the last part."""
        return self.spec.model.rstrip("/").rpartition("/")[2] or self.spec.model

    @property
    def seconds_per_edit(self) -> float | None:
        """Wall time of the method's calls for each edit given to it; None if there was none."""
        edits = self.scores.edits
        return edits.seconds / edits.edits_given if edits.edits_given else None

    @property
    def cpu_seconds_per_edit(self) -> float | None:
        """Processor time of the method's calls for each edit given to it; None if there was none."""
        edits = self.scores.edits
        return edits.cpu_seconds / edits.edits_given if edits.edits_given else None

    def questions_per_second(self, preset: str, *, edited: bool = True) -> float | None:
        """How fast the model answered under a preset, after editing or before; None if it was asked nothing then."""
        for speed in self.scores.speed:
            if (speed.preset, speed.edited) == (preset, edited) and speed.seconds:
                return speed.questions / speed.seconds
        return None

    def pooled(self, stage: EvaluationStage, axis: Axis, preset: str) -> dict[str, Score]:
        """Scores over all timesteps together, by metric, the preset's own first."""
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
    """Runs in the order in which every report shows them: model, method, protocol, edits, timesteps, seed, folder."""
    return sorted(runs, key=_sort_key)


def _sort_key(run: Run) -> tuple[str, str, int, int, tuple[str, ...], int, str]:
    protocol, edits = PROTOCOLS.index(run.spec.protocol), run.scores.edits.edits
    return run.model, run.spec.method, protocol, edits, run.scores.timesteps, run.spec.seed, str(run.folder)
