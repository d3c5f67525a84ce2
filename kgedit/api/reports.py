"""A report: finished runs side by side, as tables, Markdown and CSV."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kgedit.errors import BenchmarkError
from kgedit.files import replace_file
from kgedit.html_tables import html_table

if TYPE_CHECKING:
    from kgedit.analysis.runs import Run
    from kgedit.analysis.tables import Table


@dataclass(frozen=True, slots=True)
class Report:
    """Finished runs compared.

    Attributes:
        runs: In the report's order, which does not depend on the order in which they were given.
        tables: Titled tables of text, the most compact first.
        files: Files that were written.
    """

    runs: tuple[Run, ...]
    tables: tuple[Table, ...]
    files: tuple[Path, ...] = ()

    def to_markdown(self) -> str:
        """All tables as one Markdown document."""
        from kgedit.analysis.renderings import to_markdown

        return to_markdown(self.tables)

    def to_csv(self) -> str:
        """The numbers as one CSV table: a row for each run, preset and axis."""
        from kgedit.analysis.renderings import to_csv

        return to_csv(self.runs)

    def _repr_html_(self) -> str:
        """For notebooks: every table."""
        return "".join(
            html_table(table.title, [column.name for column in table.columns], table.rows, note=table.note)
            for table in self.tables
        )


def report(
    runs: Run | str | Path | Iterable[Run | str | Path],
    *,
    out: str | Path | None = None,
    markdown: str | Path | None = None,
    csv: str | Path | None = None,
    brief: bool = False,
    rescore: bool = False,
    overwrite: bool = False,
) -> Report:
    """Compare finished runs.

    Args:
        runs: Runs, or their folders.
        out: Folder for report.md and report.csv; None to write neither.
        markdown: File for the tables, instead of report.md.
        csv: File for the numbers, instead of report.csv.
        brief: Only the overviews: every run in one row of each table.
        rescore: Score the answers of every run again first, and replace its scores.json.
        overwrite: Whether files of an earlier report are replaced.

    Raises:
        BenchmarkError: if a folder holds no finished run, or a file exists.
    """
    from kgedit.analysis.tables import overview_tables, report_tables
    from kgedit.runs.run_files import read_runs

    markdown_file, csv_file = _target(markdown, out, "report.md"), _target(csv, out, "report.csv")
    for path in (markdown_file, csv_file):
        if path and path.exists() and not overwrite:
            raise BenchmarkError(f"{path} is there already. Replace it: --overwrite")
    folders = _folders(runs)
    if rescore:
        _rescore(folders)
    found = tuple(read_runs(folders))
    made = Report(runs=found, tables=tuple(overview_tables(found) if brief else report_tables(found)))
    written = [_write(markdown_file, made.to_markdown())] if markdown_file else []
    written += [_write(csv_file, made.to_csv())] if csv_file else []
    return Report(runs=made.runs, tables=made.tables, files=tuple(written))


def _rescore(folders: Sequence[Path]) -> None:
    """Score again; where one of the runs is not finished, none is changed."""
    from kgedit.runs.run_files import require_finished
    from kgedit.runs.scoring import write_scores

    for folder in folders:
        require_finished(folder)
    for folder in folders:
        write_scores(folder)


def _folders(runs: Run | str | Path | Iterable[Run | str | Path]) -> list[Path]:
    from kgedit.analysis.runs import Run

    given = [runs] if isinstance(runs, Run | str | Path) else runs
    return [one.folder if isinstance(one, Run) else Path(one) for one in given]


def _target(file: str | Path | None, folder: str | Path | None, name: str) -> Path | None:
    if file is not None:
        return Path(file)
    return None if folder is None else Path(folder) / name


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return replace_file(path, text)
