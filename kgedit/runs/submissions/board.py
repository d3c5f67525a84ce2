"""Content of a board: entries, and finished runs that were not submitted, as runs that can be ranked together.

As a JSON document it has the groups with their standings, the runs with their provenance, and what was left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgspec

from kgedit import __version__
from kgedit.analysis.comparisons import Placed
from kgedit.analysis.leaderboard import MEASURES, Standing, Standings
from kgedit.analysis.runs import Run, in_report_order
from kgedit.analysis.tables import Estimate, as_values
from kgedit.errors import KgeditError, SubmissionError, TimestepError
from kgedit.progress import step
from kgedit.records.published import SubmittedTimestep, SubmitterNote
from kgedit.records.runs import RunEnvironment
from kgedit.runs.presets import ASKED
from kgedit.runs.run_files import read_environment, read_runs
from kgedit.runs.submissions.entries import ENTRIES, read_entry
from kgedit.runs.submissions.local_paths import context_without_folder, file_name, is_context_file, without_folders
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

    A run that is also there as an entry, or as a copy, counts once: the one with the most metrics, and of these the
    entry. The others are left out.

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
    kept: dict[bytes, Path] = {}
    preferred = sorted(found, key=lambda folder: (-len(found[folder].run.scores.also), found[folder].statement is None))
    for folder in preferred:
        first = kept.setdefault(_content(found[folder]), folder)
        if first != folder:
            left_out[folder] = (f"the same run as {first.parent.name}/{first.name}",)
    unified = _unified([one for folder, one in found.items() if folder not in left_out])
    by_folder = {one.run.folder: one for one in unified}
    ordered = in_report_order(one.run for one in unified)
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
            f"{path} contains neither entries of a board nor runs. Put a run there: kgedit submit RUN --to {path}"
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


def _content(one: BoardRun) -> bytes:
    """Key that an entry, its run and copies of both have in common."""
    scores, spec = one.run.scores, without_folders(one.run.spec)
    # Whether a name is one of the hub is judged by the folders of a machine.
    settings = {name: file_name(value) if isinstance(value, str) else value for name, value in spec.settings.items()}
    return msgspec.json.encode([scores.answers_sha256, scores.cases_sha256, replace(spec, settings=settings)])


def _unified(runs: Sequence[BoardRun]) -> list[BoardRun]:
    """Unify specs: equal weights and files of contexts get one name, different ones different names.

    Timesteps get their own names.
    """
    weights = _names((_weights(one), one.run.model) for one in runs)
    contexts = _names(named for one in runs for named in _context_files(one).values())
    unified = []
    for one in runs:
        spec, steps = one.run.spec, one.environment.timesteps if one.environment else ()
        own = {asked: contexts[sha256] for asked, (sha256, _) in _context_files(one).items()}
        spec = replace(
            spec,
            model=weights[_weights(one)],
            timesteps=tuple(step.name for step in steps) or spec.timesteps,
            presets=tuple(replace(preset, context=own.get(preset.name, preset.context)) for preset in spec.presets),
            train_context=own.get(None, spec.train_context),
        )
        unified.append(replace(one, run=replace(one.run, spec=spec)))
    return unified


def _names(named: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Hash -> name, from pairs of both: the first name of a hash, followed by the hash if another one has this name."""
    first = dict(sorted(named, key=itemgetter(1), reverse=True))
    times = Counter(first.values())
    return {sha256: name if times[name] == 1 else f"{name} ({sha256[:8]})" for sha256, name in first.items()}


def _context_files(one: BoardRun) -> dict[str | None, tuple[str, str]]:
    """Preset, or None for training -> hash and name of its context, if that is a file and its hash is recorded."""
    spec, env = one.run.spec, one.environment
    if env is None:
        return {}
    named: dict[str | None, tuple[str, str]] = {
        preset.name: (env.contexts[preset.name], preset.context)
        for preset in spec.presets
        if preset.name in env.contexts
    }
    if spec.train_context not in (None, ASKED) and env.trained_in:
        named[None] = (env.trained_in[0].sha256, env.trained_in[0].name)
    return {
        asked: (sha256, context_without_folder(context))
        for asked, (sha256, context) in named.items()
        if is_context_file(context)
    }


def _weights(one: BoardRun) -> str:
    """Fingerprint of the model before any edit; its name if unknown."""
    return one.environment.model.fingerprint if one.environment else one.run.spec.model


LEADERBOARD_FORMAT = "kgedit-leaderboard-1"
"""Version of the document, for those who read it with other programs."""


def leaderboard_document(board: Board, standings: Sequence[Standings]) -> dict[str, Any]:
    """Build the document; shares are fractions of 1, unknown values are null."""
    return {
        "format": LEADERBOARD_FORMAT,
        "kgedit": __version__,
        "measures": dict(MEASURES),
        "groups": [_group(one) for one in standings],
        "runs": [_run(one) for one in board.runs],
        "left_out": [{"name": path.name, "reasons": list(reasons)} for path, reasons in board.left_out.items()],
    }


def _group(one: Standings) -> dict[str, Any]:
    return {
        "key": one.key,
        "group": one.group,
        "model": one.model,
        "protocol": one.protocol,
        "trained_in": one.train_context,
        "cases_sha256": one.cases_sha256,
        "preset": one.preset.name,
        "metric": one.preset.metric,
        "free_preset": one.free,
        "rows": [_row(row, one) for row in one.rows],
        "before_any_edit": {measure: as_values(estimate) for measure, estimate in one.before.items()},
    }


def _row(row: Standing, standings: Standings) -> dict[str, Any]:
    return {
        "name": row.name,
        "method": row.variant.runs[0].spec.method,
        "runs": [run.folder.name for run in row.variant.runs],
        "seeds": [run.spec.seed for run in row.variant.runs],
        "repeated_runs": [run.folder.name for run in row.variant.repeated],
        "measures": {measure: _placed(placed) for measure, placed in row.cells.items()},
        "significantly_less_damage": list(standings.less_damage[row.name]),
    }


def _placed(placed: Placed) -> dict[str, Any]:
    estimate: Estimate = placed.estimate
    return {**as_values(estimate), "first_rank": placed.first, "last_rank": placed.last}


def _run(one: BoardRun) -> dict[str, Any]:
    run, env, said = one.run, one.environment, one.statement
    return {
        "name": one.name,
        "method": run.spec.method,
        "model": run.model,
        "model_fingerprint": env.model.fingerprint if env else None,
        "model_revision": env.model.revision if env else None,
        "protocol": run.spec.protocol,
        "seed": run.spec.seed,
        "edits": run.scores.edits.edits,
        "failed": run.scores.edits.failed,
        "submitter": said.submitter if said else None,
        "date": said.date if said else None,
        "note": said.note if said else "",
        "kgedit": env.packages.get("kgedit") if env else None,
        "git_commit": env.git_commit if env else None,
        "device": env.device if env else None,
        "answers_sha256": run.scores.answers_sha256,
        "cases_sha256": run.scores.cases_sha256,
        "timesteps": [{"name": step.name, "sha256": step.sha256} for step in env.timesteps] if env else [],
        "report": str(one.report) if isinstance(one.report, str) else None,
    }
