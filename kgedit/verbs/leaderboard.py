"""Leaderboards: submits a finished run to a board, and ranks the runs on boards."""

from __future__ import annotations

import datetime
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgedit.errors import TimestepError
from kgedit.files import write_files
from kgedit.html_tables import html_table
from kgedit.untrusted import is_web_address
from kgedit.verbs.home_folder import read_date
from kgedit.verbs.options import (
    AnyFile,
    AnyFolder,
    Day,
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
    from kgedit.analysis.standings import Standings
    from kgedit.analysis.tables import Table
    from kgedit.runs.submissions.board import Board
    from kgedit.runs.submissions.entries import WrittenEntry


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
        """Rank them.

        Raises:
            TimestepError: if a path contains no run, nothing can be ranked, or a file exists.
        """
        from kgedit.analysis.standings import standings_of
        from kgedit.runs.submissions.board import read_board

        files = (self.html, self.markdown, self.csv, self.json)
        page, *others = (None if path is None else Path(path) for path in files)
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
        """Check it and write its entry.

        Raises:
            SubmissionError: with every reason why the run is rejected.
            TimestepError: if the report is neither an address nor a file.
        """
        from kgedit.records.published import SubmitterNote
        from kgedit.runs.submissions.checks import check_run
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
