"""Entries of a board: written atomically and once; everything in them is checked when they are read.

ENTRY/entry.json describes the run and has the hash of every other file; ENTRY/answers.parquet has every answer, so that
readers of the board can recompute the scores; ENTRY/cases.parquet has the edited cases.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from kgedit.analysis.runs import Run
from kgedit.checksums import sha256_of
from kgedit.errors import SubmissionError, TimestepError
from kgedit.metrics.answer_table import answer_table
from kgedit.metrics.scores import answers_before, score_answers
from kgedit.metrics.text import BERTSCORES
from kgedit.records.answer_table import ANSWERS
from kgedit.records.published import ENTRY_FORMAT, Submission, SubmitterNote
from kgedit.records.runs import Answer, RunSpec
from kgedit.runs.run_files import old_answers, read_answers, read_edited_cases
from kgedit.runs.submissions import CheckedRun, score_differences
from kgedit.runs.submissions.local_paths import (
    context_without_folder,
    file_name,
    settings_without_folders,
    without_folders,
)
from kgedit.store.files import only_writer, replace_folder
from kgedit.untrusted import is_path_component

ENTRIES = "entries"
"""Folder of a board that contains its entries."""

_MADE = ("spec.yaml", "environment.json", "answers.jsonl", "edits.jsonl", "scores.json")

_NEEDED = ("answers.parquet", "cases.parquet")

_NOT_OF_ANSWERS = frozenset(
    {"answers_sha256", "edits", "judging", "encoding", "ability", "ability_tasks", "also", "scales"}
)
"""Fields of RunScores that an entry's answers do not determine, because they come from other files of the run."""


@dataclass(frozen=True, slots=True)
class WrittenEntry:
    """An entry on a board.

    Attributes:
        folder: Path of the entry.
        submission: Content of entry.json.
        is_new: Whether it was written by this call; False if an entry of the same run existed.
    """

    folder: Path
    submission: Submission
    is_new: bool


def write_entry(
    run: CheckedRun, board: Path, statement: SubmitterNote, *, report: Path | None = None, overwrite: bool = False
) -> WrittenEntry:
    """Write the entry of a checked run to a board; the same run and statement give the same bytes.

    Args:
        run: Result of check_run.
        board: Folder of the board; created if missing.
        statement: Statement of the submitter.
        report: File with the run's report page, copied into the entry.
        overwrite: Whether to replace an existing entry of the same run, with this statement.

    Raises:
        SubmissionError: if the existing entry of the same run is damaged.
        StoreError: if another process is writing to the board.
    """
    entries = board / ENTRIES
    with only_writer(entries / ".lock", of=str(board)):
        name = entry_name(run)
        folder = entries / name
        if folder.exists() and not overwrite:
            found = read_entry(folder)
            return WrittenEntry(folder, found.submission, is_new=False)
        aside = entries / f".{name}.aside"
        shutil.rmtree(aside, ignore_errors=True)
        try:
            submission = _write(run, aside, name, statement, report)
            replace_folder(aside, folder)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    return WrittenEntry(folder, submission, is_new=True)


def entry_name(run: CheckedRun) -> str:
    """Method, model, protocol, seed, and a hash of the run and its answers."""
    spec = _nameless(run.spec)
    parts = (spec.method, spec.model, spec.protocol, f"seed{spec.seed}")
    readable = re.sub(r"[^A-Za-z0-9._-]+", "-", "-".join(parts)).lower()[:80]
    return f"{readable}-{_identity(run)}"


def _identity(run: CheckedRun) -> str:
    content = msgspec.json.encode([_nameless(run.spec), run.environment, run.scores.answers_sha256, run.scores.also])
    return hashlib.sha256(content).hexdigest()[:12]


def _nameless(spec: RunSpec) -> RunSpec:
    """Part of the spec that names of entries are made of; paths in settings stay, so that existing names do."""
    return replace(
        spec,
        model=file_name(spec.model),
        timesteps=tuple(map(file_name, spec.timesteps)),
        only_cases=spec.only_cases and file_name(spec.only_cases),
        ability=spec.ability and file_name(spec.ability),
        backend_url=None,
    )


