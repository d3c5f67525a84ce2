"""The tables of a report: words and numbers laid out, before anyone decides how they are drawn.

Shares are percentages with one decimal; "–" stands where nothing was measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from kgedit.analysis.groups import RunGroup, comparable_groups
from kgedit.analysis.runs import Run
from kgedit.records.cases import AXES, Axis
from kgedit.records.scores import EvaluationStage, Retention, Score

NOTHING = "–"

COMPARED_STAGES: tuple[EvaluationStage, EvaluationStage] = ("before", "own")
"""The two columns of every comparison: before any edit, and right after a timestep's own edits."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column's heading.

    Attributes:
        name: As written above it.
        number: Whether its cells are numbers, set to the right.
        key: Whether it tells rows apart: a table too wide for the terminal is split, and each part has these columns.
    """

    name: str
    number: bool = True
    key: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A titled table of text.

    Attributes:
        title: What it shows.
        columns: Headings.
        rows: Cells, one tuple a row, as many as there are columns.
        note: A sentence to read it by, or "".
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


_METHOD = (Column("#", key=True), Column("method", number=False, key=True))
_WHO = (
    *_METHOD,
    Column("protocol", number=False),
    Column("model", number=False),
)


def overview_tables(runs: Sequence[Run]) -> list[Table]:
    """For each group of runs that compare: presets and axes side by side, edits as they added up, the runs."""
    return _by_group(runs, _overviews)


def report_tables(runs: Sequence[Run]) -> list[Table]:
    """Every table of a report on these runs: for each group of runs that compare, the most compact first."""
    return _by_group(runs, lambda own: [*_overviews(own), *_details(own)])


def _by_group(runs: Sequence[Run], tables_of: Callable[[Sequence[Run]], list[Table]]) -> list[Table]:
    """Tables of each group; where there are several a table of the groups first, and their numbers in all titles."""
    groups = comparable_groups(runs)
    if len(groups) == 1:
        return tables_of(groups[0].runs)
    named = [
        replace(table, title=f"Group {number}: {table.title}")
        for number, group in enumerate(groups, start=1)
        for table in tables_of(group.runs)
    ]
    return [groups_table(groups), *named]


def groups_table(groups: Sequence[RunGroup]) -> Table:
    """Which runs compare with which."""
    rows = tuple(
        (
            str(number),
            group.runs[0].model,
            group.train_context or NOTHING,
            group.runs[0].scores.cases_sha256[:8],
            ", ".join(dict.fromkeys(preset for preset in preset_names(group.runs))),
            ", ".join(run.folder.name for run in group.runs),
        )
        for number, group in enumerate(groups, start=1)
    )
    words = ("model", "trained in", "cases", "presets", "runs")
    columns = (Column("group", key=True), *(Column(name, number=False) for name in words))
    note = (
        "Runs of different groups differ in cases, model, training format or in what a preset is, and are not ranked "
        "together. Methods that train nothing stand in every group of their cases and model."
    )
    return Table("Groups", columns, rows, note)


def _overviews(runs: Sequence[Run]) -> list[Table]:
    presets = preset_names(runs)
    tables = [presets_table(runs), *(overview_table(runs, preset) for preset in presets)]
    tables += [table for preset in presets if (table := schedule_table(runs, preset))]
    return [*tables, runs_table(runs)]


def _details(runs: Sequence[Run]) -> list[Table]:
    presets = preset_names(runs)
    tables = [table for axis in AXES for preset in presets if (table := axis_table(runs, axis, preset=preset))]
    tables += [table for preset in presets if (table := retention_table(runs, preset))]
    tables += [table for preset in presets if (table := retrieval_table(runs, preset))]
    return tables


def preset_names(runs: Sequence[Run]) -> list[str]:
    """Every preset under which any run asked, in the order of the specs."""
    return list(dict.fromkeys(preset.name for run in runs for preset in run.spec.presets))


def presets_table(runs: Sequence[Run]) -> Table:
    """One row a run, one column a preset: the same edits asked for in every way, and what they cost."""
    presets = preset_names(runs)
    free = {preset.name for run in runs for preset in run.spec.presets if preset.generation != "teacher_forcing"}
    rows = []
    for number, run in enumerate(runs, start=1):
        first = presets[0]
        rephrased, kept = (run.pooled("own", axis, first) for axis in ("rephrase", "locality"))
        updates = [run.pooled("own", "update", preset) for preset in presets]
        empty = (_empty(run, preset) for preset in presets if preset in free)
        cells = (*map(_with_contains, updates), *empty, percent(_main(rephrased)), percent(kept.get("unchanged")))
        rows.append((*_who(number, run), *cells, seconds(run.cpu_seconds_per_edit), gibibytes(run)))
    columns = (
        *_WHO,
        *(Column(preset) for preset in presets),
        *(Column(f"empty, {preset}") for preset in presets if preset in free),
        *(Column(f"{name}, {presets[0]}") for name in ("rephrase", "unchanged")),
        Column("CPU s per edit"),
        Column("peak GiB"),
    )
    note = (
        "Presets: update after the edits, by the preset's own metric in %, and contains in brackets. "
        "empty: update answers without a word, before any edit → after the edits. "
        "unchanged: locality answers that are as before."
    )
    return Table("Presets side by side", columns, tuple(rows), note)


def _empty(run: Run, preset: str) -> str:
    before, after = (run.pooled(stage, "update", preset).get("empty") for stage in COMPARED_STAGES)
    return f"{percent(before)}→{percent(after)}" if before or after else NOTHING


def _with_contains(scores: dict[str, Score]) -> str:
    contains = scores.get("contains")
    return percent(_main(scores)) + (f" ({percent(contains)})" if contains else "")


def overview_table(runs: Sequence[Run], preset: str) -> Table:
    """One row a run, one column an axis that any run asked: the preset's own metric before and after the edits."""
    asked = [axis for axis in AXES if any(run.pooled(stage, axis, preset) for run in runs for stage in COMPARED_STAGES)]
    rows = []
    for number, run in enumerate(runs, start=1):
        cells = []
        for axis in asked:
            before, after = (own_score(run, stage, axis, preset) for stage in COMPARED_STAGES)
            cells.append(f"{percent(before)}→{percent(after)}" if before or after else NOTHING)
        rows.append((*_who(number, run), *cells))
    metrics = sorted({item.metric for run in runs for item in run.spec.presets if item.name == preset})
    return Table(
        title=f"Overview, preset {preset}",
        columns=(*_WHO, *(Column(axis) for axis in asked)),
        rows=tuple(rows),
        note=f"{' or '.join(metrics)} in %, before any edit → right after a timestep's own edits.",
    )


