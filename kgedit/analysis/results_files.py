"""Scores of runs as one flat table, and as files of results that other tools read.

Scores reported in EasyEdit's results files come without answers: they cannot be rescored, paired or tested, so they
are in a separate table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from kgedit.analysis.runs import Run, comparable_groups
from kgedit.analysis.tables import Cell, Column, Estimate, MeanChange, Table, estimate, mean, metric_unit, preset_names
from kgedit.records.cases import AXES, LOCALITY_AXES, Axis

SCORES = pa.schema(
    [
        ("run", pa.string()),
        ("model", pa.string()),
        ("method", pa.string()),
        ("protocol", pa.string()),
        ("seed", pa.int64()),
        ("train_context", pa.string()),
        ("cases_sha256", pa.string()),
        ("stage", pa.string()),
        ("edited_timestep", pa.string()),
        ("edits", pa.int64()),
        ("timestep", pa.string()),
        ("axis", pa.string()),
        ("preset", pa.string()),
        ("metric", pa.string()),
        ("main", pa.bool_()),
        ("is_share", pa.bool_()),
        ("n", pa.int64()),
        ("relations", pa.int64()),
        ("mean", pa.float64()),
        ("low", pa.float64()),
        ("high", pa.float64()),
    ]
)
"""run: folder of the run. train_context and cases_sha256: scores are comparable if these and the model are equal.
edited_timestep and edits are the timestep and edits of the `ModelState` (kgedit.records.runs), null if timesteps are
pooled. is_share: whether the metric is a share or a difference of shares, so that 1 means 100 %. The columns from stage
on are the fields of a `Score` (kgedit.records.scores)."""

_OF_SCORE = [name for name in SCORES.names[SCORES.names.index("timestep") :] if name != "is_share"]


def score_table(runs: Sequence[Run]) -> pa.Table:
    """All scores of all runs, in the order of the runs."""
    rows = [
        {
            "run": str(run.folder),
            "model": run.model,
            "method": run.spec.method,
            "protocol": run.spec.protocol,
            "seed": run.spec.seed,
            "train_context": run.spec.train_context,
            "cases_sha256": run.scores.cases_sha256,
            "stage": score.stage,
            "edited_timestep": score.model_state and score.model_state.timestep,
            "edits": score.model_state and score.model_state.edits,
            "is_share": run.scale_of(score.metric).is_share,
            **{name: getattr(score, name) for name in _OF_SCORE},
        }
        for run in runs
        for score in run.scores.scores
    ]
    return pa.Table.from_pylist(rows, schema=SCORES)


def metric_table(runs: Sequence[Run], metric: str, *, note: str) -> Table:
    """One row per run, preset and axis; no rows if the metric scored nothing.

    Args:
        metric: Name of the metric.
        note: Description of the metric.
    """
    rows: list[tuple[Cell, ...]] = []
    for run in runs:
        for preset in preset_names([run]):
            for axis in AXES:
                before, after = (run.pooled(stage, axis, preset).get(metric) for stage in ("before", "own"))
                if before or after:
                    named = after or before
                    who = (run.folder.name, run.spec.method, preset, axis)
                    rows.append((*who, mean(before), estimate(after), named.n if named else None))
    unit = metric_unit(runs, metric)
    columns = (
        *(Column(name, key=True) for name in ("run", "method", "preset", "axis")),
        Column("before", unit),
        Column("after", unit, heading="after [95 %]"),
        Column("n", "count"),
    )
    if unit == "percent":
        note += " Mean in %."
    if len(comparable_groups(runs)) > 1:
        note += " These runs differ in cases, model, training format or presets: do not rank them together."
    return Table(metric, columns, tuple(rows), note)


PROVENANCE = "EasyEdit results file"

_Edit = tuple[str, str]
"""Subject and target."""


@dataclass(frozen=True, slots=True)
class StatedScore:
    """Mean scores reported for one axis in a results file.

    Attributes:
        before: Mean before the edit; None if missing in the file.
        after: Mean after the edit.
        n: Number of edits with a score after the edit.
    """

    before: float | None
    after: float | None
    n: int


@dataclass(frozen=True, slots=True)
class ResultsFile:
    """A results file written by EasyEdit, or by kgedit in the same form.

    Attributes:
        path: Path of the file.
        sha256: Hash of its bytes.
        edits: Subject and target of each edit.
        protocols: Protocols recorded in the file; empty if it records none.
        scores: Axis -> reported means. For locality axes, the share of unchanged tokens or whole answers.
        whole_answers: Whether its locality scores are shares of whole answers.
        unread: Names of other scores, for which kgedit has no axis.
    """

    path: Path
    sha256: str
    edits: tuple[_Edit, ...]
    protocols: tuple[str, ...]
    scores: Mapping[Axis, StatedScore]
    whole_answers: bool
    unread: tuple[str, ...]


def results_files_table(files: Sequence[ResultsFile], runs: Sequence[Run]) -> Table | None:
    """Reported scores of results files beside the teacher-forced token match of runs; None without files."""
    if not files:
        return None
    shown = [_of_file(file, runs) for file in files] + [_of_run(number, run, files) for number, run in _numbered(runs)]
    axes = [axis for axis in AXES if axis not in LOCALITY_AXES and any(axis in scores for _, scores, _ in shown)]
    columns = (
        *(Column(name, key=name == "source") for name in ("source", "provenance")),
        *(Column(name, "count") for name in ("edits", "in common")),
        Column("asked by"),
        *(Column(axis, "percent", with_counts=True) for axis in axes),
        *(Column(name, "percent") for name in ("same tokens", "same answers")),
    )
    rows = tuple((*head, *(scores.get(axis) for axis in axes), *kept) for head, scores, kept in shown)
    unread = sorted({name for file in files for name in file.unread})
    note = (
        "Token match in %, before any edit → after. A results file has no answers: its scores are its own means over "
        "edits, nothing of them is scored again, and there are no intervals and tests. Runs: their first "
        "teacher-forced preset, means over questions. in common: edits with the same subject and target, the most "
        "that a row of the other kind has. same tokens, same answers: locality tokens, or whole answers, that the "
        "edit did not change."
    ) + (f" Not read, because no axis asks for it: {', '.join(unread)}." if unread else "")
    return Table("EasyEdit results files", columns, rows, note)


_Shown = tuple[tuple[Cell, ...], dict[Axis, MeanChange], tuple[Cell, Cell]]
"""Identity of a row, its scores, and its locality by tokens and by whole answers."""


def _of_file(file: ResultsFile, runs: Sequence[Run]) -> _Shown:
    own = set(file.edits)
    common = max((len(own & _edits(run)) for run in runs), default=None)
    head = (file.path.name, f"{PROVENANCE} {file.sha256[:12]}", len(file.edits), common)
    scores = {
        axis: MeanChange(score.before, None if score.after is None else Estimate(score.after, n=score.n))
        for axis, score in file.scores.items()
        if axis not in LOCALITY_AXES
    }
    local = file.scores.get("locality")
    kept = local.after if local else None
    by_kind = (None, kept) if file.whole_answers else (kept, None)
    return (*head, ", ".join(file.protocols) or "not stated"), scores, by_kind


def _of_run(number: int, run: Run, files: Sequence[ResultsFile]) -> _Shown:
    preset = next((one.name for one in run.spec.presets if one.is_forced), None)
    common = max(len(_edits(run) & set(file.edits)) for file in files)
    head = (f"#{number} {run.spec.method}", f"run {run.folder.name}", len(run.cases), common)
    if preset is None:
        return (*head, "no teacher-forced preset"), {}, (None, None)
    scores: dict[Axis, MeanChange] = {}
    for axis in AXES:
        before, after = (run.pooled(stage, axis, preset).get("token_match") for stage in ("before", "own"))
        if axis not in LOCALITY_AXES and (before or after):
            shown = None if after is None else Estimate(after.mean, n=after.n)
            scores[axis] = MeanChange(None if before is None else before.mean, shown)
    unchanged = run.pooled("own", "locality", preset).get("unchanged")
    return (*head, f"preset {preset}"), scores, (None, unchanged.mean if unchanged else None)


def _numbered(runs: Sequence[Run]) -> list[tuple[int, Run]]:
    return list(enumerate(runs, start=1))


def _edits(run: Run) -> set[_Edit]:
    named = (run.cases[name].to_pylist() for name in ("subject_label", "object_label"))
    return set(zip(*named, strict=True))
