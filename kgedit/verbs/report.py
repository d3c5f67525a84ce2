"""Reports: compares finished runs as tables, Markdown, JSON, CSV and an HTML page."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator

from kgedit.errors import TimestepError
from kgedit.files import check_outputs, write_files
from kgedit.html_tables import html_table
from kgedit.verbs.options import (
    AnyFile,
    AnyFolder,
    AnyPath,
    ExistingPath,
    HomeVerb,
    Names,
    PathType,
    Verb,
    argument,
    as_many,
    flag,
    function_of,
    many,
    options,
)

if TYPE_CHECKING:
    from kgedit.analysis.runs import Run
    from kgedit.analysis.tables import Table
    from kgedit.pages.report_page import Page

    Runs = Run | str | Path | Iterable[Run | str | Path]
else:  # importing Run would import pyarrow
    Runs = Annotated[Sequence[Annotated[Any, PathType()]], BeforeValidator(as_many)]


_SENTENCES = 3
"""Number of sentences under the table of `kgedit report`: gain, damage, and one limit fit under it on a screen."""


@dataclass(frozen=True, slots=True, repr=False)
class Report:
    """Comparison of finished runs.

    Attributes:
        runs: Runs in the report's order, which does not depend on the order of the arguments.
        tables: Titled tables of text, most compact first: all, the overviews (`brief`), or the chosen ones (`only`).
        files: Written files, which contain all tables.
        summary: The first table of each group of comparable runs, and the breakdowns.
        notes: Notes about what the files lack.
        sentences: Verdict on the runs: three sentences for runs that are comparable, else the first one of each group.
    """

    runs: tuple[Run, ...]
    tables: tuple[Table, ...]
    files: tuple[Path, ...] = ()
    summary: tuple[Table, ...] = ()
    sentences: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

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


@options
class ReportRuns(Verb[Report]):
    """Compare finished runs in a table and sentences.

    The table has a row for each run, and the presets side by side, with 95 % intervals clustered by relation. The
    scores stated in results files of EasyEdit are shown in a separate table, without intervals and tests, because these
    files contain no answers. --by adds breakdowns. --all prints every table, --table some of them; --out and the other
    files always contain all.

    Of all tables, overviews come first: every run by axis, and means over seeds. Then paired tests (permutations of
    whole relations) between methods on the same questions, one table per axis and preset with its cost, the accuracy
    matrix over timesteps, two-hop questions by their hops, errors by class, and forward time. Last come tables over
    several models: means over models and by timestep, forced against free answers with averages over methods, and
    unsolved questions. The order of rows does not depend on the order of the arguments. Only runs with the same cases,
    model, training format and evaluation share a table; other runs form separate groups and are not ranked together. A
    table too wide for the terminal is split. The page of --html is a single file that makes no network requests: a
    verdict in sentences, the comparison, charts with their numbers, a browser of all answers, and provenance.
    """

    runs: Runs = argument(
        kw_only=False,
        metavar="RUN...",
        complete="runs",
        help="Folders written by run-edit, and results files of EasyEdit; in Python also runs.",
    )
    by: Names = flag(
        default=(),
        metavar="NAME",
        complete="breakdowns",
        help="Break scores down by relation, tag, kind, scenario, year, cutoff, category, popularity, subject_views, "
        "object_views, subject_count, object_count, locality_basis or hops, bleedover by neighbour_similarity or "
        "neighbour_popularity, or two-hop questions by two_hop_count or two_hop_views; repeat.",
    )
    only: Names = flag(
        "--table", default=(), metavar="TEXT", help="Only tables with TEXT in their title, in any case; repeat."
    )
    brief: bool = flag(default=False, help="Print the overviews: every run in one row of each table.")
    counts: ExistingPath | Mapping[str, int] | None = flag(
        default=None,
        rare=True,
        help="Counts of labels or ids in a corpus (tab, CSV, JSON), or texts to count labels in; for tenths by count.",
    )
    knowledge_cutoff: str | None = flag(
        default=None,
        rare=True,
        metavar="YYYY-MM",
        help="Last month of the model's pretraining texts, for --by cutoff. Default: the published one of a listed "
        "model.",
    )
    rescore: bool = flag(default=False, help="Score answers.jsonl again first, and replace scores.json.")
    out: AnyFolder | None = flag(
        default=None,
        group="Output",
        help="Write report.md, report.json, report.csv and a CSV file for each table here.",
    )
    html: AnyFile | None = flag(
        default=None, group="Output", help="Write an HTML page: charts, and all answers with search."
    )
    figures: AnyFolder | None = flag(
        default=None,
        group="Output",
        help="Write the page's figures here as SVG and PNG, sized for a paper (kgedit[figures]).",
    )
    markdown: AnyFile | None = flag(
        default=None, group="Output", rare=True, help="Write the tables as Markdown to this file."
    )
    csv: AnyFile | None = flag(
        default=None,
        group="Output",
        rare=True,
        help="Write the scores as one CSV table to this file, shares as fractions of 1.",
    )
    json: AnyFile | None = flag(
        default=None, group="Output", rare=True, help="Write the tables with numbers as JSON to this file."
    )
    easyedit: AnyFolder | None = flag(
        default=None,
        group="Output",
        rare=True,
        help="Write the results of each run here as EasyEdit does: one JSON file a run, by its teacher-forced preset.",
    )
    overwrite: bool = flag(default=False, group="Output", help="Replace files of an earlier report.")

    def run(self) -> Report:
        """Compare the runs.

        Raises:
            TimestepError: if a folder contains no finished run, a file exists, counts are missing or cannot be read, or
                no title contains any text of `only`.
            MissingExtraError: if figures are requested and the packages that draw them are not installed.
        """
        return _report(self)


report = function_of(ReportRuns, name="report")


def _report(wanted: ReportRuns) -> Report:
    from kgedit.runs.easyedit_results import easyedit_results
    from kgedit.runs.run_files import read_runs

    _check_breakdowns(wanted.by)
    targets = _targets(wanted)
    folders, files = _folders_and_files(wanted.runs)
    easyedit_files = _easyedit_files(folders, wanted.easyedit)
    check_outputs([*targets.all, *easyedit_files.values()])
    of_runs_only = (wanted.html, wanted.figures, wanted.easyedit, wanted.csv)
    _check_files(files, folders, rescore=wanted.rescore, of_runs=of_runs_only)
    if wanted.rescore:
        _rescore(folders)
    found = tuple(_with_cutoff(run, wanted.knowledge_cutoff) for run in read_runs(folders))
    made, whole = _compare(wanted, found, files)
    runs = found if easyedit_files else ()
    results = {easyedit_files[run.folder.resolve()]: easyedit_results(run.folder) for run in runs}
    written = _write(whole, targets, {path: one.text for path, one in results.items()}, overwrite=wanted.overwrite)
    notes = tuple(
        f"{path}: {one.left_out:,} of {one.edits:,} edits left out, because their own question was not asked"
        for path, one in results.items()
        if one.left_out
    )
    return replace(made, files=written, notes=notes)


@dataclass(frozen=True, slots=True)
class _Targets:
    """Where a report is written; None: not written."""

    markdown: Path | None
    csv: Path | None
    json: Path | None
    html: Path | None
    tables: Path | None
    figures: Path | None

    @property
    def all(self) -> list[Path]:
        """The files, and the folder of figures."""
        return [path for path in (self.markdown, self.csv, self.json, self.html, self.figures) if path]


def _targets(wanted: ReportRuns) -> _Targets:
    out = wanted.out
    figures = Path(wanted.figures) if wanted.figures else None
    if figures and figures.exists() and not wanted.overwrite:
        raise TimestepError(f"{figures} already exists. Replace it: --overwrite")
    return _Targets(
        markdown=_target(wanted.markdown, out, "report.md"),
        csv=_target(wanted.csv, out, "report.csv"),
        json=_target(wanted.json, out, "report.json"),
        html=Path(wanted.html) if wanted.html else None,
        tables=Path(out) / "tables" if out else None,
        figures=figures,
    )


def _compare(wanted: ReportRuns, found: tuple[Run, ...], files: Sequence[Path]) -> tuple[Report, Report]:
    """The report as printed, and with all tables, as in its files."""
    from kgedit.analysis.report import overview_tables, report_tables, summary_tables
    from kgedit.analysis.results_files import results_files_table
    from kgedit.runs.easyedit_results import read_easyedit_results

    corpus_counts = _counts(found, wanted.by, wanted.counts)
    stated = results_files_table([read_easyedit_results(file) for file in files], found)

    def tables_by(tables_of: Callable[..., list[Table]]) -> tuple[Table, ...]:
        made = tables_of(found, by=wanted.by, counts=corpus_counts) if found else []
        return (*made, *([stated] if stated else []))

    tables = tables_by(overview_tables if wanted.brief else report_tables)
    made = Report(
        runs=found,
        tables=_chosen(tables, wanted.only),
        summary=tables_by(summary_tables),
        sentences=tuple(_verdict(found)),
    )
    has_files = wanted.out or wanted.markdown or wanted.json
    if wanted.brief and has_files:
        tables = tables_by(report_tables)
    return made, replace(made, tables=tables)


def _write(made: Report, targets: _Targets, results: dict[Path, str], *, overwrite: bool) -> tuple[Path, ...]:
    """Write the files of a report, and those of its runs for EasyEdit; returns files and folders in order."""
    documents = ((targets.markdown, made.to_markdown), (targets.csv, made.to_csv), (targets.json, made.to_json))
    texts = {path: text() for path, text in documents if path}
    tables = _tables(made, targets.tables) if targets.tables else {}
    page = _page(made.runs) if targets.html or targets.figures else None
    pages = {targets.html: page.html} if page and targets.html else {}
    check_outputs([*targets.all, *results, *tables])
    if targets.tables:
        _clear(targets.tables, keep=tables, overwrite=overwrite)
    write_files(texts | tables | pages | results, overwrite=overwrite)
    if page and targets.figures:
        _write_figures(page, targets.figures)
    return tuple(path for path in (*texts, targets.tables, *pages, targets.figures, *results) if path)


def _verdict(runs: Sequence[Run]) -> list[str]:
    """Sentences of the page's verdict on the first view of each group."""
    from kgedit.pages.report_views import views_of
    from kgedit.pages.verdict import verdict_of

    first_views = {view.group: view for view in reversed(views_of(runs))} if runs else {}
    groups = [verdict_of(view).sentences for _, view in sorted(first_views.items())]
    if len(groups) == 1:
        return list(groups[0][:_SENTENCES])
    return [f"Group {number}: {sentences[0]}" for number, sentences in enumerate(groups, start=1) if sentences]


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
    from kgedit.pages.marks import write_figures

    write_figures(page.figures, folder)


