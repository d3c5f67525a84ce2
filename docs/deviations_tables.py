"""Prints docs/methods.md's table of deviations undone, by docs/deviations.yaml: deviations_tables.py OUT"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from methods_tables import HELD, cells_of, head, named
from results_tables import row

from kgedit.runs.run_files import read_runs
from kgedit.runs.sweeps.run_names import run_name

SWEEP = Path(__file__).parent / "deviations.yaml"
MEASURES = (
    ("update", "synthetic", "token_match"),
    ("update", "few_shot", "exact_match"),
    ("rephrase", "synthetic", "token_match"),
    ("rephrase", "few_shot", "exact_match"),
    ("locality", "synthetic", "unchanged"),
    ("locality", "few_shot", "unchanged"),
)


def table(out: Path) -> str:
    """Every run that has ended, in the order of the sweep."""
    lines = head("", ["edits", *map(named, MEASURES), "CPU s per edit"])
    for given in yaml.safe_load(SWEEP.read_text(encoding="utf-8"))["runs"]:
        fields = dict(_fields(given))
        folder = out / run_name(given["method"], fields)
        if not (folder / "scores.json").is_file():
            continue
        (run,) = read_runs([folder])
        changed = ", ".join(f"`{field[-1]}: {_yaml(value)}`" for field, value in fields.items() if len(field) > 1)
        trained = f"`train_context: {given['train_context']}`" if "train_context" in given else ""
        said = ", ".join(part for part in (changed, trained) if part) or "by default"
        lines.append(
            row(
                f"`{run.spec.method}`{HELD[run.spec.protocol]}: {said}",
                [str(run.scores.edits.edits), *cells_of(run, MEASURES)],
            )
        )
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
    sys.stdout.write(table(Path(sys.argv[1])) + "\n")
