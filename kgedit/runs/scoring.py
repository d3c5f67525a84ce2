"""Scores a run folder: reads answers.jsonl and records of the edits, and writes scores.json and answers.parquet.

BERTScores of free answers are computed by an encoder before that, and stored in bertscores.jsonl. Each run is measured
separately, including idf, so that its scores do not depend on other runs of the same call.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pyarrow.parquet as pq

from kgedit.files import put_in_place, replace_file
from kgedit.metrics.answer_table import answer_table
from kgedit.metrics.scores import answers_before, score_answers
from kgedit.metrics.text import BERTSCORES
from kgedit.progress import Advance
from kgedit.records.answer_table import ANSWERS, SCENARIO_SCORES
from kgedit.records.runs import Answer, BertScore, with_judgement
from kgedit.records.scores import Encoding, RunScores
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
    read_headed,
    read_preparation,
    read_spec,
    write_headed,
    write_run_checksums,
)

if TYPE_CHECKING:
    from kgedit.llm.bert_score import Encoder


def measure_run(run_folder: Path, *, also: Sequence[str] = ()) -> RunScores:
    """Compute the content of scores.json.

    Args:
        also: Names of further metrics, in addition to those computed for every run.

    Raises:
        TimestepError: if the folder is not a run, or a line of its files cannot be read.
    """
    spec = read_spec(run_folder)
    verdicts = read_verdicts(run_folder) if "judge" in also else None
    bertscores = _read_bertscores(run_folder) if any(name in also for name in BERTSCORES) else None

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
    # Errors of Arrow's own files do not name the file.
    with aside.open("wb") as file, pq.ParquetWriter(file, schema, compression="zstd") as writer:
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


BERTSCORES_FILE = "bertscores.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class _MeasuredAnswer:
    """Scores of one distinct answer."""

    key: str
    score: BertScore


@dataclass(frozen=True, slots=True)
class BertScores:
    """BERTScores of one run.

    Attributes:
        encoding: Encoder behind the scores.
        by_key: Scores by the key of text and accepted answers.
    """

    encoding: Encoding
    by_key: Mapping[str, BertScore]

    def on(self, answers: Iterable[Answer]) -> Iterator[Answer]:
        """Iterate over the answers, with scores where they exist."""
        for answer in answers:
            score = None if answer.generation == "teacher_forcing" else self.by_key.get(_measured_key(answer))
            yield answer if score is None else with_judgement(answer, bertscore=score)

    def encoding_of(self, answers: Iterable[Answer]) -> Encoding:
        """Encoding of the scores; counts answers added later by a resumed run."""
        keys = {_measured_key(answer) for answer in _measurable(answers)}
        return replace(self.encoding, later=len(keys - self.by_key.keys()))


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderSettings:
    """Settings of the encoder.

    Attributes:
        model: Folder of the encoder.
        layer: Hidden layer; None means the last.
        idf: Whether tokens are weighted by their rarity among the run's accepted answers.
        baseline: CSV file with scores of unrelated texts, used to rescale scores; None means raw cosines.
        device: Device; see run-edit.
    """

    model: Path
    layer: int | None = None
    idf: bool = False
    baseline: Path | None = None
    device: str = "auto"


def measure_runs(runs: Sequence[Path], settings: EncoderSettings, *, progress: Advance | None = None) -> int:
    """Measure the free answers of runs and write bertscores.jsonl for each run.

    Returns:
        Number of distinct answers measured, over all runs.

    Raises:
        ModelError: if the encoder or the baseline cannot be read.
    """
    from kgedit.llm.bert_score import Encoder, read_baseline
    from kgedit.llm.devices import resolve_device

    encoder = Encoder(settings.model, layer=settings.layer, device=resolve_device(settings.device))
    baseline = read_baseline(settings.baseline, encoder.layer) if settings.baseline else None
    made_by = Encoding(
        encoder=settings.model.resolve().name,
        fingerprint=encoder.fingerprint,
        layer=encoder.layer,
        idf=settings.idf,
        baseline_sha256=hashlib.sha256(settings.baseline.read_bytes()).hexdigest() if settings.baseline else None,
        measured=0,
    )
    answers = {run: {_measured_key(answer): answer for answer in _measurable(read_answers(run))} for run in runs}
    total, done = sum(map(len, answers.values())), 0
    for run, own in answers.items():
        scores = _measure(encoder, list(own.values()), idf=settings.idf, baseline=baseline)
        lines = [_MeasuredAnswer(key=key, score=_six_digits(score)) for key, score in zip(own, scores, strict=True)]
        write_headed(run / BERTSCORES_FILE, replace(made_by, measured=len(own)), lines)
        done += len(own)
        if progress:
            progress(done, total)
    return total


def _measure(encoder: Encoder, answers: Sequence[Answer], *, idf: bool, baseline: BertScore | None) -> list[BertScore]:
    from kgedit.llm.bert_score import bert_scores, inverse_document_frequencies, rescaled

    pairs = [(answer.text, _accepted(answer)) for answer in answers]
    references = dict.fromkeys(reference for _, own in pairs for reference in own)
    weights = inverse_document_frequencies([encoder.tokens(text) for text in references]) if idf else None
    scores = bert_scores(encoder, pairs, weights=weights)
    return [rescaled(score, baseline) for score in scores] if baseline else scores


def _read_bertscores(run_folder: Path) -> BertScores | None:
    """Read the BERTScores of a run; None if it was not measured.

    Raises:
        TimestepError: if a line cannot be read.
    """
    again = "measure again: kgedit score RUN --metric bertscore"
    read = read_headed(run_folder / BERTSCORES_FILE, Encoding, _MeasuredAnswer, holds="BERTScores", again=again)
    if read is None:
        return None
    encoding, lines = read
    return BertScores(encoding, {line.key: line.score for line in lines})


def _measurable(answers: Iterable[Answer]) -> Iterator[Answer]:
    """Free answers, which contain text generated by the model."""
    return (answer for answer in answers if answer.generation != "teacher_forcing")


def _accepted(answer: Answer) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for text in answer.answers if text.strip())) or answer.answers[:1]


def _measured_key(answer: Answer) -> str:
    return hashlib.sha256(json.dumps([answer.text, *_accepted(answer)], ensure_ascii=False).encode()).hexdigest()


def _six_digits(score: BertScore) -> BertScore:
    return BertScore(precision=round(score.precision, 6), recall=round(score.recall, 6), f1=round(score.f1, 6))
