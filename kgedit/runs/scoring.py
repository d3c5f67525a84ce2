"""Scores a run folder: reads answers.jsonl and records of the edits, and writes scores.json and answers.parquet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
import pyarrow.parquet as pq

from kgedit.files import put_in_place, replace_file
from kgedit.metrics.answer_table import answer_table
from kgedit.metrics.scores import answers_before, score_answers
from kgedit.metrics.text import BERTSCORES
from kgedit.records.answer_table import ANSWERS, SCENARIO_SCORES
from kgedit.records.runs import Answer
from kgedit.records.scores import RunScores
from kgedit.runs.bert_scoring import read_bertscores
from kgedit.runs.judging import read_judged_errors, read_verdicts
from kgedit.runs.run_files import (
    answers_sha256,
    forget_run_checksums,
    old_answers,
    read_ability,
    read_ability_tasks,
    read_answers,
    read_edit_costs,
    read_edited_cases,
    read_preparation,
    read_spec,
    write_run_checksums,
)


def measure_run(run_folder: Path, *, also: Sequence[str] = ()) -> RunScores:
    """Compute the content of scores.json.

    Args:
        also: Names of further metrics, in addition to those computed for every run.

    Raises:
        TimestepError: if the folder is not a run, or a line of its files cannot be read.
    """
    spec = read_spec(run_folder)
    verdicts = read_verdicts(run_folder) if "judge" in also else None
    bertscores = read_bertscores(run_folder) if any(name in also for name in BERTSCORES) else None

    def judged_answers() -> Iterable[Answer]:
        answers: Iterable[Answer] = read_answers(run_folder)
        answers = verdicts.on(answers) if verdicts else answers
        return bertscores.on(answers) if bertscores else answers

    return score_answers(
        judged_answers,
        spec.presets,
        answers_sha256=answers_sha256(run_folder),
        train_context=spec.train_context,
        costs=read_edit_costs(run_folder),
        preparation=read_preparation(run_folder),
        ability=read_ability(run_folder),
        ability_tasks=read_ability_tasks(run_folder),
        also=also,
        judging=verdicts.judging_of(read_answers(run_folder)) if verdicts else None,
        encoding=bertscores.encoding_of(read_answers(run_folder)) if bertscores else None,
    )


def write_scores(run_folder: Path, *, also: Sequence[str] = ()) -> Path:
    """Measure a run and write answers.parquet and scores.json atomically, scores.json last.

    Args:
        also: Names of further metrics, in addition to those computed for every run and those of the run's existing
            scores.

    Raises:
        TimestepError: see measure_run.
    """
    path = run_folder / "scores.json"
    scores = measure_run(run_folder, also=tuple(dict.fromkeys((*_scored_before(path), *also))))
    _write_answer_table(run_folder, scores)
    # Before the scores are replaced: a killed process must not leave checksums of other scores.
    forget_run_checksums(run_folder)
    replace_file(path, msgspec.json.format(msgspec.json.encode(scores), indent=1) + b"\n")
    write_run_checksums(run_folder)
    return path


def _write_answer_table(run_folder: Path, scores: RunScores) -> None:
    """Write answers.parquet, which records the answers.jsonl that it was created from."""
    compared = any(score.metric in ("bleedover", "unchanged", *SCENARIO_SCORES) for score in scores.scores)
    batches = answer_table(
        _with_verdicts(run_folder, scores),
        {preset.name: preset.metric for preset in read_spec(run_folder).presets},
        timesteps=scores.timesteps,
        old_answers=old_answers(read_edited_cases(run_folder)),
        before=answers_before(read_answers(run_folder)) if compared else None,
    )
    path, aside = run_folder / "answers.parquet", run_folder / ".answers.parquet.aside"
    schema = ANSWERS.with_metadata({"answers_sha256": scores.answers_sha256})
    with pq.ParquetWriter(aside, schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch.replace_schema_metadata(schema.metadata))
    put_in_place(aside, path)


def _with_verdicts(run_folder: Path, scores: RunScores) -> Iterable[Answer]:
    """The run's answers, with a judge's verdicts that the scores count."""
    answers: Iterable[Answer] = read_answers(run_folder)
    verdicts = read_verdicts(run_folder) if scores.judging else None
    if verdicts is None:
        return answers
    errors = read_judged_errors(run_folder)
    return errors.on(verdicts.on(answers)) if errors else verdicts.on(answers)


class _ScoredBy(msgspec.Struct):
    also: tuple[str, ...] = ()


def _scored_before(path: Path) -> tuple[str, ...]:
    """Additional metrics of an existing scores.json; empty without one, or for one of an earlier version."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=_ScoredBy).also
    except (FileNotFoundError, msgspec.DecodeError):
        return ()
