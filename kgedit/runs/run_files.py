"""Reads a run folder's files into records; an invalid folder or line raises a clear error.

cases.parquet has properties of each edited case, so that reports need no timestep.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TypeVar

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from kgedit.analysis.runs import Run, in_report_order
from kgedit.checksums import SUMS, check_folder, decoding, sha256_of, write_checksums
from kgedit.clustered_statistics import INTERVAL_METHOD
from kgedit.errors import TimestepError, near_names
from kgedit.files import put_in_place, read_lines, replace_file, sync
from kgedit.records.answer_table import ADDED_LATER, ANSWERS, CASES, case_hash
from kgedit.records.cases import Case
from kgedit.records.runs import (
    AbilityMeasurement,
    Answer,
    EditCost,
    Preparation,
    RunEnvironment,
    RunSpec,
    Selection,
    TaskMeasurement,
)
from kgedit.records.scores import RunScores
from kgedit.resources import as_typed, home
from kgedit.yaml_files import load_yaml

Record = TypeVar("Record")

_MOST_LISTED = 6
"""Folders that a message about a missing run lists."""


_CHECKED = (
    "spec.yaml", "environment.json", "prepared.json", "selection.json", "edited_cases.txt", "edits.jsonl",
    "answers.jsonl", "answers.parquet", "cases.parquet", "ability.jsonl", "ability_tasks.jsonl", "scores.json",
)  # fmt: skip
"""Files of a finished run that do not change until it is resumed or measured again."""


def write_run_checksums(folder: Path) -> None:
    """Record the checksums of a finished run, which reports and boards verify."""
    sync(write_checksums(folder, names=_CHECKED))


def check_run(folder: Path) -> None:
    """Verify the files of a finished run, if it has checksums.

    Raises:
        DamagedFileError: for the first file that is missing or differs from what kgedit wrote.
    """
    check_folder(folder, fix=f"If its answers.jsonl is whole, measure it again: kgedit report --rescore {folder}")


def forget_run_checksums(folder: Path) -> None:
    """Remove the checksums of a run before its files change."""
    (folder / SUMS).unlink(missing_ok=True)


def read_spec(folder: Path) -> RunSpec:
    """Read the resolved spec of a run.

    Raises:
        TimestepError: if the folder contains no run, or its spec cannot be read.
    """
    path = require_run(folder)
    try:
        return msgspec.convert(load_yaml(path.read_text(encoding="utf-8")), RunSpec)
    except (yaml.YAMLError, msgspec.ValidationError, UnicodeDecodeError) as error:
        raise TimestepError(
            f"{path} is not a spec of a run: {error}. Run kgedit run-edit into a new folder."
        ) from error


def require_run(folder: Path) -> Path:
    """Path of spec.yaml, the first file that a run writes.

    Raises:
        TimestepError: if the folder is not a run; the message lists the existing runs.
    """
    path = folder / "spec.yaml"
    if not path.is_file():
        raise TimestepError(_why_no_run(folder))
    return path


def _why_no_run(folder: Path) -> str:
    if folder.is_dir():
        what = f"The folder {folder} is not a run: it has no spec.yaml."
        there = sorted(path.parent for path in folder.glob("*/spec.yaml"))
    else:
        what = f"There is no run {folder}."
        there = sorted(path.parent for path in (home() / "runs").glob("*/spec.yaml"))
        near = near_names(folder.name, [path.name for path in there], limit=_MOST_LISTED)
        there = [path for name in near for path in there if path.name == name] or there
    listed = ", ".join(str(as_typed(path)) for path in there[:_MOST_LISTED])
    return f"{what} " + (f"Runs there are: {listed}." if there else "Name the folder that kgedit run-edit wrote.")


def read_answers(folder: Path) -> Iterator[Answer]:
    """Read every line of answers.jsonl, in file order.

    Raises:
        TimestepError: if the file does not exist, or a line is not an Answer.
    """
    return _lines(folder / "answers.jsonl", Answer)


def read_edit_costs(folder: Path) -> Iterator[EditCost]:
    """Read every line of edits.jsonl, in file order; empty if a run has made no edit.

    Raises:
        TimestepError: if a line is not an EditCost.
    """
    path = folder / "edits.jsonl"
    return _lines(path, EditCost) if path.is_file() else iter(())


def read_ability(folder: Path) -> Iterator[AbilityMeasurement]:
    """Read every line of ability.jsonl, in file order; empty if the run did not measure it.

    Raises:
        TimestepError: if a line is not an AbilityMeasurement.
    """
    path = folder / "ability.jsonl"
    return _lines(path, AbilityMeasurement) if path.is_file() else iter(())


def read_ability_tasks(folder: Path) -> Iterator[TaskMeasurement]:
    """Read every line of ability_tasks.jsonl, in file order; empty if the run did not measure any.

    Raises:
        TimestepError: if a line is not a TaskMeasurement.
    """
    path = folder / "ability_tasks.jsonl"
    return _lines(path, TaskMeasurement) if path.is_file() else iter(())


def read_preparation(folder: Path) -> Preparation | None:
    """Read prepared.json; None if the run has not reached that point.

    Raises:
        TimestepError: if it cannot be read.
    """
    return _record(folder / "prepared.json", Preparation)


def read_environment(folder: Path) -> RunEnvironment | None:
    """Read environment.json; None if it does not exist.

    Raises:
        TimestepError: if it cannot be read.
    """
    return _record(folder / "environment.json", RunEnvironment)


def read_selection(folder: Path) -> list[Selection]:
    """Read selection.json; empty if it does not exist.

    Raises:
        TimestepError: if it cannot be read.
    """
    return _record(folder / "selection.json", list[Selection]) or []


def read_scores(folder: Path) -> RunScores:
    """Read scores.json, the last file that a run writes.

    Raises:
        TimestepError: if the folder contains no run, an unfinished one, or answers newer than the scores.
    """
    path = require_finished(folder)
    again = f"Measure it again: kgedit report --rescore {folder}"
    try:
        scores = msgspec.json.decode(path.read_bytes(), type=RunScores)
    except msgspec.DecodeError as error:
        raise TimestepError(f"{path} contains no scores of this kgedit: {error}. {again}") from error
    if scores.intervals != INTERVAL_METHOD:
        raise TimestepError(f"{path} contains intervals of another method than this kgedit's. {again}")
    if scores.answers_sha256 != answers_sha256(folder):
        raise TimestepError(f"{path} does not belong to the answers.jsonl in the same folder. {again}")
    return scores


def read_answer_table(folder: Path, *, answers_sha256: str) -> pa.Table:
    """Read the rows of answers.parquet.

    Args:
        answers_sha256: SHA-256 of the answers.jsonl that it must have been created from.

    Raises:
        TimestepError: if it does not exist, or was created from other answers or by an earlier version.
    """
    path = folder / "answers.parquet"
    again = f"Measure it again: kgedit report --rescore {folder}"
    if not path.is_file():
        raise TimestepError(f"The run {folder} has no answers.parquet: an earlier kgedit scored it. {again}")
    with decoding(path, fix=again):
        schema = pq.read_schema(path)
    made_from = (schema.metadata or {}).get(b"answers_sha256", b"").decode()
    there = [field for field in ANSWERS if field.name in schema.names or field.name not in ADDED_LATER]
    if not schema.equals(pa.schema(there)) or made_from != answers_sha256:
        raise TimestepError(f"{path} does not belong to the answers.jsonl in the same folder. {again}")
    with decoding(path, fix=again):
        return pq.read_table(path, schema=ANSWERS)


def read_runs(folders: Iterable[Path]) -> list[Run]:
    """Read finished runs, each once, in report order.

    Raises:
        TimestepError: if a folder contains no run, or an unfinished one.
    """
    different = {folder.resolve(): folder for folder in folders}
    return in_report_order(_read_run(folder) for folder in different.values())


def _read_run(folder: Path) -> Run:
    read_spec(folder)
    require_finished(folder)
    check_run(folder)
    spec, scores = read_spec(folder), read_scores(folder)
    answers = read_answer_table(folder, answers_sha256=scores.answers_sha256)
    return Run(folder, spec, scores, answers, read_edited_cases(folder))


def require_finished(folder: Path) -> Path:
    """Path of scores.json, the last file that a run writes.

    Raises:
        TimestepError: if the folder contains no run, or an unfinished one.
    """
    path = folder / "scores.json"
    if not path.is_file():
        read_spec(folder)
        raise TimestepError(
            f"The run {folder} is not finished: it has no scores.json. "
            "Give its kgedit run-edit command again: that resumes it."
        )
    return path


def answers_sha256(folder: Path) -> str:
    """SHA-256 of answers.jsonl.

    Raises:
        TimestepError: if the file does not exist.
    """
    path = folder / "answers.jsonl"
    if not path.is_file():
        raise TimestepError(f"The run {folder} has no answers.jsonl. Start it: kgedit run-edit")
    return sha256_of(path)


def _record(path: Path, kind: type[Record]) -> Record | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind) if path.is_file() else None
    except msgspec.DecodeError as error:
        message = f"{path} is not a {kind.__name__} of this kgedit: {error}. Run kgedit run-edit into a new folder."
        raise TimestepError(message) from error


def _lines(path: Path, kind: type[Record]) -> Iterator[Record]:
    if not path.is_file():
        raise TimestepError(f"The run {path.parent} has no {path.name}. Start it: kgedit run-edit")
    decoder = msgspec.json.Decoder(kind)
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                yield decoder.decode(line)
            except msgspec.DecodeError as error:
                raise TimestepError(
                    f"Line {number} of {path} is not a valid {kind.__name__}: {error}. "
                    "If the run was interrupted there, resume it; else restore the file."
                ) from error


Head = TypeVar("Head")
Line = TypeVar("Line")


def write_headed(path: Path, head: object, lines: Iterable[object]) -> Path:
    """Write a file atomically."""
    return replace_file(path, b"".join(msgspec.json.encode(row) + b"\n" for row in (head, *lines)))


def read_headed(
    path: Path, head: type[Head], line: type[Line], *, holds: str, again: str
) -> tuple[Head, list[Line]] | None:
    """Read the first line and the others; None if the file does not exist.

    Args:
        head: Type of the first line.
        line: Type of the others.
        holds: Content that the file should have, for the error message.
        again: Command that creates it again, for the error message.

    Raises:
        TimestepError: if a line cannot be read.
    """
    try:
        rows = read_lines(path)
        if not rows:
            return None
        others = msgspec.json.decode(f"[{','.join(rows[1:])}]", type=list[line])  # type: ignore[valid-type]
        return msgspec.json.decode(rows[0], type=head), others
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise TimestepError(f"{path} contains no {holds}: {error}. Delete it and {again}") from error


_NAME = "cases.parquet"


def write_edited_cases(folder: Path, cases: Iterable[Case]) -> None:
    """Write the cases in the given order."""
    path, aside = folder / _NAME, folder / f".{_NAME}.aside"
    # Errors of Arrow's own files do not name the file.
    with aside.open("wb") as file:
        pq.write_table(case_table(cases), file, compression="zstd")
    put_in_place(aside, path)


def case_table(cases: Iterable[Case]) -> pa.Table:
    """Rows of CASES, in the given order."""
    return pa.Table.from_pylist([_row(case) for case in cases], schema=CASES)


def read_edited_cases(folder: Path) -> pa.Table:
    """Read the cases; empty for a run of a version that did not write them."""
    path = folder / _NAME
    if not path.is_file():
        return CASES.empty_table()
    with decoding(path, fix="Give the run's command again: kgedit run-edit"):
        return pq.read_table(path, schema=CASES)


def old_answers(cases: pa.Table) -> Mapping[int, tuple[str, ...]]:
    """Hash of a case -> answers that were correct before its edit."""
    columns = cases.select(["case", "old_answers"]).to_pydict()
    return {case: tuple(old) for case, old in zip(columns["case"], columns["old_answers"], strict=True) if old}


def _row(case: Case) -> dict[str, object]:
    fact = case.fact
    start = case.start_time or case.point_in_time
    return {
        "case": case_hash(case.timestep, case.case_id),
        "timestep": case.timestep,
        "case_id": case.case_id,
        "tag": case.tag,
        "kind": case.kind,
        "year": _year(start) if start else None,
        "relation": fact.property,
        "relation_label": fact.property_label,
        "subject": fact.subject,
        "subject_label": fact.subject_label,
        "object": fact.object,
        "object_label": fact.object_label,
        "old_answers": list(case.old_answers),
        "popularity": case.popularity,
        "category": case.category,
        "scenario": case.scenario,
        "since": start,
        **asdict(case.specificity),
    }


def _year(time: str) -> str:
    """Year of an ISO time at any precision; years before the common era are negative."""
    sign, digits = ("-", time[1:]) if time.startswith("-") else ("", time)
    return sign + digits.partition("-")[0]
