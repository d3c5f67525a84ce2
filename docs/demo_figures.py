"""Measures the default of `kgedit up` on the bundled sample, for the figures of README and docs/how-to/one-command.md.

python docs/demo_figures.py HOME            # seed 0, as `make demo`
python docs/demo_figures.py HOME 0 1 2 3 4  # a Markdown row for each model and seed

A home that holds finished runs of the same version is not measured again.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

import click

import kgedit
from kgedit.analysis.cells import Estimate
from kgedit.pages.charts.scales import estimate_text

COLUMNS = ("old_known", "free_before", "free", "reworded", "kept")


def main(home: str, seeds: list[int]) -> None:
    """Print one row for each seed and model, and the processor seconds of this process for each seed."""
    click.echo(
        "| seed | model, method | old answers before | new before | new after | in other words | unrelated kept |"
    )
    click.echo("|---|---|---|---|---|---|---|")
    for seed in seeds:
        begun = time.process_time()
        outcome = kgedit.up(spec={"seed": seed}, home=home)
        for method in outcome.numbers["methods"]:
            shares = " | ".join(estimate_text(_estimate(method[name])) for name in COLUMNS)
            click.echo(f"| {seed} | {method['model']}, {method['method']} | {shares} |")
        click.echo(f"seed {seed}: {time.process_time() - begun:.0f} processor seconds", err=True)


def _estimate(share: Mapping[str, Any] | None) -> Estimate | None:
    return None if share is None else Estimate(**share)


if __name__ == "__main__":
    main(sys.argv[1], [int(seed) for seed in sys.argv[2:]] or [0])
