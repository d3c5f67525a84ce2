"""Content of a board: entries, and finished runs that were not submitted, as runs that can be ranked together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kgedit.analysis.runs import Run, in_report_order
from kgedit.errors import KgeditError, SubmissionError, TimestepError
from kgedit.records.published import SubmittedTimestep, SubmitterNote
from kgedit.records.runs import RunEnvironment
from kgedit.records.steps import step
from kgedit.runs.run_files import read_environment, read_runs
from kgedit.runs.submissions.entries import ENTRIES, read_entry
from kgedit.untrusted import is_web_address


@dataclass(frozen=True, slots=True)
class BoardRun:
    """A run on a board.

    Attributes:
        run: Scores of the run; its spec names the model in the same way as all runs of the same weights.
        environment: Environment of the run; None for a run of a version that did not write it.
        statement: Statement of its submitter; None for a run that was not submitted.
        timesteps: Timesteps with hashes; empty for a run that was not submitted.
        run_files: File of the run's folder -> SHA-256; empty for a run that was not submitted.
    """

    run: Run
    environment: RunEnvironment | None
    statement: SubmitterNote | None = None
    timesteps: tuple[SubmittedTimestep, ...] = ()
    run_files: Mapping[str, str] | None = None

    @property
    def name(self) -> str:
        """Name of the entry or of the run's folder."""
        return self.run.folder.name

    @property
    def report(self) -> Path | str | None:
        """Web address or file of its report page; None without one.

        Entries are untrusted: another kind of address, such as javascript:, is not shown as a link.
        """
        said = self.statement.report if self.statement else None
        if said and said != "report.html":
            return said if is_web_address(said) else None
        path = self.run.folder / "report.html"
        return path if path.is_file() else None


@dataclass(frozen=True, slots=True)
class Board:
    """Runs found in some folders.

    Attributes:
        runs: Runs in report order.
        left_out: Folder -> reason why it is not shown.
    """

    runs: tuple[BoardRun, ...]
    left_out: Mapping[Path, tuple[str, ...]]


def read_board(paths: Iterable[Path]) -> Board:
    """Read boards, entries, runs and folders of runs; entries are checked, and left out with reasons if they fail.

    Raises:
        TimestepError: if a path contains none of these.
    """
    found: dict[Path, BoardRun] = {}
    left_out: dict[Path, tuple[str, ...]] = {}
    folders = list(dict.fromkeys(one.resolve() for path in paths for one in _folders(path)))
    for done, folder in enumerate(folders):
        step(f"checking {folder.name}", done, len(folders))
        try:
            found[folder] = _read(folder)
        except SubmissionError as error:
            left_out[folder] = error.reasons
        except KgeditError as error:
            left_out[folder] = (str(error),)
    named = _same_names(list(found.values()))
    by_folder = {one.run.folder: one for one in named}
    ordered = in_report_order(one.run for one in named)
    return Board(tuple(by_folder[run.folder] for run in ordered), left_out)


def _folders(path: Path) -> Iterator[Path]:
    """Folders of entries and runs at a path, sorted."""
    if (path / "entry.json").is_file() or (path / "spec.yaml").is_file():
        yield path
        return
    inside = path / ENTRIES if (path / ENTRIES).is_dir() else path
    shown = sorted(one for one in inside.iterdir() if one.is_dir()) if inside.is_dir() else []
    found = [one for one in shown if not one.name.startswith(".")]
    kept = [one for one in found if inside != path or (one / "entry.json").is_file() or (one / "spec.yaml").is_file()]
    if not kept:
        raise TimestepError(
            f"{path} holds neither entries of a board nor runs. Put a run there: kgedit submit RUN --to {path}"
        )
    yield from kept


def _read(folder: Path) -> BoardRun:
    if not (folder / "spec.yaml").is_file():
        entry = read_entry(folder)
        submission = entry.submission
        return BoardRun(
            entry.run, submission.environment, submission.statement, submission.timesteps, submission.run_files
        )
    (run,) = read_runs([folder])
    try:
        environment = read_environment(folder)
    except TimestepError:
        environment = None  # an earlier version's: the board then shows less, the numbers are the same
    return BoardRun(run, environment)


def _same_names(runs: Sequence[BoardRun]) -> list[BoardRun]:
    """Unify specs: equal weights get one name, different weights different names, and timesteps their own names."""
    weights = {_weights(one): one.run.model for one in sorted(runs, key=lambda one: one.run.model, reverse=True)}
    several = {name for name in weights.values() if sum(name == other for other in weights.values()) > 1}
    named = []
    for one in runs:
        model = weights[_weights(one)]
        model = f"{model} ({_weights(one)[:8]})" if model in several else model
        steps = one.environment.timesteps if one.environment else ()
        names = tuple(step.name for step in steps) or one.run.spec.timesteps
        spec = replace(one.run.spec, model=model, timesteps=names)
        named.append(replace(one, run=replace(one.run, spec=spec)))
    return named


def _weights(one: BoardRun) -> str:
    """Fingerprint of the model before any edit; its name if unknown."""
    return one.environment.model.fingerprint if one.environment else one.run.spec.model
