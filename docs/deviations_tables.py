"""Prints the tables of docs/measurements/2026-11-24-settings-of-methods.md: deviations_tables.py OUT

The runs are the sweeps of docs/methods.sh.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from methods_tables import HELD, cells_of, head, named
from results_tables import row

from kgedit.analysis.runs import Run
from kgedit.runs.run_files import read_runs
from kgedit.runs.sweeps.planning import run_name

SWEEPS = {"deviations": "SmolLM2-135M", "closed-forms": "SmolLM2-135M", "deviations-tiny": "`tiny`"}


def tables(out: Path) -> str:
    """One for each sweep of which a run has ended."""
    found = [(title, _runs(name, out / name)) for name, title in SWEEPS.items()]
    return "\n\n".join(_table(title, runs) for title, runs in found if runs)


def _runs(sweep: str, out: Path) -> list[tuple[str, Run]]:
    """Runs that have ended, each with what it does otherwise, in the order of the sweep."""
    runs = []
    for given in yaml.safe_load((Path(__file__).parent / f"{sweep}.yaml").read_text(encoding="utf-8"))["runs"]:
        fields = dict(_fields(given))
        folder = out / run_name(given["method"], fields)
        if (folder / "scores.json").is_file():
            changed = [f"`{field[-1]}: {_yaml(value)}`" for field, value in fields.items() if field != ("protocol",)]
            (run,) = read_runs([folder])
            runs.append((", ".join(changed) or "by default", run))
    return runs


def _table(title: str, runs: Sequence[tuple[str, Run]]) -> str:
    presets = runs[0][1].spec.presets
    measures = [(axis, preset.name, preset.metric) for axis in ("update", "rephrase") for preset in presets]
    measures += [("locality", preset.name, "unchanged") for preset in presets]
    lines = head(title, ["edits", *map(named, measures), "CPU s per edit"])
    for said, run in runs:
        name = f"`{run.spec.method}`{HELD[run.spec.protocol]}: {said}"
        lines.append(row(name, [str(run.scores.edits.edits), *cells_of(run, measures)]))
    return "\n".join(lines)


def _fields(given: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """What a run of the sweep gives, by the names that its folder is named after."""
    for name, value in given.items():
        if name == "settings":
            yield from (((name, key), own) for key, own in value.items())
        elif name != "method":
            yield (name,), value


def _yaml(value: object) -> str:
    return yaml.safe_dump(value).removesuffix("...\n").strip()


if __name__ == "__main__":
    sys.stdout.write(tables(Path(sys.argv[1])) + "\n")
