"""Page of a leaderboard: selectable groups, sortable columns, ranks as ranges, provenance."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from kgedit.analysis.comparisons import Placed, repeated_note
from kgedit.analysis.leaderboard import (
    HEADINGS,
    MEASURES,
    Measure,
    Standing,
    Standings,
    standings_tables,
    title_of,
)
from kgedit.analysis.overviews import kinds_of
from kgedit.analysis.tables import Estimate, Table, as_text
from kgedit.pages.charts import estimate_text, percent, same_count
from kgedit.pages.charts.lines import ForestRow, interval_strip
from kgedit.pages.marks import Drawing
from kgedit.pages.report_views import in_days
from kgedit.pages.shell import render
from kgedit.runs.submissions.board import Board, BoardRun

_HASH = 16  # shown digits of a SHA-256: 64 bits distinguish any two files

_ROLES: dict[Measure, str] = {"damage": "bad", "locality": "good"}


@dataclass(frozen=True, slots=True)
class BoardColumn:
    """Column of a measure."""

    measure: Measure
    name: str
    beside: str
    meaning: str
    lower_first: bool


@dataclass(frozen=True, slots=True)
class BoardCell:
    """One measure of one row.

    Attributes:
        sort: Sort key of the column; "" if not measured.
        value: Value in % or seconds.
        interval: Interval, such as "45–67", or "".
        rank: Rank, such as "1–3", or "".
        is_leading: Whether it may be the best.
        strip: Drawing of the interval.
    """

    sort: str
    value: str
    interval: str = ""
    rank: str = ""
    is_leading: bool = False
    strip: Drawing | None = None


@dataclass(frozen=True, slots=True)
class BoardRow:
    """One row of the leaderboard.

    Attributes:
        name: Method, with what distinguishes it from other rows of the same method.
        who: Submitters and seeds.
        links: Name of each run and address of its report, or "" without one.
        cells: One per column.
        is_baseline: Whether it is the unedited model.
    """

    name: str
    who: str
    links: tuple[tuple[str, str], ...]
    cells: tuple[BoardCell, ...]
    is_baseline: bool = False


@dataclass(frozen=True, slots=True)
class ShownStandings:
    """A group under one preset, as used by the template."""

    key: str
    name: str
    title: str
    what: str
    lead: tuple[str, str, str]
    limit: str
    columns: tuple[BoardColumn, ...]
    rows: tuple[BoardRow, ...]
    table: Table


@dataclass(frozen=True, slots=True)
class RunFacts:
    """Provenance of one run."""

    id: str
    name: str
    report: str
    facts: tuple[tuple[str, str], ...]


def leaderboard_page(board: Board, standings: Sequence[Standings], *, beside: Path) -> str:
    """Render the whole file; the same runs give the same bytes.

    Args:
        beside: Folder of the page, to which links to report files are relative.
    """
    of = {one.run.folder: one for one in board.runs}
    tables = standings_tables(standings)
    views = [_shown(one, table, of, beside) for one, table in zip(standings, tables, strict=True)]
    largest = max(standings, key=lambda one: sum(len(row.variant.runs) for row in one.rows), default=None)
    groups = len({one.group for one in standings})
    submitters = {one.statement.submitter for one in board.runs if one.statement and one.statement.submitter}
    return render(
        "leaderboard.html.j2",
        styles=["report.css", "leaderboard.css"],
        scripts=["report.js", "leaderboard.js"],
        title="Leaderboard",
        brand="kgedit leaderboard",
        meta=f"{_counted(len(board.runs), 'run')} in {_counted(groups, 'group')}"
        + (f" · {_counted(len(submitters), 'submitter')}" if submitters else ""),
        sections=[
            ("standings", "Standings"),
            ("measures", "Measures"),
            ("runs", "Runs"),
            *([("left-out", "Left out")] if board.left_out else []),
            ("submit", "Submit"),
        ],
        views=views,
        first=largest.key if largest else "",
        measures=[(HEADINGS[measure], meaning) for measure, meaning in MEASURES.items()],
        runs=[_facts(one, beside) for one in board.runs],
        left_out=[(path.name, list(reasons)) for path, reasons in board.left_out.items()],
        command="kgedit submit RUN --to BOARD --by NAME\nkgedit leaderboard BOARD --html leaderboard.html",
    )


def _counted(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def _shown(one: Standings, table: Table, of: dict[Path, BoardRun], beside: Path) -> ShownStandings:
    columns = tuple(_column(one, measure) for measure in one.measures)
    rows = [_row(row, one, of, beside) for row in one.rows]
    if one.before:
        cells = tuple(_cell(measure, _unranked(one.before.get(measure)), leading=False) for measure in one.measures)
        rows.append(BoardRow("unedited", "before any edit", (), cells, is_baseline=True))
    run = one.rows[0].variant.runs[0]
    steps = run.scores.timesteps
    when = in_days(steps[0]) if len(steps) == 1 else f"{len(steps)} timesteps"
    what = [when, f"cases {one.cases_sha256[:8]}", f"judged by {one.preset.metric}"]
    what += [f"kinds of change: {kinds}"] if (kinds := kinds_of(run)) else []
    what += [f"free decoding as {one.free}"] if one.free else []
    return ShownStandings(
        key=one.key,
        name=f"{one.group}: {one.model}, {one.protocol.replace('_', ' ')} · {one.preset.name}",
        title=title_of(one),
        what=" · ".join(what),
        lead=_lead(one),
        limit=" ".join(filter(None, (repeated_note(row.variant for row in one.rows), one.tests_limit))),
        columns=columns,
        rows=tuple(rows),
        table=table,
    )


def _unranked(estimate: Estimate | None) -> Placed | None:
    return None if estimate is None else Placed(estimate)


def _lead(one: Standings) -> tuple[str, str, str]:
    """Efficacy and its damage: text before the share, the share, text after it."""
    leaders = one.leaders("efficacy")
    if not leaders:
        return ("No run of this group has update questions under this preset.", "", "")
    best = leaders[0]
    efficacy = best.cells["efficacy"].estimate
    share = f"{percent(efficacy.mean, n=efficacy.n)} %"
    asked = f" of {efficacy.n:,} updates" if efficacy.n else " of the updates"
    if len(one.rows) == 1:
        return (f"{best.name} answers ", share, f"{asked}. {_damage(best, one)} No other run is comparable.")
    if not efficacy.mean:
        return (f"No run answers any update. {_damage_alone(one)}", "", "")
    others = [row.name for row in leaders[1:]]
    sure = (
        f"; the difference from {_names(others)} is not significant" if others else ", significantly above all others"
    )
    return (
        f"{best.name} has the highest efficacy, ",
        share,
        f"{asked}{sure}. {_damage(best, one)} {_overall(one)}".rstrip(),
    )


def _damage(row: Standing, one: Standings) -> str:
    """Unrelated answers changed by a row, compared with the others."""
    cell = row.cells.get("damage")
    if cell is None:
        return f"Damage of {row.name} was not measured."
    changed = f"It changes {_share(cell)} of the unrelated answers"
    if len(one.rows) == 1:
        return f"{changed}."
    less = one.less_damage[row.name]
    fewer = f"{_names(less)} {_verb(less)}" if less else "no other run changes"
    return f"{changed}; {fewer} significantly fewer."


def _damage_alone(one: Standings) -> str:
    """Differences in damage, for the case that no row answers an update."""
    measured = {row.name: cell for row in one.rows if (cell := row.cells.get("damage"))}
    if not measured:
        return "Damage was not measured."
    least = min(measured, key=lambda name: measured[name].estimate.mean)
    most = max(measured, key=lambda name: (len(one.less_damage[name]), measured[name].estimate.mean))
    low, high = measured[least], measured[most]
    if one.less_damage[most]:
        return (
            f"They differ in damage: {most} changes {_share(high)} of the unrelated answers, {least} {_share(low)}. "
            f"{_names(one.less_damage[most])} {_verb(one.less_damage[most])} significantly fewer than {most}."
        )
    return f"Damage is {_share(low)} to {_share(high)} of the unrelated answers; no difference is significant."


def _overall(one: Standings) -> str:
    leaders = one.leaders("overall")
    if not leaders:
        return ""
    best, others = leaders[0], [row.name for row in leaders[1:]]
    sure = f"not significantly above {_names(others)}" if others else "significantly above all others"
    return f"{best.name} has the highest overall score, {_share(best.cells['overall'])}, {sure}."


def _share(cell: Placed) -> str:
    return f"{percent(cell.estimate.mean, n=cell.estimate.n)} %"


def _names(names: Sequence[str]) -> str:
    return " and ".join(names) if len(names) < 3 else f"{len(names)} other runs"


def _verb(names: Sequence[str]) -> str:
    return "changes" if len(names) == 1 else "change"


def _column(one: Standings, measure: Measure) -> BoardColumn:
    estimates = [cell.estimate for row in one.rows if (cell := row.cells.get(measure))]
    beside = "per edit" if measure == "cost" else same_count(estimates)
    name = "CPU s" if measure == "cost" else HEADINGS[measure].capitalize()
    return BoardColumn(measure, name, beside, MEASURES[measure], measure in ("damage", "cost"))


def _row(row: Standing, one: Standings, of: dict[Path, BoardRun], beside: Path) -> BoardRow:
    runs = [of[run.folder] for run in row.variant.runs]
    submitters = dict.fromkeys(found.statement.submitter or "" for found in runs if found.statement)
    seeds = ", ".join(str(found.run.spec.seed) for found in runs)
    who = [*(name for name in submitters if name), f"seed{'s' if len(runs) > 1 else ''} {seeds}"]
    cells = []
    for measure in one.measures:
        placed = row.cells.get(measure)
        # If no difference is significant, no row leads.
        apart = any(cell.first != 1 for other in one.rows if (cell := other.cells.get(measure)))
        cells.append(_cell(measure, placed, leading=apart and placed is not None and placed.first == 1))
    links = tuple((found.name, _link(found, beside)) for found in runs)
    return BoardRow(row.name, " · ".join(who), links, tuple(cells))


def _cell(measure: Measure, placed: Placed | None, *, leading: bool) -> BoardCell:
    if placed is None:
        return BoardCell("", "–")
    estimate = placed.estimate
    if measure == "cost":
        return BoardCell(f"{estimate.mean:.9g}", as_text(estimate.mean, "seconds"))
    ends = [f"{100 * end:.0f}" for end in (estimate.low, estimate.high) if end is not None]
    strip = interval_strip(ForestRow(estimate_text(estimate), None, estimate, None, role=_ROLES.get(measure, "free")))
    return BoardCell(
        sort=f"{estimate.mean:.9g}",
        value=percent(estimate.mean, n=estimate.n),
        interval="–".join(ends),
        rank=placed.rank.replace("-", "–"),
        is_leading=leading,
        strip=strip,
    )


def _link(one: BoardRun, beside: Path) -> str:
    """Address of a run's report as linked from the page; "" without one."""
    report = one.report
    if report is None or isinstance(report, str):
        return report or ""
    return quote(Path(os.path.relpath(report, beside.resolve())).as_posix())


