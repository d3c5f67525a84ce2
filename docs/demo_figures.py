"""Measures the default of `kgedit up` on the bundled sample over several seeds, for docs/measurements.

python docs/demo_figures.py HOME 0 1 2 3 4

prints a Markdown table with a row for each model and method: the values of the seeds in order, then their mean. The
processor seconds of each seed are written to stderr. Finished runs of the same version are not repeated.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import click

import kgedit

COLUMNS = {
    "free": "New facts answered freely",
    "reworded": "In other words",
    "kept": "Unrelated answers kept",
}
"""Columns of the table: fields of a method's numbers, and their headings."""


def main(home: str, seeds: Sequence[int]) -> None:
    """Print the table."""
    measured: dict[str, list[Mapping[str, Any]]] = {}
    for seed in seeds:
        begun = time.process_time()
        outcome = kgedit.up(spec={"seed": seed}, home=home, graph=False)
        for method in outcome.numbers["methods"]:
            measured.setdefault(f"{method['model']}, {method['method']}", []).append(method)
        click.echo(f"seed {seed}: {time.process_time() - begun:.0f} processor seconds", err=True)
    click.echo("| Model, method | " + " | ".join(COLUMNS.values()) + " |")
    click.echo("|---|" + "---|" * len(COLUMNS))
    for name, runs in measured.items():
        click.echo(f"| {name} | " + " | ".join(_values(runs, column) for column in COLUMNS) + " |")


def _values(runs: Sequence[Mapping[str, Any]], column: str) -> str:
    """Shares of the seeds in percent, and their mean."""
    shares = [100 * run[column]["mean"] for run in runs]
    return f"{', '.join(f'{share:.0f}' for share in shares)} % (mean {fmean(shares):.0f})"


if __name__ == "__main__":
    main(sys.argv[1], [int(seed) for seed in sys.argv[2:]] or [0])
