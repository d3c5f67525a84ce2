"""Tables with one row per run: presets and axes as columns, all measurements on one axis under one preset, and costs.

General ability before and after editing has a row per run and measurement.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from kgedit.analysis.runs import Run, RunGroup
from kgedit.analysis.tables import (
    COMPARED_STAGES,
    METHOD,
    Column,
    Estimate,
    MeanChange,
    Table,
    asked_axes,
    change,
    dates,
    estimate,
    main_score,
    mean,
    metric_unit,
    metrics_of,
    own_score,
    preset_names,
    preset_unit,
    who,
    with_counts,
)
from kgedit.records.cases import AXES, Axis
from kgedit.records.runs import UNEDITED
from kgedit.records.scores import AbilityScore, Score


def groups_table(groups: Sequence[RunGroup]) -> Table:
    """Table of the comparable groups."""
    rows = tuple(
        (
            number,
            group.runs[0].model,
            group.train_context,
            group.runs[0].scores.cases_sha256[:8],
            ", ".join(preset_names(group.runs)),
            ", ".join(run.folder.name for run in group.runs),
        )
        for number, group in enumerate(groups, start=1)
    )
    words = ("model", "trained in", "cases", "presets", "runs")
    columns = (Column("group", "count", key=True), *(Column(name) for name in words))
    note = (
        "Runs of different groups differ in cases, model, training format or the meaning of a preset, and are not "
        "ranked together. Methods without training are in every group of their cases and model."
    )
    return Table("Groups", columns, rows, note)


def presets_table(runs: Sequence[Run]) -> Table:
    """One row per run, one column per preset: the same edits under each evaluation, with their costs."""
    presets = preset_names(runs)
    free = {preset.name for run in runs for preset in run.spec.presets if not preset.is_forced}
    identity, first = who(runs), presets[0]
    rows = []
    for run, cells in zip(runs, identity.cells, strict=True):
        updates = [run.pooled("own", "update", preset) for preset in presets]
        contains = [mean(run.pooled("own", "update", preset).get("contains")) for preset in presets if preset in free]
        empty = [_empty(run, preset) for preset in presets if preset in free]
        rephrased, kept = (run.pooled("own", axis, first) for axis in ("rephrase", "locality"))
        scores = [estimate(main_score(scores)) for scores in updates]
        others = (estimate(main_score(rephrased)), estimate(kept.get("unchanged")))
        rows.append((*cells, *scores, *contains, *empty, *others, run.cpu_seconds_per_edit, gibibytes(run)))
    columns = (
        *identity.columns,
        *(Column(preset, preset_unit(runs, preset)) for preset in presets),
        *(Column(f"contains, {preset}", "percent") for preset in presets if preset in free),
        *(Column(f"empty, {preset}", "percent") for preset in presets if preset in free),
        Column(f"rephrase, {first}", preset_unit(runs, first)),
        Column(f"unchanged, {first}", "percent"),
        Column("CPU s per edit", "seconds"),
        Column("peak GiB", "gibibytes"),
    )
    note = (
        f"Model {_models(runs)}. Presets: update after the edits, by the preset's own metric, with the 95 % "
        "interval clustered by relation; shares in %. contains: contains the answer. empty: empty "
        "update answers, before any edit → after the edits. unchanged: locality answers that did not change. "
        "n: questions."
    )
    return with_counts(Table("Presets side by side", columns, tuple(rows), note))


def _models(runs: Sequence[Run]) -> str:
    return ", ".join(dict.fromkeys(run.model for run in runs))


def _empty(run: Run, preset: str) -> MeanChange | None:
    before, after = (run.pooled(stage, "update", preset).get("empty") for stage in COMPARED_STAGES)
    found = change(before, after)
    return None if found is None else MeanChange(found.before, _without_interval(found))


def _without_interval(found: MeanChange) -> Estimate | None:
    return found.after and Estimate(found.after.mean)


def overview_table(runs: Sequence[Run], preset: str) -> Table:
    """One row per run, one column per evaluated axis: the preset's own metric before and after the edits."""
    asked, identity = asked_axes(runs, preset), who(runs)
    rows = tuple(
        (*cells, *(change(*(own_score(run, stage, axis, preset) for stage in COMPARED_STAGES)) for axis in asked))
        for run, cells in zip(runs, identity.cells, strict=True)
    )
    return with_counts(
        Table(
            title=f"Overview, preset {preset}",
            columns=(*identity.columns, *(Column(axis, preset_unit(runs, preset)) for axis in asked)),
            rows=rows,
            note=f"{metrics_of(runs, preset)}, before any edit → right after a timestep's own edits, with the "
            "95 % interval clustered by relation. n: questions.",
        )
    )


