"""What was measured on the runs of a sweep, as the numbers that findings.py writes to docs/findings.md.

The sweeps STREAMS are also compared over a stream of timesteps, and LENGTHS by the number of edits made at once. A run
that was stopped counts up to the last timestep after which all questions were asked (STREAMS), or with the edits made
so far, if each was made alone. Runs that are no longer in the folder keep their stored results.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgedit.analysis.answers import estimate_of
from kgedit.analysis.comparisons import of_differences
from kgedit.analysis.runs import Run
from kgedit.analysis.tables import Estimate, as_values
from kgedit.analysis.wikifactdiff import fourths
from kgedit.pages.figures_over_time import edits_in_force
from kgedit.records.scores import SHARE, MetricScale
from kgedit.runs.run_files import read_answers, read_edit_costs, read_environment, read_runs, read_spec
from kgedit.runs.scoring import write_scores

STREAMS = ("changes-projected", "changes-projected-retrieved", "changes")
LENGTHS = ("lengths", "lengths-counterfact", "lengths-counterfact-cpu")
FREE, FED = "free", "fed"
"""Presets of these sweeps."""

BLOCKS = 8
"""Columns of a table by timestep: a longer stream is shown after each of that many blocks of timesteps."""

COMMIT = "COMMIT"
"""File in RUNS with the commit of runs that were made from a copy of the code without git."""

SAME = ("model", "parameters", "timesteps", "packages")
"""Parts of an environment that are equal in all runs of a sweep, beside the weights."""

OF_A_RUN = ("commit", "device")
"""Parts that may differ between the runs of a sweep."""

PACKAGES = ("kgedit", "torch", "transformers")

Answers = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]
"""Value, unit that is paired, and relation of each answer."""


def comparisons(claim: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every comparison of a claim, with its label: once for each value of `each`, or only once.

    Both sides have the fields of `both`, and the field of `each`, unless they have their own.
    """
    field, values = next(iter(claim.get("each", {"": [""]}).items()))
    for value in values:
        common = claim.get("both", {}) | ({field: value} if field else {})
        sides = {side: common | claim[side] for side in ("first", "second")}
        yield str(value) or f"{sides['first'].get('run', '')}", sides | {"pair": claim.get("pair", "question")}


