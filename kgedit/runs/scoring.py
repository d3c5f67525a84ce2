"""A run folder measured: answers.jsonl, edits.jsonl and prepared.json in, scores.json out."""

from __future__ import annotations

from pathlib import Path

import msgspec

from kgedit.files import replace_file
from kgedit.metrics.scores import score_answers
from kgedit.records.scores import RunScores
from kgedit.runs.run_files import answers_sha256, read_answers, read_edit_costs, read_preparation, read_spec


def measure_run(run_folder: Path) -> RunScores:
    """All that scores.json holds.

    Raises:
        BenchmarkError: if the folder is no run, or a line of its files cannot be read.
    """
    spec = read_spec(run_folder)
    return score_answers(
        lambda: read_answers(run_folder),
        spec.presets,
        answers_sha256=answers_sha256(run_folder),
        train_context=spec.train_context,
        costs=read_edit_costs(run_folder),
        preparation=read_preparation(run_folder),
    )


def write_scores(run_folder: Path) -> Path:
    """Measure a run and write scores.json, aside first and then renamed.

    Raises:
        BenchmarkError: as measure_run.
    """
    scores = measure_run(run_folder)
    return replace_file(run_folder / "scores.json", msgspec.json.format(msgspec.json.encode(scores), indent=1) + b"\n")
