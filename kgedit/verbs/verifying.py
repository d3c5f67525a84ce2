"""Verifies that the files of a home are unchanged; every file is read, regardless of earlier checks."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from kgedit.checksums import SUMS, Fault, find_faults, read_checksums, write_checksums
from kgedit.errors import DamagedFileError, KgeditError
from kgedit.progress import Advance
from kgedit.store.snapshots import VERIFIED, how_to_reload
from kgedit.timesteps.timestep import EXPORT_AGAIN, table_checksums, timesteps_folder

VerifiedState = Literal["fine", "damaged", "no checksum"]

CACHES = ("answers", "replies")
"""Folders of a home whose files grow, so that no checksum is recorded; their content is read."""


@dataclass(frozen=True, slots=True)
class VerifiedPart:
    """A part of a home.

    Attributes:
        part: Path within the home.
        state: "fine": all files have their recorded checksums; "no checksum": readable, and no checksum was recorded;
            "damaged".
        files: Number of files that were read.
        bytes: Total size of these files.
        faults: Errors, one sentence per file.
        fix: How to fix them; None without errors.
    """

    part: str
    state: VerifiedState
    files: int
    bytes: int
    faults: tuple[str, ...] = ()
    fix: str | None = None


@dataclass(frozen=True, slots=True)
class _Part:
    """A folder or file to verify."""

    path: Path
    fix: str
    recordable: bool = False  # whether checksums can be recorded if there are none


def verify_home(home: Path, *, record: bool = False, progress: Advance) -> list[VerifiedPart]:
    """Compare every file of a home with its checksum, and decode files without one.

    Args:
        home: Home folder.
        record: Whether to record checksums for snapshots and timesteps of earlier versions, if every file can be
            decoded.
        progress: Called with the thousandths of bytes and the number of parts read so far.
    """
    parts = list(_parts(home))
    sizes = [sum(file.stat().st_size for file in _files(part.path)) for part in parts]
    verified, read = [], 0
    for part, size in zip(parts, sizes, strict=True):
        verified.append(_verify(home, part, size, record=record))
        read += size
        progress(1000 * read // max(sum(sizes), 1), len(verified))
    verified += _graph(home)
    if any(part.state == "damaged" for part in verified):
        (home / VERIFIED).unlink(missing_ok=True)  # later commands read everything again
    return verified


def _parts(home: Path) -> Iterator[_Part]:
    found: dict[Path, _Part] = {}
    for folder in sorted((home / "snapshots").glob("[0-9]*")):
        found[folder] = _Part(folder, how_to_reload(folder), recordable=True)
    for name in ("timestep.json", "stream.json"):
        for path in sorted(timesteps_folder(home).rglob(name)):
            found[path.parent] = _Part(path.parent, EXPORT_AGAIN, recordable=True)
    for spec in sorted((home / "runs").rglob("spec.yaml")):
        found[spec.parent] = _Part(
            spec.parent, f"Run it again, or measure it again: kgedit report --rescore {spec.parent}"
        )
    for path in sorted(home.rglob("*.kgmemory")):
        found[path] = _Part(path, "Build it again: kgedit memory build --overwrite")
    for path in sorted(home.rglob(SUMS)):
        # Anything else with checksums: models, indexes of explore.
        found.setdefault(
            path.parent, _Part(path.parent, f"Remove {path.parent}: the command that wrote it makes it again.")
        )
    for folder in sorted(path for path in (home / name for name in CACHES) if path.is_dir()):
        found[folder] = _Part(folder, "Remove the file: its answers are generated again.")
    hidden = [path for path in found if any(part.startswith(".") for part in path.relative_to(home).parts)]
    return (part for path, part in found.items() if path not in hidden)


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    hidden = (file for file in sorted(path.rglob("*")) if not file.name.startswith("."))
    return [file for file in hidden if file.is_file()]


def _verify(home: Path, part: _Part, size: int, *, record: bool) -> VerifiedPart:
    files = _files(part.path)
    try:
        expected = _checksums(part.path)
        faults = list(find_faults(part.path, expected))
    except DamagedFileError as error:
        expected, faults = {}, [Fault(Path(str(error.path)), error.reason)]
    listed = {part.path / name for name in (*expected, SUMS)}
    faults += [Fault(file, reason) for file in files if file not in listed and (reason := _undecodable(file))]
    state: VerifiedState = "damaged" if faults else "fine" if expected else "no checksum"
    if state == "no checksum" and zipfile.is_zipfile(part.path):
        state = "fine"  # a memory: zip archives hold checksums, which were compared
    if record and part.recordable and not faults and not (part.path / SUMS).exists():
        write_checksums(part.path)
        state = "fine"
    name = part.path.relative_to(home).as_posix()
    reasons = tuple(f"{fault.path.relative_to(home)}: {fault.reason}" for fault in faults)
    return VerifiedPart(name, state, len(files), size, reasons, part.fix if faults else None)


def _checksums(path: Path) -> dict[str, str]:
    """All recorded checksums of a folder, by path within it.

    Raises:
        DamagedFileError: if a file that lists checksums is damaged.
    """
    if path.is_file():
        return {}
    expected = read_checksums(path) or {}
    for name in ("timestep.json", "stream.json"):
        expected = {**table_checksums(_json(path / name)), **expected}
    answers = _json(path / "scores.json").get("answers_sha256")
    if isinstance(answers, str):
        expected.setdefault("answers.jsonl", answers)
    return expected


def _json(path: Path) -> Mapping[str, Any]:
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_bytes())
    except ValueError as error:
        raise DamagedFileError(path, f"it is not JSON ({error})", "") from error
    return content if isinstance(content, dict) else {}


def _undecodable(path: Path) -> str | None:
    """Reason why a file cannot be decoded; None if it can, or if its type has no format to check."""
    try:
        if path.suffix == ".parquet":
            file = pq.ParquetFile(path)
            for number in range(file.num_row_groups):
                file.read_row_group(number)
        elif path.suffix == ".json":
            json.loads(path.read_bytes())
        elif path.suffix == ".jsonl":
            for number, line in enumerate(path.read_bytes().splitlines(), start=1):
                _json_line(line, number)
        elif path.suffix == ".kgmemory":
            with zipfile.ZipFile(path) as archive:
                wrong = archive.testzip()
            return f"its part {wrong} has another checksum" if wrong else None
    except (OSError, ValueError, pa.ArrowException, zipfile.BadZipFile) as error:
        return f"it cannot be decoded ({error})"
    return None


def _json_line(line: bytes, number: int) -> None:
    try:
        json.loads(line)
    except ValueError as error:
        raise ValueError(f"line {number}: {error}") from error


def _graph(home: Path) -> Iterator[VerifiedPart]:
    """Check the marks of the home's graph; its content is checked by Neo4j, and can be rebuilt from the snapshots."""
    from kgedit.graph.state import read_graph_status

    if not (home / "neo4j").is_dir():
        return
    faults = []
    try:
        status = read_graph_status(home)
        if status.server.import_unfinished:
            faults.append("its import was interrupted")
        if status.content is not None:
            faults += [f"{name} is missing" for name in status.content.missing_indexes]
            faults += [
                f"the snapshot {date} is not whole" for date, facts in status.content.snapshots.items() if facts is None
            ]
    except KgeditError as error:
        faults.append(str(error))
    reasons = tuple(f"neo4j: {fault}" for fault in faults)
    state: VerifiedState = "damaged" if faults else "fine"
    yield VerifiedPart("neo4j", state, 0, 0, reasons, "Write the graph again: kgedit graph rebuild" if faults else None)