def measure(name: str, folder: Path, claims: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """What was measured on the finished runs of one sweep; None if there are none."""
    with TemporaryDirectory() as aside:
        if (folder.parent / COMMIT).is_file():
            shutil.copy(folder.parent / COMMIT, aside)
        started = folder.glob("*/answers.jsonl")
        stopped = [_so_far(path.parent, Path(aside) / name, stream=name in STREAMS) for path in started]
        folders = [*(path.parent for path in folder.glob("*/scores.json")), *filter(None, stopped)]
        return _measured_on(sorted(folders, key=lambda path: path.name), name, claims) if folders else None


def _so_far(folder: Path, aside: Path, *, stream: bool) -> Path | None:
    """A scored copy of an unfinished run with the answers that are complete; None for one without, or a finished run.

    They are those up to the last timestep after which all questions of a stream were asked, and those about edits that
    were each made alone.
    """
    if (folder / "scores.json").is_file():
        return None
    copy = shutil.copytree(folder, aside / folder.name, ignore=shutil.ignore_patterns("checkpoints"))
    for log in _LOGS:
        _rewrite(copy / log, lambda line: line.endswith("\n"))  # the last is torn if the run was killed
    if stream:
        kept = list(dict.fromkeys(answer.model_state.timestep for answer in read_answers(copy)))[:-1]
        if len(kept) < 3:  # before any edit and after two timesteps: it has no earlier one to retain
            return None
    elif read_spec(copy).protocol == "single":
        kept = [cost.case_ids[0] for cost in read_edit_costs(copy)][:-1]  # the last may lack answers
        if not kept:
            return None
    else:
        return None
    of = _after if stream else _case
    for log in _LOGS:
        _rewrite(copy / log, lambda line: of(json.loads(line)) in kept)
    write_scores(copy)
    return copy


_LOGS = ("answers.jsonl", "edits.jsonl")


def _rewrite(log: Path, is_kept: Callable[[str], bool]) -> None:
    """Keep only some lines of a log; one that is missing stays so."""
    if log.is_file():
        with log.open(encoding="utf-8") as lines:
            kept = [line for line in lines if is_kept(line)]
        log.write_text("".join(kept), encoding="utf-8")


def _case(line: Mapping[str, Any]) -> str:
    """Case that an answer is about, or that was edited alone."""
    case: str = line["case_id"] if "case_id" in line else line["case_ids"][0]
    return case


def _after(line: Mapping[str, Any]) -> str | None:
    """Timestep that an answer was given after, or that an edit is of."""
    timestep: str | None = line.get("model_state", line)["timestep"]
    return timestep


def with_stored(
    found: dict[str, Any], stored: Mapping[str, Any] | None, claims: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """What was measured, with the stored results of other runs of the same model, timesteps and packages.

    Stored comparisons that their claim no longer asks for are left out.
    """
    if stored is None or not _is_same(stored["environment"], found["environment"]):
        return found
    missing = stored["runs"].keys() - found["runs"].keys()
    if not missing:
        return found
    # The environment stays that of the stored runs; the commit and the device of others stand beside them.
    own = {name: found["environment"][name] for name in OF_A_RUN}
    runs = {name: _beside(own | run, stored["environment"]) for name, run in found["runs"].items()}
    merged = {**found, "environment": stored["environment"], "runs": runs}
    for part in {"runs", "stream", "lengths"} & merged.keys():
        merged[part] = merged[part] | {name: stored[part][name] for name in missing}
    if "claims" in found:
        asked = {claim["id"]: [one for _, one in comparisons(claim)] for claim in claims}
        merged["claims"] = {
            claim: measured
            + [
                one
                for one in stored["claims"].get(claim, [])
                if one["asked"] in asked[claim] and _runs_of(one) <= missing
            ]
            for claim, measured in found["claims"].items()
        }
    return merged


def _is_same(stored: Mapping[str, Any], found: Mapping[str, Any]) -> bool:
    """Whether runs in these environments may stand in one table.

    The digest of the weights contains the type of the device; the revision of a published model does not.
    """
    if any(stored[name] != found[name] for name in SAME):
        return False
    of_revision = stored.get("revision") and stored["revision"] == found["revision"]
    return bool(stored["weights"] == found["weights"] or of_revision)


def _beside(run: Mapping[str, Any], environment: Mapping[str, Any]) -> dict[str, Any]:
    """A run's fields without those that are equal in the environment of its sweep."""
    return {name: value for name, value in run.items() if name not in OF_A_RUN or value != environment[name]}


def _runs_of(comparison: Mapping[str, Any]) -> set[str]:
    """Names of the runs that a comparison is between."""
    return {
        side["run"] for side in (comparison["asked"]["first"], comparison["asked"]["second"]) if "level" not in side
    }


def _measured_on(folders: Sequence[Path], name: str, claims: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    runs = {run.folder.name: run for run in read_runs(folders)}
    found: dict[str, Any] = {
        "sweep": name,
        "environment": (environment := _environment(folders[0])),
        "runs": {path.name: _run(runs[path.name], environment) for path in folders},
    }
    asked = [claim for claim in claims if claim["spec"] == name]
    if name in STREAMS:
        found["stream"] = {path.name: _over_timesteps(runs[path.name]) for path in folders}
    if name in LENGTHS:
        found["lengths"] = {path.name: _at_once(runs[path.name]) for path in folders}
    if asked or name not in (*STREAMS, *LENGTHS):
        found["claims"] = {
            claim["id"]: [measured for one in comparisons(claim) if (measured := _compared(runs, *one))]
            for claim in asked
        }
    return found


def _environment(folder: Path) -> dict[str, Any]:
    environment = read_environment(folder)
    return {
        "model": environment.model.name.rstrip("/").rpartition("/")[2],
        "parameters": environment.model.parameters,
        "revision": environment.model.revision,
        "weights": environment.model.fingerprint,
        "device": environment.device,
        "packages": {name: environment.packages.get(name) for name in PACKAGES},
        "commit": _commit(folder),
        "timesteps": {one.name: one.sha256 for one in environment.timesteps},
    }


def _commit(run_folder: Path) -> str | None:
    commit, beside = read_environment(run_folder).git_commit, run_folder.parents[1] / COMMIT
    return beside.read_text(encoding="utf-8").strip() if commit is None and beside.is_file() else commit


def _run(run: Run, of_sweep: Mapping[str, Any]) -> dict[str, Any]:
    """Edits and their cost, with the commit and the device if they are not those of the sweep's first run."""
    edits, environment = run.scores.edits, read_environment(run.folder)
    seconds = None if run.cpu_seconds_per_edit is None else round(run.cpu_seconds_per_edit, 4)
    found = {"edits": edits.edits, "failed": edits.failed, "cpu_seconds_per_edit": seconds}
    if edits.edits < run.cases.num_rows:
        found["planned"] = run.cases.num_rows
    return _beside(found | {"commit": _commit(run.folder), "device": environment.device}, of_sweep)


def _over_timesteps(run: Run) -> dict[str, Any]:
    """Update scores right after each timestep's edits and after all of them; other axes after all."""
    (retention,) = (one for one in run.scores.retention if (one.axis, one.preset) == ("update", FREE))
    reached = run.scores.timesteps[: len(retention.matrix)]
    last = reached[-1]
    before, own = (_rows(run, "update", stage=stage) for stage in ("before", "own"))
    update, rephrase, local = (_rows(run, axis, model_timestep=last) for axis in ("update", "rephrase", "locality"))
    earlier = [_of(table.filter(pc.field("timestep") != last)) for table in (own, update)]
    return {
        "before": as_values(_estimate_of(before)),
        "own": as_values(_estimate_of(own)),
        "final": as_values(_estimate_of(update)),
        "fed": as_values(_estimate_of(_rows(run, "update", preset=FED, model_timestep=last))),
        "rephrase": as_values(_estimate_of(rephrase)),
        "unchanged": as_values(_estimate_of(local, "unchanged")),
        "transfer": (_paired(*earlier) or {}).get("difference"),
        "forgetting": retention.forgetting,
        **_by_block(retention.matrix, run.scores.timesteps),
        "curve": _curve(run, reached),
        "peak_memory_bytes": run.scores.edits.peak_memory_bytes,
        "commonest": _commonest(run.folder, last),
        "loss": _loss(run.folder),
    }


def _by_block(matrix: Sequence[Sequence[float | None]], timesteps: Sequence[str]) -> dict[str, Any]:
    """Means over blocks of timesteps: right after each timestep, and after the last timestep of each block."""
    cells = np.full((len(timesteps), len(timesteps)), np.nan)
    for number, row in enumerate(matrix):
        cells[number, : len(row)] = [np.nan if one is None else one for one in row]
    blocks = _blocks(len(timesteps))
    return {
        "blocks": [f"{timesteps[one[0]].partition('_')[0]}_{timesteps[one[-1]].partition('_')[2]}" for one in blocks],
        "timesteps": len(timesteps),
        "own_by_block": [_mean(cells.diagonal()[one]) for one in blocks],
        "matrix": [[_mean(cells[row[-1], column]) for column in blocks] for row in blocks],
    }


def _blocks(timesteps: int) -> list[np.ndarray[Any, Any]]:
    """Numbers of the timesteps of each block."""
    return np.array_split(np.arange(timesteps), min(BLOCKS, timesteps))


def _curve(run: Run, reached: Sequence[str]) -> list[dict[str, Any]]:
    """Score over the questions of all timesteps so far, after each block of timesteps that was reached."""
    timesteps = run.scores.timesteps
    ends = [timesteps[block[-1]] for block in _blocks(len(timesteps))]
    return [
        {
            "after": end,
            "edits": edits_in_force(run, end),
            "update": as_values(_estimate_of(_rows(run, "update", model_timestep=end))),
        }
        for end in ends
        if end in reached
    ]


def _at_once(run: Run) -> dict[str, Any]:
    """Scores right after edits that were made at once, and the errors of answers that the model wrote."""
    single = run.spec.protocol == "single"
    written = _rows(run, "update", stage="own")
    errors = Counter(error for error in written["error"].to_pylist() if error)
    return {
        "method": run.spec.method,
        "at_once": 1 if single else run.scores.edits.edits,
        "update_free": as_values(_estimate_of(written)),
        "update_fed": as_values(_estimate_of(_rows(run, "update", preset=FED, stage="own"))),
        "rephrase_free": as_values(_estimate_of(_rows(run, "rephrase", stage="own"))),
        "errors": dict(sorted(errors.items())),
    }


def _mean(cells: np.ndarray[Any, Any]) -> float | None:
    known = cells[~np.isnan(cells)]
    return round(float(known.mean()), 4) if len(known) else None


def _loss(folder: Path) -> float | None:
    """Mean over edits of the loss that the method reports for each call; None for methods without one."""
    calls = [(cost.loss, len(cost.case_ids)) for cost in read_edit_costs(folder) if cost.loss is not None]
    return round(sum(loss * edits for loss, edits in calls) / sum(edits for _, edits in calls), 4) if calls else None


def _commonest(folder: Path, timestep: str) -> dict[str, Any]:
    """The free answer that update questions get most often after a timestep's edits, and its share."""
    texts = Counter(
        answer.text
        for answer in read_answers(folder)
        if (answer.model_state.timestep, answer.preset, answer.axis) == (timestep, FREE, "update")
    )
    text, count = min(texts.items(), key=lambda item: (-item[1], item[0]))
    return {"text": text, "share": round(count / texts.total(), 4)}


def _rows(run: Run, axis: str, *, preset: str = FREE, **fields: str) -> pa.Table:
    rows = run.answers
    for name, value in {"axis": axis, "preset": preset, **fields}.items():
        rows = rows.filter(pc.field(name) == value)
    return rows


def _of(rows: pa.Table, column: str = "value") -> Answers:
    """Answers of rows that have a value, in the order of their questions."""
    rows = rows.filter(pc.field(column).is_valid()).sort_by("question")
    values = rows[column].cast(pa.float64()).to_numpy()
    return values, rows["question"].to_numpy(), np.array(rows["relation"].to_pylist(), dtype=np.str_)


def _estimate_of(rows: pa.Table, column: str = "value") -> Estimate | None:
    values, _, relations = _of(rows, column)
    return estimate_of(values, relations)


def _compared(runs: Mapping[str, Run], label: str, asked: Mapping[str, Any]) -> dict[str, Any] | None:
    """First and second side with their difference; None if a run of it has not finished, or has no such answers."""
    names = [asked[side]["run"] for side in ("first", "second") if "level" not in asked[side]]
    if not set(names) <= set(runs):
        return None
    unit = "case" if asked["pair"] == "case" else "question"
    second = _answers(runs, asked["second"], unit)
    if not len(second[0]):
        return None
    if "level" in asked["first"]:
        measured = _against(float(asked["first"]["level"]), second)
    else:
        first = _answers(runs, asked["first"], unit)
        if not len(first[0]):
            return None
        measured = _unpaired(first, second) if asked["pair"] == "none" else _paired(first, second)
    return {"label": label, "asked": dict(asked), **measured} if measured else None


def _answers(runs: Mapping[str, Run], side: Mapping[str, Any], unit: str) -> Answers:
    """Answers of one side that have a value, or their mean for each case, in the order of the units."""
    run, column = runs[side["run"]], side.get("column", "value")
    stage = side.get("stage", "before" if run.spec.method == "none" else "own")
    rows = run.answers.filter(
        (pc.field("stage") == stage)
        & (pc.field("axis") == side["axis"])
        & (pc.field("preset") == side["preset"])
        & pc.field(column).is_valid()
    )
    for name, wanted in side.get("where", {}).items():
        rows = rows.filter(pa.array([str(value) in _texts(wanted) for value in _column(run, rows, name)]))
    for name, number in side.get("fourth", {}).items():
        known = np.array([np.nan if value is None else value for value in _column(run, rows, name)], dtype=np.float64)
        rows = rows.slice(0, 0) if np.isnan(known).all() else rows.filter(pa.array(fourths(known)[number - 1]))
    units, relations = rows[unit].to_numpy(), np.array(rows["relation"].to_pylist(), dtype=np.str_)
    own, first, index, counts = np.unique(units, return_index=True, return_inverse=True, return_counts=True)
    return np.bincount(index, rows[column].cast(pa.float64()).to_numpy(), len(own)) / counts, own, relations[first]


def _column(run: Run, rows: pa.Table, column: str) -> list[Any]:
    """Property of each answer: its own, or that of its case."""
    if column in rows.column_names:
        found: list[Any] = rows[column].to_pylist()
        return found
    of_case = dict(zip(run.cases["case"].to_pylist(), run.cases[column].to_pylist(), strict=True))
    return [of_case.get(case) for case in rows["case"].to_pylist()]


def _texts(wanted: Any) -> list[str]:
    return [str(value) for value in (wanted if isinstance(wanted, list) else [wanted])]


def _against(level: float, second: Answers) -> dict[str, Any]:
    """Comparison with a constant share."""
    values, _, relations = second
    own = estimate_of(values, relations)
    low, high = (None if own is None or end is None else end - level for end in (own and own.low, own and own.high))
    return _measured(None, own, Estimate(float(values.mean()) - level, low, high, len(values)), relations, SHARE)


def _paired(first: Answers, second: Answers) -> dict[str, Any] | None:
    """Comparison of the units that both sides have; None if there are none."""
    common = np.intersect1d(first[1], second[1])
    if not len(common):
        return None
    one, other = (side[0][np.searchsorted(side[1], common)] for side in (first, second))
    relations = second[2][np.searchsorted(second[1], common)]
    scale = _scale(one, other)
    sides = (estimate_of(values, relations, scale) for values in (one, other))
    return _measured(*sides, estimate_of(other - one, relations, of_differences(scale)), relations, scale)


def _unpaired(first: Answers, second: Answers) -> dict[str, Any]:
    """Comparison of different answers. Answers of one relation vary together, whatever side they are on."""
    n, scale = len(first[0]) + len(second[0]), _scale(first[0], second[0])
    mean = second[0].mean() - first[0].mean()
    # Linearised: the mean of these is the difference, and their sums over relations have its variance.
    parts = [mean + sign * n / len(side[0]) * (side[0] - side[0].mean()) for sign, side in ((-1, first), (1, second))]
    relations = np.concatenate([first[2], second[2]])
    sides = (estimate_of(side[0], side[2], scale) for side in (first, second))
    return _measured(*sides, estimate_of(np.concatenate(parts), relations, of_differences(scale)), relations, scale)


def _scale(*sides: Any) -> MetricScale:
    """From 0 or -1 to 1 if all values are shares or differences of shares, else without ends."""
    values = np.concatenate(sides)
    if (np.abs(values) > 1).any():
        return MetricScale(minimum=None, maximum=None, higher_is_better=True)
    return SHARE if (values >= 0).all() else of_differences(SHARE)


def _measured(
    first: Estimate | None, second: Estimate | None, difference: Estimate | None, relations: Any, scale: MetricScale
) -> dict[str, Any]:
    sides = {"first": as_values(first), "second": as_values(second), "difference": as_values(difference)}
    return sides | {"relations": len(np.unique(relations)), "share": scale.minimum is not None}
