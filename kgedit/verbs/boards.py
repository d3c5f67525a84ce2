"""Leaderboards: submits a finished run to a board, and ranks the runs on boards."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgedit.errors import TimestepError
from kgedit.html_tables import html_table
from kgedit.untrusted import is_web_address
from kgedit.verbs.home_folder import read_date
from kgedit.verbs.written_files import write_files

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


def leaderboard(
    paths: str | Path | Iterable[str | Path],
    *,
    html: str | Path | None = None,
    markdown: str | Path | None = None,
    csv: str | Path | None = None,
    json: str | Path | None = None,
    overwrite: bool = False,
) -> Leaderboard:
    """Rank runs against comparable runs only.

    Args:
        paths: Boards, entries, run folders, or folders of run folders.
        html: File for an HTML page.
        markdown: File for the tables.
        csv: File for every number, one row each.
        json: File for the document with numbers and provenance.
        overwrite: Whether to replace files with other content.

    Raises:
        TimestepError: if a path contains no run, nothing can be ranked, or a file exists.
    """
    from kgedit.analysis.standings import standings_of
    from kgedit.runs.submissions.board import read_board

    given = [paths] if isinstance(paths, str | Path) else list(paths)
    page, *others = (None if path is None else Path(path) for path in (html, markdown, csv, json))
    board = read_board([Path(path) for path in given])
    made = Leaderboard(board, tuple(standings_of([one.run for one in board.runs])))
    texts: dict[Path, str] = {}
    if page:
        from kgedit.pages.leaderboard_page import leaderboard_page

        texts[page] = leaderboard_page(board, made.standings, beside=page.parent)
    for path, text in zip(others, (made.to_markdown, made.to_csv, made.to_json), strict=True):
        if path:
            texts[path] = text()
    return Leaderboard(board, made.standings, tuple(write_files(texts, overwrite=overwrite)))


def submit(
    run: str | Path,
    to: str | Path,
    *,
    timesteps: Iterable[str | Path] = (),
    submitter: str | None = None,
    date: str | datetime.date | None = None,
    report: str | Path | None = None,
    note: str = "",
    overwrite: bool = False,
) -> WrittenEntry:
    """Check a finished run and write its entry into a board's folder; nothing is uploaded.

    Args:
        run: Folder written by run-edit.
        to: The board: any folder, such as a clone of a git or hub repository.
        timesteps: Current paths of the run's timesteps, in order; empty means the paths in its spec.
        submitter: Name of the submitter; None if anonymous.
        date: Day of submission; None means today (UTC).
        report: Address (https://...) or file of the run's report page; a file is copied into the entry.
        note: One line about the run.
        overwrite: Whether to replace an existing entry of the same run, including its statement.

    Raises:
        SubmissionError: with every reason why the run is rejected.
        TimestepError: if the report is neither an address nor a file.
    """
    from kgedit.records.published import SubmitterNote
    from kgedit.runs.submissions.checks import check_run
    from kgedit.runs.submissions.entries import write_entry

    address, page = _report(report)
    day = read_date(date).isoformat() if date else datetime.datetime.now(datetime.UTC).date().isoformat()
    statement = SubmitterNote(submitter=submitter, date=day, report=address, note=" ".join(note.split()))
    checked = check_run(Path(run), timesteps=[Path(step) for step in timesteps])
    return write_entry(checked, Path(to), statement, report=page, overwrite=overwrite)


def _report(report: str | Path | None) -> tuple[str | None, Path | None]:
    """Address or file of a report page; the other is None."""
    if report is None:
        return None, None
    if is_web_address(str(report)):
        return str(report), None
    if not Path(report).is_file():
        raise TimestepError(f"{report} is neither an address (https://...) nor a file. Leave --report, or name one.")
    return None, Path(report)