def _write(run: CheckedRun, folder: Path, name: str, statement: SubmitterNote, report: Path | None) -> Submission:
    folder.mkdir(parents=True)
    contexts = {preset.context: context_without_folder(preset.context) for preset in run.spec.presets}
    answers = (replace(one, context=contexts[one.context]) for one in read_answers(run.folder))
    write_full_answers(folder / "answers.parquet", answers)
    pq.write_table(run.cases, folder / "cases.parquet", compression="zstd")
    if report is not None:
        shutil.copyfile(report, folder / "report.html")
        statement = replace(statement, report="report.html")
    spec, environment, preparation = without_folders(run.spec), run.environment, run.preparation
    submission = Submission(
        format=ENTRY_FORMAT,
        name=name,
        statement=statement,
        spec=spec,
        environment=replace(
            environment,
            model=replace(environment.model, name=spec.model),
            settings=settings_without_folders(environment.settings),
            trained_in=tuple(replace(one, name=context_without_folder(one.name)) for one in environment.trained_in),
        ),
        preparation=preparation and replace(preparation, settings=settings_without_folders(preparation.settings)),
        selection=run.selection,
        timesteps=run.timesteps,
        run_files={file: sha256_of(run.folder / file) for file in _MADE if (run.folder / file).is_file()},
        files={path.name: sha256_of(path) for path in sorted(folder.iterdir())},
        scores=replace(run.scores, train_context=spec.train_context),
    )
    (folder / "entry.json").write_bytes(msgspec.json.format(msgspec.json.encode(submission), indent=1) + b"\n")
    return submission


@dataclass(frozen=True, slots=True)
class BoardEntry:
    """An entry whose files are complete and whose scores follow from its answers.

    Attributes:
        submission: Content of entry.json.
        run: Scores of the run, as reports use it; `folder` is the entry's.
    """

    submission: Submission
    run: Run


def read_entry(folder: Path) -> BoardEntry:
    """Read an entry and check its hashes and the answers behind every score.

    Raises:
        SubmissionError: with every reason why the entry cannot be shown.
    """
    submission = _read_submission(folder)
    reasons = [] if submission.name == folder.name else [f"entry.json is that of {submission.name}"]
    reasons += [f"entry.json has no hash of {name}" for name in _NEEDED if name not in submission.files]
    for name, stated in submission.files.items():
        path = folder / name
        if not is_path_component(name) or path.is_symlink():
            reasons.append(f"{name!r} is not a file of the entry's own: it was not opened")
        elif not path.is_file():
            reasons.append(f"{name} is missing")
        elif sha256_of(path) != stated:
            reasons.append(f"{name} was changed: its hash is not that in entry.json")
    if reasons:
        raise SubmissionError(folder, reasons)
    try:
        answers = list(read_full_answers(folder / "answers.parquet"))
        run = _as_run(folder, submission, answers)
    except (pa.ArrowException, msgspec.ValidationError, TimestepError, KeyError) as error:
        raise SubmissionError(folder, [f"answers.parquet cannot be read: {error}"]) from error
    reasons = _scores_faults(submission, answers, run.cases)
    if reasons:
        raise SubmissionError(folder, reasons)
    return BoardEntry(submission, run)


class _Format(msgspec.Struct):
    format: str = "not named"


def _read_submission(folder: Path) -> Submission:
    path = folder / "entry.json"
    try:
        content = path.read_bytes()
        form = msgspec.json.decode(content, type=_Format).format
        if form != ENTRY_FORMAT:
            reason = f"its format is {form}, and this kgedit reads {ENTRY_FORMAT}. Submit the run again: --overwrite"
            raise SubmissionError(folder, [reason])
        return msgspec.json.decode(content, type=Submission)
    except (OSError, msgspec.DecodeError) as error:
        raise SubmissionError(folder, [f"entry.json cannot be read: {error}"]) from error


def _as_run(folder: Path, submission: Submission, answers: Sequence[Answer]) -> Run:
    """The run as reports use it; its table of answers is rebuilt from the answers."""
    cases = read_edited_cases(folder)
    batches = answer_table(
        answers,
        _own_metrics(submission.spec),
        timesteps=submission.scores.timesteps,
        old_answers=old_answers(cases),
        before=answers_before(answers),
    )
    table = pa.Table.from_batches(batches, schema=ANSWERS)
    return Run(folder, submission.spec, submission.scores, table, cases)


