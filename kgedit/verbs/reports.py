"""Reports: compares finished runs as tables, Markdown, JSON, CSV and an HTML page."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kgedit.errors import TimestepError
from kgedit.extras import names_extra
from kgedit.html_tables import html_table
from kgedit.verbs.written_files import write_files

if TYPE_CHECKING:
    from kgedit.analysis.runs import Run
    from kgedit.analysis.tables import Table
    from kgedit.pages.report_page import Page


@dataclass(frozen=True, slots=True, repr=False)
class Report:
    """Comparison of finished runs.

    Attributes:
        runs: Runs in the report's order, which does not depend on the order of the arguments.
        tables: Titled tables of text, most compact first.
        files: Written files.
    """

    runs: tuple[Run, ...]
    tables: tuple[Table, ...]
    files: tuple[Path, ...] = ()

    def __repr__(self) -> str:
        return f"<Report of {len(self.runs):,} runs: {len(self.tables)} tables, {len(self.files)} files>"

    def to_markdown(self) -> str:
        """Render all tables as one Markdown document."""
        from kgedit.analysis.tables import to_markdown

        return to_markdown(self.tables)

    def to_json(self) -> str:
        """Render all tables as one JSON document, with numbers instead of text."""
        from kgedit.analysis.tables import to_json

        return to_json(self.tables)

    def to_csv(self) -> str:
        """Render the numbers as one CSV table, one row per run, preset and axis."""
        from kgedit.analysis.tables import to_csv

        return to_csv(self.runs)

    def _repr_html_(self) -> str:
        """All tables, for notebooks."""
        return "".join(
            html_table(table.title, [column.title for column in table.columns], table.texts(), note=table.note)
            for table in self.tables
        )


@names_extra
def report(
    runs: Run | str | Path | Iterable[Run | str | Path],
    *,
    out: str | Path | None = None,
    markdown: str | Path | None = None,
    csv: str | Path | None = None,
    json: str | Path | None = None,
    html: str | Path | None = None,
    figures: str | Path | None = None,
    easyedit: str | Path | None = None,
    brief: bool = False,
    only: Sequence[str] = (),
    by: Sequence[str] = (),
    counts: str | Path | Mapping[str, int] | None = None,
    knowledge_cutoff: str | None = None,
    rescore: bool = False,
    overwrite: bool = False,
) -> Report:
    """Compare finished runs.

    Args:
        runs: Runs or their folders, and EasyEdit's results files, which are shown in a separate table.
        out: Folder for report.md, report.json, report.csv and tables/ with a CSV file per table; None writes none.
        markdown: File for the tables, instead of report.md.
        csv: File for the scores, instead of report.csv.
        json: File for the tables with numbers, instead of report.json.
        html: File for an HTML page with charts and every answer.
        figures: Folder for the page's figures as SVG and PNG; requires kgedit[figures].
        easyedit: Folder for each run's results in EasyEdit's format, one file per run.
        brief: Whether to include only the overviews, in which every run is one row of each table.
        only: Texts; only tables whose title contains one of them, ignoring case, are included. Empty means all.
        by: Breakdowns of scores: relation, tag, kind, scenario, year, cutoff, category, popularity, subject_views,
            object_views, subject_count, object_count, locality_basis; bleedover by neighbour_similarity,
            neighbour_popularity; two-hop questions by two_hop_count, two_hop_views.
        counts: Mapping from label or id to its number of mentions in a corpus, a file of such pairs, or texts in which
            labels are counted (.txt, .jsonl, .parquet, or a folder of these). Used for breakdowns that end in _count,
            and for neighbour_popularity, instead of the timestep's counts.
        knowledge_cutoff: Last month of the model's pretraining texts, YYYY-MM; None means the published cutoff of a
            listed model (kgedit/data/knowledge_cutoffs.yaml), and no cutoff for other models.
        rescore: Whether to score the answers of every run again first, and replace its scores.json.
        overwrite: Whether to replace files of an earlier report with other content.

    Raises:
        TimestepError: if a folder contains no finished run, a file exists, counts are missing or cannot be read, or no
            title contains any text of `only`.
        MissingExtraError: if figures are requested and the packages that draw them are not installed.
    """
    from kgedit.analysis.report import overview_tables, report_tables
    from kgedit.analysis.results_files import results_files_table
    from kgedit.runs.easyedit_results import easyedit_results, read_easyedit_results
    from kgedit.runs.run_files import read_runs

    _check_breakdowns(by)
    markdown_file, csv_file = _target(markdown, out, "report.md"), _target(csv, out, "report.csv")
    json_file, tables_folder = _target(json, out, "report.json"), Path(out) / "tables" if out is not None else None
    html_file, figures_folder = (None if path is None else Path(path) for path in (html, figures))
    if figures_folder and figures_folder.exists() and not overwrite:
        raise TimestepError(f"{figures_folder} is there already. Replace it: --overwrite")
    folders, files = _folders_and_files(runs)
    _check_files(files, folders, rescore=rescore, of_runs=(html, figures, easyedit, csv))
    if rescore:
        _rescore(folders)
    found = tuple(_with_cutoff(run, knowledge_cutoff) for run in read_runs(folders))
    corpus_counts = _counts(found, by, counts)
    tables_of = overview_tables if brief else report_tables
    of_runs = tables_of(found, by=by, counts=corpus_counts) if found else []
    stated = results_files_table([read_easyedit_results(file) for file in files], found)
    made = Report(runs=found, tables=_chosen([*of_runs, *((stated,) if stated else ())], only))
    documents = ((markdown_file, made.to_markdown), (csv_file, made.to_csv), (json_file, made.to_json))
    texts = {path: text() for path, text in documents if path}
    tables = _tables(made, tables_folder) if tables_folder else {}
    page = _page(found) if html_file or figures_folder else None
    pages = {html_file: page.html} if page and html_file else {}
    if tables_folder:
        _clear(tables_folder, keep=tables, overwrite=overwrite)
    results = {Path(easyedit) / f"{run.folder.name}.json": easyedit_results(run.folder) for run in found if easyedit}
    write_files(texts | tables | pages | results, overwrite=overwrite)
    if page and figures_folder:
        _write_figures(page, figures_folder)
    in_order = (*texts, tables_folder, *pages, figures_folder, *results)
    return Report(made.runs, made.tables, tuple(path for path in in_order if path))


def _chosen(tables: Sequence[Table], only: Sequence[str]) -> tuple[Table, ...]:
    """Tables whose title contains one of these texts.

    Raises:
        TimestepError: if a text is in no title; the message lists the titles.
    """
    if not only:
        return tuple(tables)
    for text in only:
        if not any(text.casefold() in table.title.casefold() for table in tables):
            titles = "; ".join(dict.fromkeys(table.title for table in tables))
            raise TimestepError(f"No table of this report has '{text}' in its title. There are: {titles}.")
    return tuple(table for table in tables if any(text.casefold() in table.title.casefold() for text in only))


def _tables(made: Report, folder: Path) -> dict[Path, str]:
    from kgedit.analysis.tables import file_names, table_to_csv

    named = zip(file_names(made.tables), made.tables, strict=True)
    return {folder / name: table_to_csv(table) for name, table in named}


def _page(runs: Sequence[Run]) -> Page:
    from kgedit.pages.report_page import report_page

    return report_page(runs)


def _write_figures(page: Page, folder: Path) -> None:
    from kgedit.pages.figure_files import write_figures

    write_figures(page.figures, folder)


def _check_breakdowns(by: Sequence[str]) -> None:
    from kgedit.analysis.breakdowns import BREAKDOWNS

    for name in by:
        if name not in BREAKDOWNS:
            raise TimestepError(f"Scores cannot be broken down by '{name}'. Take one of {', '.join(BREAKDOWNS)}.")


def _with_cutoff(run: Run, given: str | None) -> Run:
    from kgedit.analysis.knowledge_cutoffs import published_cutoff, read_cutoff

    return replace(run, knowledge_cutoff=read_cutoff(given) if given else published_cutoff(run.spec.model))


def _counts(runs: Sequence[Run], by: Sequence[str], counts: str | Path | Mapping[str, int] | None) -> Mapping[str, int]:
    """Corpus counts as a mapping; empty means those of the timesteps.

    Raises:
        TimestepError: if a breakdown needs data that no run has, or counts cannot be read.
    """
    from kgedit.analysis.breakdowns import CUTOFF
    from kgedit.records.cases import SPECIFICITY
    from kgedit.timesteps.corpus_counts import corpus_counts

    for name in by:
        missing = name in SPECIFICITY and all(run.cases[name].null_count == len(run.cases) for run in runs)
        if missing and name.endswith("_count") and counts is None:
            raise TimestepError(
                f"The breakdown by {name} needs counts: --counts FILE with a label and a count a line, or texts."
            )
        if missing and name.endswith("_views"):
            raise TimestepError(f"No run has page views for {name}. Export its timestep again with --pageviews FILE.")
        if name == CUTOFF and not any(run.knowledge_cutoff for run in runs):
            raise TimestepError("No knowledge cutoff of these models is known. Give it: --knowledge-cutoff YYYY-MM.")
    if isinstance(counts, str | Path):
        columns = [run.cases[f"{side}_label"] for run in runs for side in ("subject", "object")]
        columns += [run.answers["neighbour_label"] for run in runs if "neighbour_popularity" in by]
        labels = {label for column in columns for label in column.unique().to_pylist() if label}
        return corpus_counts(Path(counts), sorted(labels))
    return counts or {}


def _clear(folder: Path, *, keep: Collection[Path], overwrite: bool) -> None:
    """Remove tables of an earlier report that this one does not contain.

    Raises:
        TimestepError: if there are any and they must not be replaced.
    """
    others = [path for path in sorted(folder.glob("*.csv")) if path not in keep]
    if others and not overwrite:
        raise TimestepError(f"{folder} is there already, with other tables. Replace it: --overwrite")
    for path in others:
        path.unlink()


def _rescore(folders: Sequence[Path]) -> None:
    """Score all runs again; if one of them is not finished, none is changed."""
    from kgedit.runs.run_files import require_finished
    from kgedit.runs.scoring import write_scores

    for folder in folders:
        require_finished(folder)
    for folder in folders:
        write_scores(folder)


def _folders_and_files(runs: Run | str | Path | Iterable[Run | str | Path]) -> tuple[list[Path], list[Path]]:
    """Split into folders of runs and results files of EasyEdit, each file once."""
    from kgedit.analysis.runs import Run

    given = [runs] if isinstance(runs, Run | str | Path) else runs
    paths = [one.folder if isinstance(one, Run) else Path(one) for one in given]
    files = {path.resolve(): path for path in paths if path.is_file()}
    return [path for path in paths if not path.is_file()], sorted(files.values())


def _check_files(
    files: Sequence[Path], folders: Sequence[Path], *, rescore: bool, of_runs: Sequence[str | Path | None]
) -> None:
    """Reject options that results files do not support.

    Raises:
        TimestepError: if they should be scored again, or an option needs a run and there is none.
    """
    if files and rescore:
        raise TimestepError(
            f"{files[0]} is a results file without answers: nothing in it can be scored again. Leave out --rescore."
        )
    if not folders and any(of_runs):
        raise TimestepError("Pages, figures, CSV scores and EasyEdit results are made of runs: name a run as well.")


def _target(file: str | Path | None, folder: str | Path | None, name: str) -> Path | None:
    if file is not None:
        return Path(file)
    return None if folder is None else Path(folder) / name
