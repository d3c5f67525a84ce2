"""Finished runs as a report sees them: what was run, and what was measured."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kgedit.records.cases import Axis
from kgedit.records.runs import PROTOCOLS, RunSpec
from kgedit.records.scores import EvaluationStage, RunScores, Score


@dataclass(frozen=True, slots=True)
class Run:
    """One finished run.

    Attributes:
        folder: Where it lies.
        spec: What was asked for.
        scores: What was measured.
    """

    folder: Path
    spec: RunSpec
    scores: RunScores

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

    def questions_per_second(self, preset: str) -> float | None:
        """How fast questions were answered under a preset; None if they took no time or there were none."""
        for speed in self.scores.speed:
            if speed.preset == preset and speed.seconds:
                return speed.questions / speed.seconds
        return None

    def pooled(self, stage: EvaluationStage, axis: Axis, preset: str) -> dict[str, Score]:
        """Scores over all timesteps together, by metric, the preset's own first."""
        return {
            score.metric: score
            for score in self.scores.scores
            if (score.stage, score.timestep, score.axis, score.preset) == (stage, None, axis, preset)
        }


def in_report_order(runs: Iterable[Run]) -> list[Run]:
    """Runs in the order in which every report shows them: model, method, protocol, edits, timesteps, seed, folder."""
    return sorted(runs, key=_sort_key)


def _sort_key(run: Run) -> tuple[str, str, int, int, tuple[str, ...], int, str]:
    protocol, edits = PROTOCOLS.index(run.spec.protocol), run.scores.edits.edits
    return run.model, run.spec.method, protocol, edits, run.scores.timesteps, run.spec.seed, str(run.folder)