def _check_breakdowns(by: Sequence[str]) -> None:
    from kgedit.analysis.breakdowns import BREAKDOWNS

    for name in by:
        if name not in BREAKDOWNS:
            raise TimestepError(f"Scores cannot be broken down by '{name}'. Take one of {', '.join(BREAKDOWNS)}.")


def _with_cutoff(run: Run, given: str | None) -> Run:
    from kgedit.analysis.breakdowns import published_cutoff, read_cutoff

    return replace(run, knowledge_cutoff=read_cutoff(given) if given else published_cutoff(run.spec.model))


def _counts(runs: Sequence[Run], by: Sequence[str], counts: str | Path | Mapping[str, int] | None) -> Mapping[str, int]:
    """Corpus counts as a mapping; empty means those of the timesteps.

    Raises:
        TimestepError: if a breakdown needs data that no run has, or counts cannot be read.
    """
    from kgedit.analysis.breakdowns import CUTOFF, TWO_HOP_BREAKDOWNS
    from kgedit.records.cases import SPECIFICITY
    from kgedit.timesteps.specificity import corpus_counts

    for name in by:
        measure = name.removeprefix("two_hop_") if name in TWO_HOP_BREAKDOWNS else None
        needed = [known for known in SPECIFICITY if known == name or (measure and known.endswith(f"_{measure}"))]
        empty = [run.cases[column].null_count == len(run.cases) for run in runs for column in needed]
        missing = bool(needed) and all(empty)
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
        raise TimestepError(f"{folder} already exists, with other tables. Replace it: --overwrite")
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

    paths = [one.folder if isinstance(one, Run) else Path(one) for one in as_many(runs)]
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


