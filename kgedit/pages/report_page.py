"""Page of a report: converts runs to one HTML file and its figures, with the provenance of the numbers.

Provenance includes the commands that reproduce them.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kgedit.analysis.overviews import kinds_of
from kgedit.analysis.runs import Run
from kgedit.analysis.tables import Estimate, Table, as_text
from kgedit.errors import TimestepError
from kgedit.pages.answer_rows import AnswerBook
from kgedit.pages.charts import percent, same_count
from kgedit.pages.charts.lines import ForestRow, interval_strip
from kgedit.pages.marks import Drawing, Figure
from kgedit.pages.report_figures import exhibits_of, forest_row
from kgedit.pages.report_views import AXIS_NAMES, Exhibit, MethodView, View, in_days, run_keys, run_names, views_of
from kgedit.pages.shell import packed, render
from kgedit.pages.verdict import Verdict, verdict_of
from kgedit.records.cases import Axis
from kgedit.records.runs import RunEnvironment
from kgedit.runs.run_files import read_environment


@dataclass(frozen=True, slots=True)
class ChartSection:
    """A section of charts.

    Attributes:
        id: Anchor of the section.
        name: Name in the table of contents.
        title: Heading.
        lede: Description of its content.
        missing: Reason why it is empty, and how to fill it.
        chosen: Whether it shows one selectable figure at a time.
    """

    id: str
    name: str
    title: str
    lede: str
    missing: str
    chosen: bool = False


CHART_SECTIONS = (
    ChartSection(
        "asking",
        "Two ways of asking",
        "Two ways of asking the same question",
        "Teacher forcing feeds the target and counts its tokens. Free decoding lets the model write. A method that "
        "holds its knowledge draws a level line.",
        "These runs were asked in one way only; a run with the presets synthetic and wild is asked in both.",
    ),
    ChartSection(
        "tradeoff",
        "Gain and damage",
        "What was gained, what was broken",
        "Up is better, left is better. Two goals make no single score: where one method is higher and another further "
        "left, neither is the better one.",
        "Damage is seen on unrelated questions, and these runs asked none before and after.",
    ),
    ChartSection(
        "curves",
        "As edits add up",
        "As edits add up",
        "Edits that are all in force, asked for after more and more of them.",
        "No run was asked at several numbers of edits: run-edit --protocol sequential --evaluate-every N asks.",
    ),
    ChartSection(
        "forgetting",
        "Forgetting",
        "What later timesteps undo",
        "Read down a column: the same questions, after more and more later edits.",
        "No run learned several timesteps and was asked again: run-edit --timestep A --timestep B --evaluate-earlier.",
        chosen=True,
    ),
    ChartSection(
        "breakdowns",
        "By relation, kind, tag",
        "What kinds of edits hold",
        "Some relations are easy because their answers are short or few.",
        "All edits have the same relation, kind and tag, or an earlier kgedit made the runs.",
        chosen=True,
    ),
    ChartSection(
        "knowledge",
        "By year, views, counts",
        "What the model could have known",
        "Facts by their dates, and by how well known their subjects and objects are: what the unedited model answers, "
        "and what edits change.",
        "The facts have no dates, and the timestep was exported without --pageviews and --counts.",
        chosen=True,
    ),
    ChartSection(
        "retrieval",
        "Retrieval",
        "Was the fact found, and was it used?",
        "A retriever can miss, and a model can ignore what was found: different faults.",
        "No method of this group retrieves.",
    ),
    ChartSection("cost", "Cost", "Cost", "What the edits took.", "Nothing was measured."),
)


@dataclass(frozen=True, slots=True)
class ComparedCell:
    """One number of the comparison."""

    value: str
    interval: str
    best: bool
    strip: Drawing | None


@dataclass(frozen=True, slots=True)
class ComparedRow:
    """One method of the comparison."""

    name: str
    protocol: str
    cells: tuple[ComparedCell, ...]
    seconds: str
    gibibytes: str
    is_baseline: bool


@dataclass(frozen=True, slots=True)
class ComparedColumn:
    """One axis of the comparison."""

    axis: Axis
    name: str
    beside: str


@dataclass(frozen=True, slots=True)
class ShownView:
    """A view as used by the template."""

    key: str
    name: str
    title: str
    what: str
    verdict: Verdict
    columns: tuple[ComparedColumn, ...]
    rows: tuple[ComparedRow, ...]
    comparison_tables: tuple[Table, ...]
    exhibits: dict[str, list[Exhibit]]


@dataclass(frozen=True, slots=True)
class Page:
    """A page and its figures.

    Attributes:
        html: Content of the file.
        figures: Figures as shown on it.
    """

    html: str
    figures: tuple[Figure, ...]


def report_page(runs: Sequence[Run]) -> Page:
    """Render the page of finished runs; the same runs give the same bytes.

    Args:
        runs: Runs in report order.
    """
    views = views_of(runs)
    shown, figures = [], []
    for view in views:
        exhibits = exhibits_of(view)
        figures += [exhibit.figure for exhibit in exhibits]
        shown.append(_shown(view, exhibits, several=len({one.group for one in views}) > 1))
    largest = max(views, key=lambda view: sum(len(run.answers) for run in view.runs), default=None)
    groups = {view.group: view for view in reversed(views)}
    book = _answers(groups.values())
    html = render(
        "report.html.j2",
        styles=["report.css"],
        scripts=["report.js", "answers.js"],
        title="Editing results",
        brand="kgedit report",
        meta=_meta(runs, len(groups), len(book.columns["run"])),
        sections=[
            ("verdict", "Verdict"),
            ("comparison", "Comparison"),
            *((one.id, one.name) for one in CHART_SECTIONS),
            ("answers", "Answers"),
            ("provenance", "Provenance"),
        ],
        views=shown,
        first=largest.key if largest else "",
        chart_sections=CHART_SECTIONS,
        answers=packed(book.as_data()),
        provenance=[provenance_of(_title(groups[number]), groups[number].runs) for number in sorted(groups)],
        commands=commands_of(runs),
        **_key(),
    )
    return Page(html, tuple(figures))


def _meta(runs: Sequence[Run], groups: int, questions: int) -> str:
    def counted(number: int, word: str) -> str:
        return f"{number:,} {word}{'' if number == 1 else 's'}"

    totals = (counted(len(runs), "run"), counted(groups, "group"), counted(questions, "answer"))
    return f"{totals[0]} in {totals[1]} · {totals[2]}, each before and after"


def _answers(views: Iterable[View]) -> AnswerBook:
    book = AnswerBook()
    known = set()
    for view in sorted(views, key=lambda view: view.group):
        for name, key, run in zip(run_names(view.runs), view.run_keys, view.runs, strict=True):
            # A method without training is part of several groups, with the same answers.
            if run.folder not in known:
                known.add(run.folder)
                book.add_run(run, key=key, name=name, group=view.group)
    return book


def _key() -> dict[str, Drawing]:
    free = ForestRow("", None, Estimate(0.45, 0.2, 0.7), None)
    return {
        "key_free": interval_strip(free, width=60),
        "key_forced": interval_strip(ForestRow("", None, None, Estimate(0.5)), width=20),
        "key_before": interval_strip(ForestRow("", 0.5, None, None), width=20),
    }


def _title(view: View) -> str:
    run = view.runs[0]
    return f"{run.model}, {_timesteps(run)}"


def _timesteps(run: Run) -> str:
    steps = run.scores.timesteps
    return in_days(steps[0]) if len(steps) == 1 else f"{len(steps)} timesteps"


def _shown(view: View, exhibits: Sequence[Exhibit], *, several: bool) -> ShownView:
    presets = " + ".join(preset.name for preset in (view.free, view.forced) if preset)
    cases = view.runs[0].cases.num_rows
    trained = next((run.spec.train_context for run in view.runs if run.spec.train_context), None)
    what = [f"{cases:,} edits" if cases else "", f"presets {presets}", f"trained in {trained}" if trained else ""]
    columns = _columns(view)
    by_section: dict[str, list[Exhibit]] = {section.id: [] for section in CHART_SECTIONS}
    compared: tuple[Table, ...] = ()
    for exhibit in exhibits:
        if exhibit.section == "comparison":
            compared = exhibit.tables
        else:
            by_section[exhibit.section].append(exhibit)
    free = view.free.name if view.free else "teacher forcing"
    return ShownView(
        key=view.key,
        name=f"{view.group}: {_title(view)} · {free}" if several else f"{_title(view)} · {free}",
        title=f"{view.group}. {_title(view)}" if several else _title(view),
        what=" · ".join(part for part in what if part),
        verdict=verdict_of(view),
        columns=columns,
        rows=tuple(_row(view, method, columns) for method in view.methods),
        comparison_tables=compared,
        exhibits=by_section,
    )


def _columns(view: View) -> tuple[ComparedColumn, ...]:
    columns = []
    for axis in view.axes:
        estimates = [_estimate(method, axis) for method in view.methods]
        if any(estimates):
            name = "Locality kept" if axis == "locality" else AXIS_NAMES[axis]
            columns.append(ComparedColumn(axis, name, same_count(estimates)))
    return tuple(columns)


def _estimate(method: MethodView, axis: Axis) -> Estimate | None:
    row = forest_row(method, axis)
    return row.free or row.forced


def _row(view: View, method: MethodView, columns: Sequence[ComparedColumn]) -> ComparedRow:
    run = method.run
    return ComparedRow(
        name=method.name.removesuffix(f" {run.spec.protocol.replace('_', ' ')}") if run else method.name,
        protocol=run.spec.protocol.replace("_", " ") if run else "before any edit",
        cells=tuple(_cell(view, method, column.axis) for column in columns),
        seconds=as_text(run.cpu_seconds_per_edit if run else None, "seconds"),
        gibibytes=f"{run.scores.edits.peak_memory_bytes / 2**30:.1f}" if run else "–",
        is_baseline=method.is_baseline,
    )


def _cell(view: View, method: MethodView, axis: Axis) -> ComparedCell:
    found = _estimate(method, axis)
    if found is None:
        return ComparedCell("–", "", best=False, strip=None)
    edited = [one.mean for other in view.edited if (one := _estimate(other, axis))]
    best = not method.is_baseline and len(edited) > 1 and found.mean == max(edited) and found.mean > 0
    ends = [f"{100 * end:.0f}" for end in (found.low, found.high) if end is not None]
    strip = interval_strip(forest_row(method, axis))
    return ComparedCell(percent(found.mean, n=found.n), "–".join(ends), best, strip)


_HASH = 16  # shown digits of a SHA-256: 64 bits distinguish any two files


@dataclass(frozen=True, slots=True)
class Provenance:
    """Provenance of the numbers of one group.

    Attributes:
        title: The group.
        facts: Names and descriptions.
    """

    title: str
    facts: tuple[tuple[str, str], ...]


def provenance_of(title: str, runs: Sequence[Run]) -> Provenance:
    """Provenance of the runs of a group; differing entries are listed run by run."""
    known = [_environment(run) for run in runs]
    facts = [
        ("Cases", f"{_cases(runs[0])} (sha256 {runs[0].scores.cases_sha256[:_HASH]}…)"),
        ("Kinds of change", _alike(kinds_of(run) for run in runs)),
        (
            "Timesteps",
            _alike(
                "; ".join(f"{one.name} sha256 {one.sha256[:_HASH]}…" for one in env.timesteps) for env in known if env
            ),
        ),
        ("Model", _alike(_model(env) for env in known if env)),
        ("Presets", "; ".join(_presets(runs))),
        (
            "Contexts",
            _alike("; ".join(f"{n} {sha[:_HASH]}…" for n, sha in sorted(env.contexts.items())) for env in known if env),
        ),
        ("Intervals", f"95 %: {runs[0].scores.intervals}"),
        ("Seeds", _alike(str(run.spec.seed) for run in runs)),
        ("Made with", _alike(_packages(env) for env in known if env)),
        ("On", _alike(f"{env.device}, {env.threads} threads, {env.platform}" for env in known if env)),
    ]
    facts += [(name, _made(run, env)) for name, run, env in zip(run_names(runs), runs, known, strict=True)]
    return Provenance(title, tuple((name, said) for name, said in facts if said))


def commands_of(runs: Sequence[Run]) -> str:
    """Commands that reproduce the runs, each from its own spec, and then this page."""
    folders = [str(run.folder) for run in runs]
    keys = run_keys(runs)
    again = [
        f"kgedit run-edit {shlex.quote(f'{run.folder}/spec.yaml')} --out {shlex.quote(f'again/{keys[run.folder]}')}"
        for run in runs
    ]
    return "\n".join([*again, f"kgedit report {shlex.join(folders)} --html report.html"])


def _environment(run: Run) -> RunEnvironment | None:
    try:
        return read_environment(run.folder)
    except TimestepError:
        return None  # unreadable in earlier versions: the page shows less, with the same numbers


def _alike(said: Iterable[str]) -> str:
    return " | ".join(dict.fromkeys(said))


def _cases(run: Run) -> str:
    return f"{run.cases.num_rows:,} edited" if run.cases.num_rows else "not listed in the run folder"


def _model(env: RunEnvironment) -> str:
    model = env.model
    revision = f", revision {model.revision}" if model.revision else ""
    path = Path(model.name)
    name = path.name if path.is_absolute() or len(path.parts) > 2 else model.name
    return f"{name} ({model.class_name}, {model.parameters:,} parameters{revision}, weights {model.fingerprint})"


def _presets(runs: Sequence[Run]) -> list[str]:
    presets = {preset.name: preset for run in runs for preset in run.spec.presets}
    return [
        f"{one.name}: {one.context}, {one.generation}, {one.truncation}, judged by {one.metric}"
        + (f", {one.shots} shots" if one.shots else "")
        + (f", ends above {one.stop_entropy:g} nats" if one.stop_entropy is not None else "")
        + (f", after at most {one.thinking_tokens:,} tokens of reasoning" if one.thinking_tokens else "")
        for one in presets.values()
    ]


def _packages(env: RunEnvironment) -> str:
    said = [f"{name} {version}" for name, version in env.packages.items() if version]
    commit = [f"commit {env.git_commit[:12]}"] if env.git_commit else []
    return ", ".join([*said, f"Python {env.python}", *commit])


def _made(run: Run, env: RunEnvironment | None) -> str:
    settings = dict(env.settings) if env else dict(run.spec.settings)
    shown = ", ".join(f"{name} {value}" for name, value in sorted(settings.items()) if value is not None)
    trained = f", trained in {run.spec.train_context}" if run.spec.train_context else ""
    edits = run.scores.edits
    failed = f", {edits.failed:,} failed" if edits.failed else ""
    source = f". {env.source}" if env else ""
    shown = f"; {shown}" if shown else ""
    return f"{run.folder.name}: {run.spec.protocol}, {edits.edits:,} edits{failed}{trained}{shown}{source}"