def schedule_table(runs: Sequence[Run], preset: str) -> Table | None:
    """One row per scheduled evaluation, and one for the end of the timestep; None if there were none."""
    points = {number: _points(run, preset) for number, run in enumerate(runs, start=1)}
    found = [scores for own in points.values() for scores in own.values()]
    asked = [axis for axis in AXES if any(axis in scores for scores in found)]
    if not asked:
        return None
    rows = tuple(
        (
            *(number, runs[number - 1].spec.method, dates(timestep), "all" if edits is None else f"{edits:,}"),
            _questions(scores, asked[0]),
            *(estimate(main_score(scores.get(axis, {}))) for axis in asked),
            mean(scores.get("locality", {}).get("unchanged")),
        )
        for number, own in points.items()
        for (timestep, edits), scores in own.items()
    )
    columns = (
        *METHOD,
        Column("time step", key=True),
        Column("edits", "count", key=True),
        Column(f"n {asked[0]}", "count"),
        *(Column(axis, preset_unit(runs, preset)) for axis in asked),
        Column("unchanged", "percent"),
    )
    note = (
        f"After each number of a time step's edits, on those: {metrics_of(runs, preset)} with its 95 % interval, and "
        f"unchanged locality answers in %. n {asked[0]}: questions on that axis."
    )
    return Table(f"As edits add up, preset {preset}", columns, rows, note)


def _questions(scores: Mapping[Axis, dict[str, Score]], axis: Axis) -> int | None:
    found = main_score(scores.get(axis, {}))
    return found.n if found else None


def _points(run: Run, preset: str) -> dict[tuple[str, int | None], dict[Axis, dict[str, Score]]]:
    """Scores of a run by timestep and edits so far (None means all), by axis and metric."""
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
    """Settings of each run and cost of its edits."""
    rows = tuple(
        (
            *(number, run.spec.method, run.spec.protocol, run.model),
            *(run.scores.edits.edits, run.scores.edits.failed, len(run.scores.timesteps)),
            *(kinds_of(run), str(run.spec.seed), run.spec.train_context, run.scores.edits.preparation_seconds),
            *(run.seconds_per_edit, run.cpu_seconds_per_edit, gibibytes(run), run.folder.name),
        )
        for number, run in enumerate(runs, start=1)
    )
    columns = (
        *METHOD,
        Column("protocol"),
        Column("model"),
        *(Column(name, "count") for name in ("edits", "failed", "time steps")),
        Column("kinds of change"),
        Column("seed"),
        Column("trained in"),
        *(Column(name, "seconds") for name in ("s before edits", "s per edit", "CPU s per edit")),
        Column("peak GiB", "gibibytes"),
        Column("folder"),
    )
    return Table("Runs", columns, rows)


UNKNOWN_KIND = "unknown"


def kinds_of(run: Run) -> str:
    """Kinds of change of a run's cases with shares, most frequent first: "update 92 %, backfill 8 %".

    Cases of a file of edits have no kind: "unknown".
    """
    counts = Counter(kind or UNKNOWN_KIND for kind in run.cases["kind"].to_pylist())
    if len(counts) < 2:
        return "".join(counts)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{kind} {count / counts.total():.0%}".replace("%", " %") for kind, count in ordered)


def gibibytes(run: Run) -> float:
    """Peak memory during editing."""
    return run.scores.edits.peak_memory_bytes / 2**30


def axis_table(runs: Sequence[Run], axis: Axis, *, preset: str) -> Table | None:
    """All measurements on one axis under one preset; None if no run evaluated it."""
    measured = [run.pooled("own", axis, preset) for run in runs]
    earlier = [run.pooled("before", axis, preset) for run in runs]
    found = [score for scores in (*measured, *earlier) for score in scores.values()]
    if not found:
        return None
    side = sorted({metric for scores in measured for metric, score in scores.items() if not score.main})
    identity = who(runs)
    rows = []
    for run, cells, after, before in zip(runs, identity.cells, measured, earlier, strict=True):
        main = main_score(after)
        counts = (main.n, main.relations) if main else (None, None)
        sides = (mean(after.get(metric)) for metric in side)
        costs = (run.seconds_per_edit, run.questions_per_second(preset))
        rows.append((*cells, mean(main_score(before)), estimate(main), *counts, *sides, *costs))
    columns = (
        *identity.columns,
        Column("before", preset_unit(runs, preset)),
        Column("after", preset_unit(runs, preset), heading="after [95 %]"),
        Column("n", "count"),
        Column("relations", "count"),
        *(Column(metric.replace("_", " "), metric_unit(runs, metric)) for metric in side),
        Column("seconds per edit", "seconds"),
        Column("questions per second", "rate"),
    )
    note = (
        f"before, after: {metrics_of(runs, preset)}, with the 95 % interval clustered by relation; others: after "
        "the edits, shares in %. Questions per second: after the edits."
    )
    return Table(f"{axis}, preset {preset}", columns, tuple(rows), note)