def schedule_table(runs: Sequence[Run], preset: str) -> Table | None:
    """One row for each time that a run asked on schedule, and for the end of the time step; None if none did."""
    points = {number: _points(run, preset) for number, run in enumerate(runs, start=1)}
    found = [scores for own in points.values() for scores in own.values()]
    asked = [axis for axis in AXES if any(axis in scores for scores in found)]
    if not asked:
        return None
    rows = [
        (
            *(str(number), runs[number - 1].spec.method, _dates(timestep), "all" if edits is None else f"{edits:,}"),
            *(percent(_main(scores.get(axis, {}))) for axis in asked),
            percent(scores.get("locality", {}).get("unchanged")),
        )
        for number, own in points.items()
        for (timestep, edits), scores in own.items()
    ]
    columns = (
        *_METHOD,
        Column("time step", number=False, key=True),
        Column("edits", key=True),
        *(Column(axis) for axis in asked),
        Column("unchanged"),
    )
    note = (
        "After so many of a time step's edits, of those: the preset's own metric, and locality answers as before, in %."
    )
    return Table(f"As edits add up, preset {preset}", columns, tuple(rows), note)


def _points(run: Run, preset: str) -> dict[tuple[str, int | None], dict[Axis, dict[str, Score]]]:
    """Scores of a run by time step and its edits so far (None: all of them), by axis and by metric."""
    measured = [
        (score, score.model_state)
        for score in run.scores.scores
        if score.model_state and score.timestep == score.model_state.timestep and score.stage in ("partial", "own")
    ]
    scheduled = {state.timestep for score, state in measured if score.stage == "partial"}
    found: dict[tuple[str, int | None], dict[Axis, dict[str, Score]]] = {}
    for score, state in measured:
        if state.timestep in scheduled and score.preset == preset:
            by_axis = found.setdefault((str(score.timestep), state.edits), {})
            by_axis.setdefault(score.axis, {})[score.metric] = score
    return found


def runs_table(runs: Sequence[Run]) -> Table:
    """What each run was and what its edits cost."""
    rows = tuple(
        (
            *_who(number, run),
            f"{run.scores.edits.edits:,}",
            f"{run.scores.edits.failed:,}",
            str(len(run.scores.timesteps)),
            str(run.spec.seed),
            run.spec.train_context or NOTHING,
            seconds(run.scores.edits.preparation_seconds),
            seconds(run.seconds_per_edit),
            seconds(run.cpu_seconds_per_edit),
            gibibytes(run),
            run.folder.name,
        )
        for number, run in enumerate(runs, start=1)
    )
    columns = (
        *_WHO[:3],
        Column("model", number=False),
        Column("edits"),
        Column("failed"),
        Column("time steps"),
        Column("seed"),
        Column("trained in", number=False),
        Column("s before edits"),
        Column("s per edit"),
        Column("CPU s per edit"),
        Column("peak GiB"),
        Column("folder", number=False),
    )
    return Table("Runs", columns, rows)


