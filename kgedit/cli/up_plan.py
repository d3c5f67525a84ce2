"""Plan of `kgedit up`: its first line, and the table of --dry-run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kgedit.cli.formats import print_json, wants_json
from kgedit.cli.tables import print_tables

if TYPE_CHECKING:
    from kgedit.verbs.up_estimates import StepEstimate
    from kgedit.verbs.up_inputs import UpInputs


def plan(inputs: UpInputs, estimates: Sequence[StepEstimate]) -> str:
    """First line: the work, its number of steps and approximate duration."""
    runs = [f"{run['model']} with {run['method']}" for run in inputs.runs]
    edited = " and ".join([", ".join(runs[:-1]), runs[-1]] if len(runs) > 1 else runs)
    of = "the bundled sample of Wikidata" if inputs.is_sample else "Wikidata"
    left = [one for one in estimates if not one.is_done]
    seconds = [one.seconds for one in left if one.seconds is not None]
    about = f", about {_duration(sum(seconds))}" if seconds and len(seconds) == len(left) else ""
    steps = f"{len(estimates)} steps" + (
        f", {len(estimates) - len(left)} already done" if len(left) < len(estimates) else ""
    )
    return (
        f"Finding what changed in {of} between {inputs.older.date} and {inputs.newer.date}, and editing {edited}: "
        f"{steps}{about} on two idle cores. If it is stopped, the same command resumes it."
    )


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{round(seconds, -1):.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 6000 else f"{seconds / 3600:.0f} hours"


def print_estimates(estimates: Sequence[StepEstimate]) -> None:
    """Print a table of the steps with the basis of each estimate, or JSON."""
    from kgedit.analysis.tables import Column, Table

    if wants_json():
        from dataclasses import asdict

        print_json([asdict(one) for one in estimates])
        return
    columns = (
        Column("step", key=True),
        Column("state"),
        Column("seconds", "count"),
        Column("disk MB", "plain"),
        Column("memory GiB", "gibibytes"),
        Column("questions", "count"),
    )
    rows = tuple(
        (
            f"{number} {one.name}",
            "done" if one.is_done else "to do",
            *_rounded(one.seconds, one.disk, one.memory),
            one.questions,
        )
        for number, one in enumerate(estimates, start=1)
    )
    print_tables([Table("Estimates: nothing was done", columns, (*rows, _total(estimates)), _basis(estimates))])


def _total(estimates: Sequence[StepEstimate]) -> tuple[Any, ...]:
    seconds = [one.seconds for one in estimates if one.seconds is not None]
    total = sum(seconds) if len(seconds) == len(estimates) else None
    memory = max((one.memory for one in estimates if one.memory), default=None)
    rounded = _rounded(total, sum(one.disk for one in estimates), memory)
    return "all", "", *rounded, sum(one.questions for one in estimates)


def _rounded(seconds: float | None, disk: float, memory: float | None) -> tuple[int | None, float | None, float | None]:
    """Whole seconds, MB and GiB, with no more digits than an estimate supports."""
    return (
        None if seconds is None else round(seconds),
        float(f"{disk / 1e6:.2g}") or None,
        None if not memory else round(memory / 2**30, 1),
    )


def _basis(estimates: Sequence[StepEstimate]) -> str:
    bases = [f"{number}: {one.basis}." for number, one in enumerate(estimates, start=1) if not one.is_done]
    return "\n".join(
        [
            *bases,
            "Rates were measured on two idle cores, or are those of earlier runs in this home; your machine may take "
            "half or twice as long. Memory is empty where it was not measured.",
        ]
    )
