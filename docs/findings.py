"""Writes docs/findings.md: findings.py; findings.py RUNS also measures again what the sweeps in RUNS have finished.

docs/findings/claims.yaml has the claims and their places in the papers; docs/findings/NAME.yaml are specs of sweeps;
docs/findings/results/NAME.json has what was measured on their runs in RUNS/NAME: every number of the page. The sweeps
STREAMS have tables too, which compare methods over a stream of timesteps. A run of them that was stopped counts up to
the last timestep after which all questions were asked. LENGTHS has tables by the number of edits made at once.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import yaml

from kgedit.analysis.answers import estimate_of
from kgedit.analysis.comparisons import of_differences
from kgedit.analysis.runs import Run
from kgedit.analysis.tables import Estimate, Unit, as_text, as_values
from kgedit.analysis.wikifactdiff import fourths
from kgedit.pages.charts.lines import Curve, curves
from kgedit.pages.figures_over_time import edits_in_force
from kgedit.pages.marks import Figure, figure_svg
from kgedit.records.scores import SHARE, MetricScale
from kgedit.runs.run_files import read_answers, read_edit_costs, read_environment, read_runs
from kgedit.runs.scoring import write_scores

DOCS = Path(__file__).resolve().parent
CLAIMS = DOCS / "findings" / "claims.yaml"
RESULTS = DOCS / "findings" / "results"
PAGE = DOCS / "findings.md"
FIGURE = DOCS / "findings" / "stream.svg"
FIGURE_TITLE = "Share of right answers to the questions of all timesteps so far, by number of edits"

STREAMS = ("changes-projected", "changes-projected-retrieved", "changes")
LENGTHS = "lengths"
FREE, FED = "free", "fed"
"""Presets of these sweeps."""

BLOCKS = 8
"""Columns of a table by timestep: a longer stream is shown after each of that many blocks of timesteps."""

COMMIT = "COMMIT"
"""File in RUNS with the commit of runs that were made from a copy of the code without git."""

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


# Measuring


def measure(name: str, folder: Path, claims: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """What was measured on the finished runs of one sweep; None if there are none."""
    with TemporaryDirectory() as aside:
        if (folder.parent / COMMIT).is_file():
            shutil.copy(folder.parent / COMMIT, aside)
        started = folder.glob("*/answers.jsonl") if name in STREAMS else []
        stopped = [_so_far(path.parent, Path(aside) / name) for path in started]
        folders = [*(path.parent for path in folder.glob("*/scores.json")), *filter(None, stopped)]
        return _measured_on(sorted(folders, key=lambda path: path.name), name, claims) if folders else None


def _so_far(folder: Path, aside: Path) -> Path | None:
    """A scored copy of an unfinished run, up to the last timestep after which all its questions were asked.

    None for a finished run, and for one that has not come that far in two timesteps: it has no earlier one to retain.
    """
    if (folder / "scores.json").is_file():
        return None
    kept = list(dict.fromkeys(answer.model_state.timestep for answer in read_answers(folder)))[:-1]
    if len(kept) < 3:  # before any edit, and after two timesteps
        return None
    copy = shutil.copytree(folder, aside / folder.name, ignore=shutil.ignore_patterns("checkpoints"))
    for path in (copy / "answers.jsonl", copy / "edits.jsonl"):
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        path.write_text("".join(line for line in lines if _after(json.loads(line)) in kept), encoding="utf-8")
    write_scores(copy)
    return copy


def _after(line: Mapping[str, Any]) -> str | None:
    """Timestep that an answer was given after, or that an edit is of."""
    timestep: str | None = line.get("model_state", line)["timestep"]
    return timestep


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
    if name == LENGTHS:
        found["lengths"] = {path.name: _at_once(runs[path.name]) for path in folders}
    if asked or name not in (*STREAMS, LENGTHS):
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
    own = {"commit": _commit(run.folder), "device": environment.device}
    return found | {name: value for name, value in own.items() if value != of_sweep[name]}


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


# Writing


def page() -> str:
    """The page, from the claims and the stored results.

    Raises:
        ValueError: if a stored comparison is not what its claim now asks for.
    """
    written = yaml.safe_load(CLAIMS.read_text(encoding="utf-8"))
    claims, results = written["claims"], stored_results()
    verdicts = Counter(verdict(claim, stored(claim, results)) for claim in claims)
    head = written["page"].replace("{counts}", _counts(verdicts, len(claims)))
    lines = [head.strip(), ""]
    for paper in dict.fromkeys(claim["paper"] for claim in claims):
        lines += [
            f"## {paper}",
            "",
            "| Claim | Sweep | Measured here | Same direction | Why it may differ, or what is missing |",
        ]
        lines.append("| :-- | :-- | :-- | :-- | :-- |")
        lines += [_row(claim, stored(claim, results)) for claim in claims if claim["paper"] == paper]
        lines.append("")
    lines += ["## A stream of real changes", "", written["stream"].strip(), ""]
    lines += [f"![{FIGURE_TITLE}](findings/{FIGURE.name})", ""]
    for name in STREAMS:
        if name in results:
            lines += [f"`{name}`{_missing(name, results[name])}:", "", *_stream(results[name]), ""]
    if LENGTHS in results:
        lines += ["## Edits made at once", "", written["lengths"].strip(), "", *_lengths(results[LENGTHS]), ""]
    return "\n".join([*lines, "## Sweeps", "", *_sweeps(claims, results), ""])


TRAINED = ("crispedit", "ft_m", "locft_bf", "lora", "lora_merge")
"""Methods in the first panel of the figure."""


def figure(results: Mapping[str, Mapping[str, Any]]) -> str:
    """The curves of all streams longer than BLOCKS, as SVG; without the unedited model."""
    lines = [
        Curve("no history" if "history=false" in name else name.split("-")[0], points)
        for stream in STREAMS
        for name, one in results.get(stream, {}).get("stream", {}).items()
        if one["timesteps"] > BLOCKS and name != "none"
        if (points := tuple((point["edits"], _estimate(point["update"])) for point in one["curve"]))
    ]
    parts = {
        "Training": [line for line in lines if line.name in TRAINED],
        "Computed changes, memories, prompts": [line for line in lines if line.name not in TRAINED],
    }
    drawn = tuple(curves(title, part, role="free") for title, part in parts.items() if part)
    return figure_svg(Figure("stream", FIGURE_TITLE, drawn, "Vertical lines: 95 % intervals. no history: alphaedit."))


def _missing(name: str, result: Mapping[str, Any]) -> str:
    """The methods of a spec of which no run is stored."""
    spec = yaml.safe_load((DOCS / "findings" / f"{name}.yaml").read_text(encoding="utf-8"))
    planned = dict.fromkeys([*spec.get("grid", {}).get("method", []), *(run["method"] for run in spec.get("runs", []))])
    names = [f"`{method}`" for method in planned if not any(run.split("-")[0] == method for run in result["runs"])]
    return f" (not run: {', '.join(names)})" if names else ""


def stored_results() -> dict[str, dict[str, Any]]:
    """Results of each sweep that was run, by its name."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(RESULTS.glob("*.json"))}