def _facts(one: BoardRun, beside: Path) -> RunFacts:
    run, env, said = one.run, one.environment, one.statement
    facts = [
        ("Submitted", ", ".join(part for part in ((said.submitter, said.date) if said else ()) if part)),
        ("Note", said.note if said else ""),
        ("Model", _model(one)),
        ("Run", _what_was_run(one)),
        ("Seed", str(run.spec.seed)),
        ("Settings", _settings(one)),
        ("Timesteps", "; ".join(f"{step.name} sha256 {step.sha256[:_HASH]}…" for step in env.timesteps) if env else ""),
        ("Cases", f"sha256 {run.scores.cases_sha256[:_HASH]}…"),
        ("Kinds of change", kinds_of(run)),
        ("Answers", f"{run.scores.answers:,}, sha256 {run.scores.answers_sha256[:_HASH]}…"),
        ("Made with", _made_with(one)),
        ("On", f"{env.device}, {env.platform}" if env else ""),
    ]
    return RunFacts(f"run-{one.name}", one.name, _link(one, beside), tuple((n, text) for n, text in facts if text))


def _model(one: BoardRun) -> str:
    if one.environment is None:
        return one.run.model
    model = one.environment.model
    revision = f", revision {model.revision}" if model.revision else ""
    return f"{one.run.model}, {model.parameters:,} parameters{revision}, weights {model.fingerprint}"


def _what_was_run(one: BoardRun) -> str:
    spec, edits = one.run.spec, one.run.scores.edits
    trained = f", trained in {spec.train_context}" if spec.train_context else ""
    failed = f", {edits.failed:,} failed" if edits.failed else ""
    chosen = ", only what the unedited model gets wrong" if spec.only_failed else ""
    return f"{spec.method}, {spec.protocol.replace('_', ' ')}, {edits.edits:,} edits{failed}{trained}{chosen}"


def _settings(one: BoardRun) -> str:
    settings = one.environment.settings if one.environment else one.run.spec.settings
    return ", ".join(f"{name} {value}" for name, value in sorted(settings.items()) if value is not None)


def _made_with(one: BoardRun) -> str:
    env = one.environment
    if env is None:
        return ""
    said = [f"{name} {version}" for name, version in env.packages.items() if version]
    commit = [f"commit {env.git_commit[:12]}"] if env.git_commit else []
    return ", ".join([*said, f"Python {env.python}", *commit])
