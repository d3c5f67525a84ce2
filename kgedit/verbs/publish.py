"""`publish`, `submit` and `leaderboard`: publish timesteps and runs, and rank runs on boards."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgedit.errors import TimestepError
from kgedit.files import check_outputs, write_files
from kgedit.html_tables import html_table
from kgedit.untrusted import is_web_address
from kgedit.verbs.home_folder import read_date
from kgedit.verbs.options import (
    AnyFile,
    AnyFolder,
    Day,
    ManyFolders,
    ManyPaths,
    OneOrManyPaths,
    Verb,
    argument,
    as_many,
    flag,
    function_of,
    options,
)
from kgedit.verbs.shared_options import TIMESTEP_FORMS

if TYPE_CHECKING:
    import pyarrow as pa

    from kgedit.analysis.leaderboard import Standings
    from kgedit.analysis.runs import Run
    from kgedit.analysis.tables import Table
    from kgedit.runs.submissions.board import Board
    from kgedit.runs.submissions.entries import WrittenEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedFolder:
    """A published folder.

    Attributes:
        folder: Path of the folder.
        manifest: Content of its publication.json.
    """

    folder: Path
    manifest: dict[str, Any]


@options
class Publish(Verb[PublishedFolder]):
    """Write timesteps as a dataset that others can load.

    DIR gets Parquet files with a card (README.md) for the Hugging Face hub, with a configuration per timestep and a
    split per axis; Croissant metadata; tasks of lm-evaluation-harness; the timesteps themselves, with the formats of
    EasyEdit, WikiBigEdit and WikiFactDiff next to them; and the hash of every file. Nothing is uploaded.
    """

    folder: AnyFolder = argument(kw_only=False, metavar="DIR", help="Folder to write, atomically.")
    timesteps: ManyPaths = flag(
        "--timestep",
        kw_only=False,
        metavar="TIMESTEP",
        complete="timesteps",
        help=f"Exported timestep: {TIMESTEP_FORMS}; repeat for several. The first is the default.",
    )
    runs: ManyFolders = flag(
        default=(),
        complete="runs",
        help="Finished run on these timesteps whose scores are published too; repeat for several.",
    )
    name: str | None = flag(default=None, help="Name of the dataset. Default: the folder's name.")
    version: str = flag(default="1.0.0", help="Version of the dataset, MAJOR.MINOR.PATCH.")
    license: str = flag(default="cc0-1.0", help="License identifier of the hub.")
    url: str | None = flag(default=None, help="Web address where it will be available, for card and metadata.")
    date: Day | None = flag(default=None, help="Day of publication, for the metadata. Default: none.")
    overwrite: bool = flag(default=False, group="Output", help="Replace an earlier publication.")

    def run(self) -> PublishedFolder:
        """Write the dataset.

        Raises:
            DamagedFileError: if a timestep differs from its export.
            TimestepError: if a timestep has no case or no checksums, a run is not on these timesteps, the folder must
                not be replaced, or name, version, license or address cannot be published.
        """
        from kgedit.exporters.publication import refuse_to_replace, write_publication
        from kgedit.exporters.publication.content import About, Publication, publish_timestep
        from kgedit.timesteps.timestep import Timestep

        path = Path(self.folder)
        refuse_to_replace(path.absolute(), overwrite=self.overwrite)
        about = About(
            name=_checked_name(self.name or path.absolute().name),
            version=_checked_version(self.version),
            license=_checked_license(self.license),
            url=_checked_address(self.url),
            date=None if self.date is None else read_date(self.date).isoformat(),
        )
        steps = [Timestep.open(step) for step in self.timesteps]
        for unchecked in (step for step in steps if not step.has_checksums):
            raise TimestepError(
                f"{unchecked.folder}/timestep.json has no hashes of its tables: an earlier kgedit exported it. Export "
                "it again: kgedit export-timestep with --overwrite"
            )
        results = read_results([Path(run) for run in self.runs], steps) if self.runs else None
        publication = Publication(about, [publish_timestep(step) for step in steps], results)
        return PublishedFolder(folder=path, manifest=write_publication(publication, path, overwrite=self.overwrite))


publish = function_of(Publish)


def read_results(folders: Sequence[Path], timesteps: Sequence[Any]) -> pa.Table:
    """Read the scores of finished runs on these timesteps, in report order, as rows of `RESULTS`.

    Raises:
        TimestepError: if a run is not finished or is on other timesteps, or if two runs have the same name.
    """
    import pyarrow as pa

    from kgedit.records.published import RESULTS
    from kgedit.runs.run_files import read_environment, read_runs

    hashes = {step.sha256 for step in timesteps}
    runs = read_runs(folders)
    names = [run.folder.resolve().name for run in runs]
    twins = sorted({name for name in names if names.count(name) > 1})
    if twins:
        raise TimestepError(f"Two runs are called {twins[0]}. Rename a folder: the name is what readers see.")
    for run in runs:
        environment = read_environment(run.folder)
        made_on = environment.timesteps if environment else ()
        other = [step.name for step in made_on if step.sha256 not in hashes]
        if other or not made_on:
            what = f"on {', '.join(other)}, which is" if other else "on timesteps that it does not name, which are"
            raise TimestepError(f"The run {run.folder} was made {what} not published here. Leave it out.")
    return pa.Table.from_pylist([row for run in runs for row in _rows(run)], schema=RESULTS)


def _rows(run: Run) -> list[dict[str, Any]]:
    common = {
        "run": run.folder.resolve().name,
        "model": run.model,
        "method": run.spec.method,
        "protocol": run.spec.protocol,
        "edits": run.scores.edits.edits,
        "seed": run.spec.seed,
        "answers_sha256": run.scores.answers_sha256,
        "cases_sha256": run.scores.cases_sha256,
    }
    names = ("stage", "timestep", "axis", "preset", "metric", "main", "n", "relations", "mean", "low", "high")
    return [
        common | {"is_share": run.scale_of(score.metric).is_share} | {name: getattr(score, name) for name in names}
        for score in run.scores.scores
    ]


def _checked_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}", name):
        raise TimestepError(
            f"'{name}' is not the name of a dataset: letters, digits, '-', '_' and '.' only. Give another: --name"
        )
    return name


def _checked_version(version: str) -> str:
    if not re.fullmatch(r"(0|[1-9]\d*)(\.(0|[1-9]\d*)){2}([-+][0-9A-Za-z.+-]+)?", version, re.ASCII):
        raise TimestepError(f"'{version}' is not a version MAJOR.MINOR.PATCH, as 1.0.0. Give another: --version")
    return version


def _checked_license(name: str) -> str:
    if not name.strip():
        raise TimestepError("The license is empty. Give an identifier, as cc-by-4.0: --license")
    return name.strip().lower()


def _checked_address(address: str | None) -> str | None:
    if address is not None and not is_web_address(address):
        raise TimestepError(
            f"'{address}' is not an address that begins with https:// or http://. Give another, or leave out: --url"
        )
    return address


@dataclass(frozen=True, slots=True, repr=False)
class Leaderboard:
    """Runs ranked within groups of comparable runs.

    Attributes:
        board: Runs with their provenance, and paths that were left out.
        standings: One per group and preset.
        files: Written files.
    """

    board: Board
    standings: tuple[Standings, ...]
    files: tuple[Path, ...] = ()

    def __repr__(self) -> str:
        return f"<Leaderboard of {len(self.board.runs):,} runs: {len(self.standings)} standings>"

    @property
    def tables(self) -> list[Table]:
        """One table per group and preset."""
        from kgedit.analysis.leaderboard import standings_tables

        return standings_tables(self.standings)

    def to_markdown(self) -> str:
        """Render all tables as one Markdown document."""
        from kgedit.analysis.tables import to_markdown

        return to_markdown(self.tables, title="Leaderboard")

    def to_csv(self) -> str:
        """Render every number as CSV, one row each."""
        from kgedit.analysis.leaderboard import standings_csv

        return standings_csv(self.standings)

    def to_document(self) -> dict[str, Any]:
        """Groups, standings, runs with provenance, and left-out paths as a JSON document."""
        from kgedit.runs.submissions.board import leaderboard_document

        return leaderboard_document(self.board, self.standings)

    def to_json(self) -> str:
        """Render the JSON document as text."""
        return json.dumps(self.to_document(), ensure_ascii=False, indent=1) + "\n"

    def _repr_html_(self) -> str:
        """All tables, for notebooks."""
        return "".join(
            html_table(table.title, [column.title for column in table.columns], table.texts(), note=table.note)
            for table in self.tables
        )


@options
class RankRuns(Verb[Leaderboard]):
    """Rank comparable runs.

    DIR is a board filled by `kgedit submit`, an entry, a run folder, or a folder of run folders. Only runs with the
    same cases, model, presets, training format and protocol are ranked together. Rows are ordered by an overall score,
    which weights damage to unrelated answers as much as efficacy. Every measure has n and its 95 % interval; a rank is
    a range if paired tests find no significant difference. Runs that differ only in their seed share one row. Entries
    are checked when they are read: an entry whose files or scores differ from the submitted ones is left out, with the
    reason.
    """

    paths: OneOrManyPaths = argument(
        kw_only=False, metavar="DIR...", help="Boards, entries, run folders, or folders of run folders."
    )
    html: AnyFile | None = flag(default=None, group="Output", help="Write an HTML page: groups, sortable columns.")
    markdown: AnyFile | None = flag(default=None, group="Output", help="Write the tables as Markdown to this file.")
    csv: AnyFile | None = flag(default=None, group="Output", help="Write every number as one CSV table to this file.")
    json: AnyFile | None = flag(default=None, group="Output", help="Write numbers and provenance as JSON to this file.")
    overwrite: bool = flag(default=False, group="Output", help="Replace these files.")

    def run(self) -> Leaderboard:
        """Rank the runs.

        Raises:
            TimestepError: if a path contains no run, nothing can be ranked, a file exists, or two have the same path.
        """
        from kgedit.analysis.leaderboard import standings_of
        from kgedit.runs.submissions.board import read_board

        files = (self.html, self.markdown, self.csv, self.json)
        page, *others = (None if path is None else Path(path) for path in files)
        check_outputs(path for path in (page, *others) if path)
        board = read_board([Path(path) for path in as_many(self.paths)])
        made = Leaderboard(board, tuple(standings_of([one.run for one in board.runs])))
        texts: dict[Path, str] = {}
        if page:
            from kgedit.pages.leaderboard_page import leaderboard_page

            texts[page] = leaderboard_page(board, made.standings, beside=page.parent)
        for path, text in zip(others, (made.to_markdown, made.to_csv, made.to_json), strict=True):
            if path:
                texts[path] = text()
        return Leaderboard(board, made.standings, tuple(write_files(texts, overwrite=self.overwrite)))


@options
class SubmitRun(Verb["WrittenEntry"]):
    """Check a run and submit it to a board.

    RUN is a folder written by run-edit. The command checks the hashes of its files and of its timesteps, that settings,
    model, seed and versions are recorded, that every case was edited and every question answered in every preset, and
    that the scores follow from the answers. A run that fails is rejected with every reason. Otherwise its entry (JSON,
    and the answers in Parquet) is written to entries/ of the board. Nothing is uploaded. The same run gives one entry.
    """

    folder: AnyFolder = argument(kw_only=False, metavar="RUN", complete="runs", help="Folder written by run-edit.")
    to: AnyFolder = flag(kw_only=False, help="Folder of the board, such as a git or hub repository.")
    timesteps: ManyPaths = flag(
        "--timestep",
        default=(),
        metavar="TIMESTEP",
        complete="timesteps",
        help=f"The run's timestep: {TIMESTEP_FORMS}; repeat in order. Default: that of its spec.",
    )
    submitter: str | None = flag("--by", default=None, metavar="NAME", help="Name of the submitter.")
    date: Day | None = flag(default=None, help="Day of submission. Default: today (UTC).")
    report: str | Path | None = flag(
        default=None, metavar="URL|FILE", help="The run's report page; a file is copied into the entry."
    )
    note: str = flag(default="", metavar="TEXT", help="One line about the run.")
    overwrite: bool = flag(
        default=False, group="Output", help="Replace an existing entry of the same run, with its statement."
    )

    def run(self) -> WrittenEntry:
        """Check the run and write its entry.

        Raises:
            SubmissionError: with every reason why the run is rejected.
            TimestepError: if the report is neither an address nor a file.
        """
        from kgedit.records.published import SubmitterNote
        from kgedit.runs.submissions import check_run
        from kgedit.runs.submissions.entries import write_entry

        address, page = _report(self.report)
        day = read_date(self.date) if self.date else datetime.datetime.now(datetime.UTC).date()
        note = " ".join(self.note.split())
        statement = SubmitterNote(submitter=self.submitter, date=day.isoformat(), report=address, note=note)
        checked = check_run(Path(self.folder), timesteps=[Path(step) for step in self.timesteps])
        return write_entry(checked, Path(self.to), statement, report=page, overwrite=self.overwrite)


leaderboard = function_of(RankRuns, name="leaderboard")
submit = function_of(SubmitRun, name="submit")


def _report(report: str | Path | None) -> tuple[str | None, Path | None]:
    """Address or file of a report page; the other is None."""
    if report is None:
        return None, None
    if is_web_address(str(report)):
        return str(report), None
    if not Path(report).is_file():
        raise TimestepError(f"{report} is neither an address (https://...) nor a file. Leave --report, or name one.")
    return None, Path(report)