def stored(claim: Mapping[str, Any], results: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Measured comparisons of a claim.

    Raises:
        ValueError: if they are not those of the claim.
    """
    found: list[dict[str, Any]] = results.get(claim["spec"], {}).get("claims", {}).get(claim["id"], [])
    asked = [one for _, one in comparisons(claim)]
    if any(one["asked"] not in asked for one in found):
        raise ValueError(f"{claim['id']}: measured something else; run docs/findings.py RUNS")
    return found


def verdict(claim: Mapping[str, Any], found: Sequence[Mapping[str, Any]]) -> str:
    """Whether the measured differences have the claim's direction."""
    if not found:
        return "not run"
    each = Counter(_direction(claim, one["difference"]) for one in found)
    if len(each) == 1:
        return next(iter(each))
    return ", ".join(f"{name}: {each[name]} of {len(found)}" for name in ("yes", "no", "not decided") if each[name])


def _direction(claim: Mapping[str, Any], difference: Mapping[str, Any]) -> str:
    low, high = difference["low"], difference["high"]
    if low is None or high is None:
        return "not decided"
    match claim["expect"]:
        case "lower":
            return "yes" if high < 0 else "no" if low > 0 else "not decided"
        case "higher":
            return "yes" if low > 0 else "no" if high < 0 else "not decided"
        case "same":
            margin = claim["margin"]
            return (
                "yes" if -margin < low and high < margin else "no" if low > margin or high < -margin else "not decided"
            )
        case other:
            raise ValueError(f"{claim['id']}: expect is lower, higher or same, not {other}")


def _row(claim: Mapping[str, Any], found: Sequence[Mapping[str, Any]]) -> str:
    asked = len(list(comparisons(claim)))
    figures = [_figure(one, alone=asked == 1) for one in found]
    cells = [
        f"{claim['claim']} ({claim['place']})",
        f"[`{claim['spec']}`](#sweeps)",
        "<br>".join([*figures, claim["measure"]]),
        verdict(claim, found) + (f" ({len(found)} of {asked} run)" if 0 < len(found) < asked else ""),
        claim["differ"] if found else f"Needs {claim['needs']}",
    ]
    return f"| {' | '.join(cells)} |"


def _stream(result: Mapping[str, Any]) -> list[str]:
    """Two tables: means over all timesteps; and each timestep right after its edits and after all.

    For more timesteps than BLOCKS, the second one has all questions so far after each block of timesteps.
    """
    heads = ("Edits", "Before", "Own", "After all", "Backward transfer", "Forgetting", "Rephrased", "Fed", "Unchanged")
    others = ("Commonest answer", "Loss", "Processor s an edit", "Peak memory, GB")
    lines = [f"| Method | {' | '.join(heads + others)} |"]
    lines.append("| :-- | " + "--: | " * len(heads) + ":-- | --: | --: | --: |")
    for name, one in result["stream"].items():
        run = result["runs"][name]
        cells = [
            f"`{name}`",
            f"{run['edits']:,}" + (f" of {run['planned']:,}" if "planned" in run else ""),
            *(_share(one[key]) for key in ("before", "own", "final")),
            as_text(one["transfer"] and _estimate(one["transfer"]), "points"),
            as_text(one["forgetting"], "points"),
            *(_share(one[key]) for key in ("rephrase", "fed", "unchanged")),
            f"{one['commonest']['text'][:30].replace('|', ' ') or '(empty)'}, {one['commonest']['share']:.0%}",
            as_text(one["loss"], "plain"),
            as_text(run["cpu_seconds_per_edit"], "seconds"),
            f"{one['peak_memory_bytes'] / 1e9:.2f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    some = next(iter(result["stream"].values()))
    if some["timesteps"] > BLOCKS:
        return [*lines, "", *_curves(result)]
    blocks = some["blocks"]
    lines += ["", f"| Method | {' | '.join(f'T{number}' for number in range(1, len(blocks) + 1))} |"]
    lines.append("| :-- | " + " | ".join(["--:"] * len(blocks)) + " |")
    for name, one in result["stream"].items():
        pairs = zip(one["own_by_block"], one["matrix"][-1], strict=True)
        cells = [" → ".join(as_text(value, "percent") for value in pair) for pair in pairs]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    named = ", ".join(f"T{number} {block}" for number, block in enumerate(blocks, 1))
    return [*lines, "", f"{named.replace('_', ' to ')}."]


def _curves(result: Mapping[str, Any]) -> list[str]:
    longest = max((one["curve"] for one in result["stream"].values()), key=len)
    heads = " | ".join(f"{point['edits']:,}" for point in longest)
    lines = [f"| Method, after | {heads} edits |"]
    lines.append("| :-- | " + " | ".join(["--:"] * len(longest)) + " |")
    for name, one in result["stream"].items():
        cells = [_share(point["update"]) for point in one["curve"]] + ["–"] * (len(longest) - len(one["curve"]))
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return lines


def _lengths(result: Mapping[str, Any]) -> list[str]:
    """A table for each way of asking, with a row for each method; then the errors of written answers."""
    by_method: dict[str, dict[int, Mapping[str, Any]]] = {}
    for one in result["lengths"].values():
        by_method.setdefault(one["method"], {})[one["at_once"]] = one
    numbers = sorted({number for own in by_method.values() for number in own})
    lines: list[str] = []
    for key, title in (
        ("update_free", "Written"),
        ("update_fed", "Fed"),
        ("rephrase_free", "Rephrased, written"),
    ):
        ends = [" | Half is lost at |", " | --: |"] if key == "update_free" else [" |", " |"]
        lines += [f"| {title} | {' | '.join(f'{number:,}' for number in numbers)}{ends[0]}"]
        lines += ["| :-- | " + " | ".join(["--:"] * len(numbers)) + ends[1]]
        for method, own in sorted(by_method.items()):
            cells = [_share(own[number][key]) if number in own else "–" for number in numbers]
            cells += [_half_lost(own)] if key == "update_free" else []
            lines.append(f"| `{method}` | {' | '.join(cells)} |")
        lines.append("")
    kinds = sorted({kind for own in by_method.values() for one in own.values() for kind in one["errors"]})
    most = numbers[-1]
    lines += [f"| Of the answers after {most:,} edits | {' | '.join(kinds)} |", "| :-- |" + " --: |" * len(kinds)]
    for method, own in sorted(by_method.items()):
        if most in own:
            asked, errors = own[most]["update_free"]["n"], own[most]["errors"]
            cells = [as_text(errors.get(kind, 0) / asked, "percent") for kind in kinds]
            lines.append(f"| `{method}` | {' | '.join(cells)} |")
    return lines


def _half_lost(own: Mapping[int, Mapping[str, Any]]) -> str:
    """The least number of edits at once from which on less than half of a single edit's score is left."""
    shares = {number: one["update_free"]["mean"] for number, one in own.items()}
    kept = max((number for number, share in shares.items() if share >= shares.get(1, 0) / 2), default=0)
    lost = [number for number in shares if number > kept]
    return f"{min(lost):,}" if lost else "–"


def _share(values: Mapping[str, Any] | None) -> str:
    return as_text(values and _estimate(values), "percent")


_UNITS: Mapping[bool, tuple[Unit, Unit]] = {True: ("percent", "points"), False: ("plain", "change")}
"""Of values and of differences, by whether they are shares."""


def _figure(one: Mapping[str, Any], *, alone: bool) -> str:
    unit, change = _UNITS[one["share"]]
    label = "" if alone else f"`{one['label']}`: "
    if one["first"] is None:
        return f"{label}{as_text(_estimate(one['second']), unit)}, n = {one['second']['n']}"
    first, second = (as_text(one[side]["mean"], unit) for side in ("first", "second"))
    counts = " and ".join(map(str, dict.fromkeys([one["first"]["n"], one["second"]["n"]])))
    return f"{label}{first} → {second}, {as_text(_estimate(one['difference']), change)}, n = {counts}"


def _estimate(values: Mapping[str, Any]) -> Estimate:
    return Estimate(values["mean"], values["low"], values["high"])


def _counts(verdicts: Mapping[str, int], total: int) -> str:
    mixed = sum(count for name, count in verdicts.items() if ":" in name)
    named = {"yes": "have the same direction", "no": "the opposite one", "not decided": "are not decided"}
    parts = [f"{verdicts[name]} {said}" for name, said in named.items() if verdicts.get(name)]
    parts += [f"{mixed} differ by method"] if mixed else []
    parts += [f"{verdicts['not run']} were not run"] if verdicts.get("not run") else []
    return f"Of {total} claims, {', '.join(parts)}."


def _sweeps(claims: Sequence[Mapping[str, Any]], results: Mapping[str, Mapping[str, Any]]) -> list[str]:
    lines = [
        "| Sweep | Command | Model | Edits, processor seconds an edit | Versions |",
        "| :-- | :-- | :-- | :-- | :-- |",
    ]
    for name in _names(claims):
        command = spec_command(name)
        result = results.get(name)
        if result is None:
            lines.append(f"| `{name}` | `{command}` | not run | | |")
            continue
        environment = result["environment"]
        shown = _longest(result) if name == LENGTHS else result["runs"]
        runs = ", ".join(f"`{key}` {run['edits']}{_cost(run)}" for key, run in shown.items())
        versions = ", ".join(f"{package} {version}" for package, version in environment["packages"].items())
        commit = f", commit {environment['commit'][:8]}" if environment["commit"] else ""
        commit += " (rebased)" if environment.get("rebased") else ""
        model = f"`{environment['model']}`, {environment['parameters'] / 1e6:,.0f} M weights, {environment['device']}"
        lines.append(f"| `{name}` | `{command}` | {model} | {runs} | {versions}{commit} |")
    if any(result["environment"].get("rebased") for result in results.values()):
        rebased = (
            "the runs were made on a branch, and the commit is the one that added their results to the main branch"
        )
        lines += ["", f"Rebased: {rebased}."]
    return lines


def _longest(result: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Of each method, the run with the most edits."""
    runs = sorted(result["runs"].items(), key=lambda item: (item[0].split("-")[0], item[1]["edits"]))
    return {name.split("-")[0]: run for name, run in runs}


def _names(claims: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys([*(claim["spec"] for claim in claims), *STREAMS, LENGTHS]))


def _cost(run: Mapping[str, Any]) -> str:
    seconds, commit = run["cpu_seconds_per_edit"], run.get("commit")
    shown = [as_text(seconds, "seconds")] if seconds else []
    shown += [f"commit {commit[:8]}"] if commit else []
    shown += [run["device"]] if "device" in run else []
    return f" ({', '.join(shown)})" if shown else ""


def spec_command(name: str) -> str:
    """The command that runs a spec: its second line."""
    lines = (DOCS / "findings" / f"{name}.yaml").read_text(encoding="utf-8").splitlines()
    return lines[1].removeprefix("#").strip()


def main() -> None:
    """Measure what RUNS has, if given, and write the page."""
    claims = yaml.safe_load(CLAIMS.read_text(encoding="utf-8"))["claims"]
    for given in sys.argv[1:2]:
        for name in _names(claims):
            found = measure(name, Path(given) / name, claims)
            if found:
                text = json.dumps(found, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
                (RESULTS / f"{name}.json").write_text(text, encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")
    FIGURE.write_text(figure(stored_results()), encoding="utf-8")


if __name__ == "__main__":
    main()