def speed_table(runs: Sequence[Run]) -> Table | None:
    """Forward time under each preset, separately before and after editing; None if no run evaluated anything."""
    rows = tuple(
        (
            *(number, run.spec.method, speed.preset, "after" if speed.edited else "before", speed.questions),
            speed.cached,
            *(_each(total, speed.questions) for total in (1000 * speed.seconds, speed.prompt_tokens, speed.new_tokens)),
        )
        for number, run in enumerate(runs, start=1)
        for speed in run.scores.speed
    )
    if not rows:
        return None
    columns = (
        *METHOD,
        Column("preset", key=True),
        Column("asked", key=True),
        *(Column(name, "count") for name in ("questions", "from cache")),
        *(Column(name, "rate") for name in ("ms each", "prompt tokens each", "new tokens each")),
    )
    note = (
        "Wall time of the model per question, before any edit and after. Replies from the cache, which took no time, "
        "are counted in their own column only."
    )
    return Table("Forward time", columns, rows, note)


def _each(total: float, questions: int) -> float | None:
    return total / questions if questions else None


def ability_table(runs: Sequence[Run]) -> Table | None:
    """Perplexity on a text unrelated to the edits, before and after; None if not measured."""
    rows = [
        (
            *(number, run.spec.method, dates(score.model_state.timestep or "")),
            *(first.perplexity if first else None, score.perplexity),
            *(score.perplexity / first.perplexity if first else None, score.bits_per_byte),
            *(score.measured, score.worst_perplexity),
        )
        for number, run in enumerate(runs, start=1)
        for score, first in _with_unedited(run)
    ]
    if not rows:
        return None
    columns = (
        *METHOD,
        Column("after", key=True),
        *(Column(name, "plain") for name in ("perplexity before", "perplexity", "ratio", "bits/byte")),
        Column("edits measured", "count"),
        Column("worst", "plain"),
    )
    texts = ", ".join(dict.fromkeys(score.text for run in runs for score in run.scores.ability))
    note = (
        f"Text: {texts}. Perplexity by token, lower is better. Bits per byte do not depend on the tokenizer, so that "
        "models compare."
    )
    if all(row[-2] == 1 for row in rows):
        return Table("General ability", columns[:-2], tuple(row[:-2] for row in rows), note)
    note += " Under the protocol single after each edit: the median, and the worst."
    return Table("General ability", columns, tuple(rows), note)


def tasks_table(runs: Sequence[Run]) -> Table | None:
    """Tasks of lm-evaluation-harness before and after; None if not measured."""
    rows = []
    for number, run in enumerate(runs, start=1):
        scores = run.scores.ability_tasks
        before = {(score.task, score.metric): score for score in scores if score.model_state == UNEDITED}
        for score in scores:
            first = before.get((score.task, score.metric))
            if score.model_state != UNEDITED:
                rows.append(
                    (
                        *(number, run.spec.method, dates(score.model_state.timestep or ""), score.task, score.metric),
                        *(score.n, first.value if first else None, score.value),
                        *(score.value - first.value if first else None, score.error),
                        *(score.measured, score.worst),
                    )
                )
    if not rows:
        return None
    columns = (
        *METHOD,
        *(Column(name, key=True) for name in ("after", "task", "metric")),
        Column("n", "count"),
        *(Column(name, "plain") for name in ("value before", "value", "difference", "standard error")),
        Column("edits measured", "count"),
        Column("worst", "plain"),
    )
    note = (
        "lm-evaluation-harness's own values, in its units, over n documents. Standard error: of the value, over "
        "documents; that of the difference is smaller, since the documents are the same."
    )
    if all(row[-2] == 1 for row in rows):
        return Table("General ability: tasks", columns[:-2], tuple(row[:-2] for row in rows), note)
    note += " Under the protocol single after each edit: the mean, and the worst."
    return Table("General ability: tasks", columns, tuple(rows), note)


def _with_unedited(run: Run) -> list[tuple[AbilityScore, AbilityScore | None]]:
    """Each score after editing, with the unedited model's score on the same text."""
    before = {score.text_sha256: score for score in run.scores.ability if score.model_state == UNEDITED}
    return [(score, before.get(score.text_sha256)) for score in run.scores.ability if score.model_state != UNEDITED]