def axis_table(runs: Sequence[Run], axis: Axis, *, preset: str) -> Table | None:
    """All that was measured on one axis under one preset; None if no run asked."""
    measured = {number: run.pooled("own", axis, preset) for number, run in enumerate(runs, start=1)}
    earlier = {number: run.pooled("before", axis, preset) for number, run in enumerate(runs, start=1)}
    if not any(measured.values()) and not any(earlier.values()):
        return None
    found = [score for scores in (*measured.values(), *earlier.values()) for score in scores.values()]
    own = sorted({score.metric for score in found if score.main})
    side = sorted({metric for scores in measured.values() for metric, score in scores.items() if not score.main})
    rows = []
    for number, run in enumerate(runs, start=1):
        before, after = _main(earlier[number]), _main(measured[number])
        rows.append(
            (
                *_who(number, run),
                f"{run.scores.edits.edits:,}",
                percent(before),
                percent(after),
                interval(after),
                f"{after.n:,}" if after else NOTHING,
                *(percent(measured[number].get(metric)) for metric in side),
                seconds(run.seconds_per_edit),
                rate(run.questions_per_second(preset)),
            )
        )
    columns = (
        Column("edits"),
        *(Column(name) for name in ("before", "after", "95 % interval", "n")),
        *(Column(metric.replace("_", " ")) for metric in side),
        Column("seconds per edit"),
        Column("questions per second"),
    )
    note = f"before, after: {' or '.join(own)} in %; interval: bootstrap clustered by relation; the rest: after, in %."
    return Table(f"{axis}, preset {preset}", (*_WHO, *columns), tuple(rows), note)


def _asked_again(item: Retention) -> bool:
    return any(cell is not None for index, row in enumerate(item.matrix) for cell in row[:index])


def retention_table(runs: Sequence[Run], preset: str) -> Table | None:
    """The matrices of runs that asked earlier timesteps again; None if there is none."""
    runs_again = [run for run in runs if any(_asked_again(item) for item in run.scores.retention)]
    steps = list(dict.fromkeys(step for run in runs_again for step in run.scores.timesteps))
    rows = []
    for number, run in enumerate(runs, start=1):
        column = {step: index for index, step in enumerate(run.scores.timesteps)}
        for item in run.scores.retention:
            if item.preset != preset or not _asked_again(item):
                continue
            for index, row in enumerate(item.matrix):
                last = index == len(item.matrix) - 1
                cells = (share(row[column[step]]) if step in column else NOTHING for step in steps)
                summary = (share(item.forgetting), share(item.backward_transfer)) if last else ("", "")
                rows.append(
                    (str(number), run.spec.method, item.axis, _dates(run.scores.timesteps[index]), *cells, *summary)
                )
    if not rows:
        return None
    columns = (
        *_METHOD,
        *(Column(name, number=False, key=True) for name in ("axis", "after")),
        *(Column(f"on {_dates(step)}") for step in steps),
        *(Column(name) for name in ("forgetting", "backward transfer")),
    )
    note = "Row: the last timestep learned; column: the timestep asked; the preset's own metric in %."
    return Table(f"Retention, preset {preset}", columns, tuple(rows), note)


def retrieval_table(runs: Sequence[Run], preset: str) -> Table | None:
    """How often retrieval methods found what a question needed; None if no run retrieves."""
    rows = tuple(
        (
            *(
                str(number),
                run.spec.method,
                item.axis,
                _dates(item.last_timestep),
                _dates(item.timestep),
                f"{item.n:,}",
            ),
            *(share(value) for value in (item.first_hop, item.second_hop, item.both_hops, item.accuracy_when_found)),
        )
        for number, run in enumerate(runs, start=1)
        for item in run.scores.retrieval
        if item.preset == preset
    )
    if not rows:
        return None
    words = (Column(name, number=False, key=True) for name in ("axis", "after", "asked on"))
    numbers = (Column(name) for name in ("n", "first hop", "second hop", "both hops", "right when found"))
    note = "Share of questions whose prompt held the case of the first hop, of the second, of both; in %."
    return Table(f"Retrieval, preset {preset}", (*_METHOD, *words, *numbers), rows, note)


def own_score(run: Run, stage: EvaluationStage, axis: Axis, preset: str) -> Score | None:
    """The pooled score by the preset's own metric."""
    return _main(run.pooled(stage, axis, preset))


def percent(score: Score | None) -> str:
    """A score's mean in %."""
    return share(score.mean if score else None)


def share(value: float | None) -> str:
    """A share in %, one decimal."""
    return NOTHING if value is None else f"{100 * value:.1f}"


def interval(score: Score | None) -> str:
    """Both ends of a score's interval in %."""
    if score is None or score.low is None or score.high is None:
        return NOTHING
    return f"{share(score.low)}–{share(score.high)}"


def seconds(value: float | None) -> str:
    """Seconds, three digits that count; less than half a millisecond is none."""
    if value is None:
        return NOTHING
    if value < 5e-4:
        return "0"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def gibibytes(run: Run) -> str:
    """Most memory that a run held while it edited."""
    return f"{run.scores.edits.peak_memory_bytes / 2**30:.1f}"


def rate(value: float | None) -> str:
    """A number per second."""
    return NOTHING if value is None else f"{value:.1f}"


def _main(scores: dict[str, Score]) -> Score | None:
    return next((score for score in scores.values() if score.main), None)


def _who(number: int, run: Run) -> tuple[str, str, str, str]:
    return str(number), run.spec.method, run.spec.protocol, run.model


def _dates(timestep: str) -> str:
    # With a space the two dates can stand below each other.
    return timestep.replace("_", " ")
