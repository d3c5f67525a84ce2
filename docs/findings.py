"""Writes docs/findings.md: findings.py; findings.py RUNS also measures again what the sweeps in RUNS have finished.

docs/findings/claims.yaml has the claims and their places in the papers; docs/findings/NAME.yaml are specs of sweeps;
docs/findings/results/NAME.json has what was measured on their runs in RUNS/NAME (findings_measures.py): every number of
the page.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from findings_measures import BLOCKS, LENGTHS, STREAMS, comparisons, measure, with_stored

from kgedit.analysis.tables import Estimate, Unit, as_text
from kgedit.pages.charts.lines import Curve, curves
from kgedit.pages.marks import Figure, figure_svg

DOCS = Path(__file__).resolve().parent
CLAIMS = DOCS / "findings" / "claims.yaml"
RESULTS = DOCS / "findings" / "results"
PAGE = DOCS / "findings.md"
FIGURE = DOCS / "findings" / "stream.svg"
FIGURE_TITLE = "Share of right answers to the questions of all timesteps so far, by number of edits"


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
    lines += ["## Edits made at once", ""]
    for name in LENGTHS:
        if name in results:
            lines += [written[name].strip(), "", f"`{name}`:", "", *_lengths(results[name]), ""]
    return "\n".join([*lines, "## Sweeps", "", *_sweeps(claims, results), ""])


TRAINED = ("crispedit", "ft_m", "locft_bf", "lora", "lora_merge")
"""Methods in the first panel of the figure."""


def figure(results: Mapping[str, Mapping[str, Any]]) -> str:
    """The curves of all streams longer than BLOCKS, as SVG; without the unedited model and former defaults."""
    lines = [
        Curve("no history" if "history=false" in name else name.split("-")[0], points)
        for stream in STREAMS
        for name, one in results.get(stream, {}).get("stream", {}).items()
        if one["timesteps"] > BLOCKS and name != "none" and "max_grad_norm=null" not in name
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
            _edits(run),
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
    lines += [f"| Of the answers after the most edits | Edits | {' | '.join(kinds)} |"]
    lines += ["| :-- | --: |" + " --: |" * len(kinds)]
    for method, own in sorted(by_method.items()):
        most = max(own)
        if most > 1:
            asked, errors = own[most]["update_free"]["n"], own[most]["errors"]
            cells = [as_text(errors.get(kind, 0) / asked, "percent") for kind in kinds]
            lines.append(f"| `{method}` | {most:,} | {' | '.join(cells)} |")
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
        shown = _longest(result) if name in LENGTHS else result["runs"]
        runs = ", ".join(f"`{key}` {_edits(run)}{_cost(run)}" for key, run in shown.items())
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
    return list(dict.fromkeys([*(claim["spec"] for claim in claims), *STREAMS, *LENGTHS]))


def _edits(run: Mapping[str, Any]) -> str:
    """Number of a run's edits, and of those that it would have made if it had not been stopped."""
    return f"{run['edits']:,}" + (f" of {run['planned']:,}" if "planned" in run else "")


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
                found = with_stored(found, stored_results().get(name), claims)
                text = json.dumps(found, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
                (RESULTS / f"{name}.json").write_text(text, encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")
    FIGURE.write_text(figure(stored_results()), encoding="utf-8")


if __name__ == "__main__":
    main()