def _easyedit_files(folders: Sequence[Path], target: str | Path | None) -> dict[Path, Path]:
    """File of each run's results in EasyEdit's format, by the run's resolved folder; empty without a target.

    Raises:
        TimestepError: if two runs have the same name.
    """
    different = list(dict.fromkeys(folder.resolve() for folder in folders))
    names = [folder.name for folder in different]
    if target and (twins := sorted({name for name in names if names.count(name) > 1})):
        raise TimestepError(f"Two runs are called {twins[0]}. Rename a folder: --easyedit names files after the runs.")
    return {folder: Path(target) / f"{folder.name}.json" for folder in different} if target else {}


def _target(file: str | Path | None, folder: str | Path | None, name: str) -> Path | None:
    if file is not None:
        return Path(file)
    return None if folder is None else Path(folder) / name


@options
class ViewRuns(HomeVerb[Path]):
    """Open the page of a run, or of several side by side.

    The page is that of `kgedit report --html`: a verdict, charts and every answer to search. It is written to the
    folder `reports` of the home, and its path is printed.
    """

    runs: Annotated[Sequence[AnyPath], BeforeValidator(many)] = argument(
        kw_only=False, metavar="RUN...", complete="runs", help="Run folders."
    )

    def run(self, home: Path) -> Path:
        """Write the page.

        Raises:
            TimestepError: if a folder contains no finished run.
        """
        runs = [Path(run) for run in self.runs]
        name = "-".join(run.resolve().name for run in runs)
        if len(runs) > 1:  # names of many runs are longer than a file name may be
            name = f"{len(runs)}-runs-{hashlib.sha256(name.encode()).hexdigest()[:10]}"
        page = home / "reports" / name / "report.html"
        report(runs, html=page, overwrite=True)
        return page