def _own_metrics(spec: RunSpec) -> Mapping[str, str]:
    return {preset.name: preset.metric for preset in spec.presets}


def _scores_faults(submission: Submission, answers: Sequence[Answer], cases: pa.Table) -> list[str]:
    stated, spec = submission.scores, submission.spec
    # Verdicts of a judge and scores of an encoder are not among the answers; results of rules are.
    also = [name for name in stated.also if name != "judge" and name not in BERTSCORES]
    computed = score_answers(
        lambda: answers,
        spec.presets,
        answers_sha256=stated.answers_sha256,
        train_context=spec.train_context,
        costs=(),
        preparation=None,
        also=also,
    )
    known = {score.metric for score in computed.scores}
    by_rules = tuple(score for score in stated.scores if score.metric in known)
    reasons = score_differences(replace(stated, scores=by_rules), computed, leave_out=_NOT_OF_ANSWERS)
    asked = {(row["timestep"], row["case_id"]) for row in cases.select(["timestep", "case_id"]).to_pylist()}
    answered = {(answer.timestep, answer.case_id) for answer in answers}
    if asked != answered:
        reasons.append(f"cases that only one of cases.parquet and answers.parquet holds: {len(asked ^ answered):,}")
    return reasons


_NEIGHBOUR = pa.struct(
    [
        ("subject", pa.string()),
        ("label", pa.string()),
        ("similarity", pa.float64()),
        ("popularity", pa.float64()),
        ("basis", pa.string()),
    ]
)
_STRINGS = pa.list_(pa.string())
_CHAIN = pa.struct(
    [("chain_id", pa.string()), ("hops", pa.int64()), ("hop_questions", _STRINGS), ("old_answers", _STRINGS)]
)

FULL_ANSWERS = pa.schema(
    [
        ("model_state", pa.struct([("timestep", pa.string()), ("edits", pa.int64())])),
        *((name, pa.string()) for name in ("timestep", "case_id", "relation", "axis", "preset", "context")),
        *((name, pa.string()) for name in ("generation", "truncation", "question", "prompt")),
        ("answers", _STRINGS),
        ("text", pa.string()),
        ("token_match", pa.float64()),
        ("prompt_tokens", pa.int64()),
        ("new_tokens", pa.int64()),
        ("seconds", pa.float64()),
        ("probability", pa.float64()),
        ("old_probability", pa.float64()),
        ("retrieved", _STRINGS),
        ("second_case_id", pa.string()),
        ("expires", pa.string()),
        ("neighbour", _NEIGHBOUR),
        ("scenario", pa.string()),
        ("static_probability", pa.float64()),
        ("alternative_probability", pa.float64()),
        ("highest_alternative", pa.float64()),
        ("chain", _CHAIN),
        ("thoughts", pa.string()),
        ("thoughts_cut", pa.bool_()),
    ]
)
"""Fields of an Answer (kgedit.records.runs), in their order."""

_ROWS = 65_536
"""Rows of a row group: this many answers are in memory at once."""


def write_full_answers(path: Path, answers: Iterable[Answer]) -> None:
    """Write answers in order; the same answers give the same bytes."""
    with pq.ParquetWriter(path, FULL_ANSWERS, compression="zstd") as writer:
        rows: list[object] = []
        for answer in answers:
            rows.append(msgspec.to_builtins(answer))
            if len(rows) == _ROWS:
                writer.write_batch(pa.RecordBatch.from_pylist(rows, schema=FULL_ANSWERS))
                rows = []
        writer.write_batch(pa.RecordBatch.from_pylist(rows, schema=FULL_ANSWERS))


def read_full_answers(path: Path) -> Iterator[Answer]:
    """Read the answers in order.

    Raises:
        msgspec.ValidationError: if a row is not an answer.
        pyarrow.ArrowException: if the file is not such a table.
    """
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(_ROWS):
            yield from msgspec.convert(batch.to_pylist(), list[Answer])
