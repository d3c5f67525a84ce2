"""`kgedit up`: from two states of Wikidata to an edited model and its page, in one command."""

from __future__ import annotations

import datetime
import os
import shutil
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kgedit.cli import completion
from kgedit.cli.dates import SNAPSHOT_DATE
from kgedit.cli.examples import examples
from kgedit.cli.formats import print_json, result_format, wants_json
from kgedit.cli.interrupts import ResumableCommand
from kgedit.cli.progress import bars, say

if TYPE_CHECKING:
    from kgedit.api.one_command import Outcome, StepTaken
    from kgedit.api.up_estimates import StepEstimate
    from kgedit.api.up_inputs import UpInputs


@click.command(
    cls=ResumableCommand,
    epilog=examples(
        "kgedit up",
        "kgedit up 20210104.json.gz 20230227.json.gz --redirects redirects.tsv --model smollm2-135m --method memit",
        "kgedit up --from 2021-01-04 --to 2023-02-27 --method grace --method rag --sample 50 --no-open",
        "kgedit up old.json.bz2 new.json.bz2 --from 2021-01-04 --to 2023-02-27 --dry-run",
    ),
)
@click.argument("older", metavar="[OLD", required=False)
@click.argument("newer", metavar="NEW]", required=False)
@click.option("--from", "older_date", **SNAPSHOT_DATE,
              help="Day of OLD, where its name does not tell it; without OLD, of a loaded snapshot.")  # fmt: skip
@click.option("--to", "newer_date", **SNAPSHOT_DATE, help="The same of NEW.")
@click.option("--redirects", type=click.Path(path_type=Path, exists=True, dir_okay=False),
              help="As for load-dump, for both.")  # fmt: skip
@click.option("--model", metavar="NAME", default="tiny", show_default=True,
              help="As for run-edit; tiny is trained on what OLD says.")  # fmt: skip
@click.option("--method", "methods", metavar="NAME", multiple=True, default=("grace",), show_default=True,
              shell_complete=completion.methods, help="As for run-edit; repeat for several.")  # fmt: skip
@click.option("--protocol", metavar="NAME", shell_complete=completion.protocols, help="As for run-edit.")
@click.option("--preset", "presets", metavar="NAME", multiple=True, shell_complete=completion.presets,
              help="As for run-edit; repeat.")  # fmt: skip
@click.option("--sample", metavar="N", type=click.IntRange(min=1),
              help="N cases, drawn by --seed. Default: all; 30 of the bundled sample's.")  # fmt: skip
@click.option("--all-cases", is_flag=True, help="Edit also what the model answers right already.")
@click.option("--seed", metavar="N", type=click.IntRange(min=0), help="As for run-edit.")
@click.option("--device", metavar="NAME", help="As for run-edit.")
@click.option("--profile", type=click.Choice(("wikibigedit", "wikifactdiff")), default="wikibigedit",
              show_default=True, help="What counts as a change, as for export-timestep.")  # fmt: skip
@click.option("--graph/--no-graph", default=True, show_default=True,
              help="Also load the graph, which wikibigedit needs.")  # fmt: skip
@click.option("--track", type=click.Choice(("trackio", "wandb")), help="Log the runs' metrics there, as for run-edit.")
@click.option("--open/--no-open", "open_page", default=True, show_default=True,
              help="Open the page, where there is a desktop.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Tell the steps with estimates, and do nothing.")
@click.option("--overwrite", is_flag=True, help="Replace snapshots, timesteps and runs that were made otherwise.")
@result_format
def up(
    older: str | None,
    newer: str | None,
    *,
    older_date: datetime.datetime | None,
    newer_date: datetime.datetime | None,
    redirects: Path | None,
    model: str,
    methods: tuple[str, ...],
    presets: tuple[str, ...],
    all_cases: bool,
    profile: str,
    graph: bool,
    track: str | None,
    open_page: bool,
    dry_run: bool,
    overwrite: bool,
    **run: Any,
) -> None:
    """Do everything: from two dumps to a page of answers.

    Loads two states of Wikidata, edits a model with what changed, and shows how it answers before and after. OLD
    and NEW are dumps, or days of snapshots that are loaded; without them the bundled sample is taken. The steps are
    those of load-dump, export-timestep, run-edit and report: what is there and was made of the same is not made
    again, so the same command resumes one that was stopped. At the end three sentences say what changed, what the
    methods did to the answers and what they damaged, and where the page is, whose path is the last line.
    """
    import warnings

    # Peft still calls what transformers renames: no user can do anything about it.
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
    from kgedit.api.one_command import carry_out
    from kgedit.api.up_inputs import read_inputs
    from kgedit.resources import home

    inputs = read_inputs(
        home(),
        older,
        newer,
        older_date=older_date,
        newer_date=newer_date,
        methods=methods,
        run={**run, "model": model, "only_failed": not all_cases, "presets": list(presets) or None},
        redirects=redirects,
        profile=profile,
        graph=graph,
    )
    if dry_run:
        _tell_estimates(inputs)
        return
    with bars() as progress:
        outcome = carry_out(inputs, overwrite=overwrite, track=track, told=_tell_step, progress=progress)
    _tell_outcome(outcome)
    if open_page and _has_desktop():
        click.launch(outcome.page.as_uri())


def _tell_step(taken: StepTaken) -> None:
    ended = {"begun": " ...", "made": f": {taken.seconds:.1f} s", "kept": ": there already"}
    say(f"{taken.number}/{taken.of} {taken.name}{ended[taken.state]}")


def _tell_outcome(outcome: Outcome) -> None:
    if wants_json():
        steps = [{"name": step.name, "state": step.state, "seconds": round(step.seconds, 3)} for step in outcome.steps]
        print_json({**outcome.numbers, "steps": steps})
        return
    width = min(100, shutil.get_terminal_size().columns)
    for sentence in outcome.sentences:
        click.echo(textwrap.fill(sentence, width, break_long_words=False, break_on_hyphens=False))
    click.echo(outcome.page)


def _tell_estimates(inputs: UpInputs) -> None:
    from kgedit.analysis.tables import Column, Table
    from kgedit.api.up_estimates import estimate
    from kgedit.cli.report import print_tables

    estimates = estimate(inputs)
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
            "there" if one.is_done else "to do",
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
    """Whole seconds, MB and GiB, with no more digits than an estimate has."""
    return (
        None if seconds is None else round(seconds),
        float(f"{disk / 1e6:.2g}") or None,
        None if not memory else round(memory / 2**30, 1),
    )


def _basis(estimates: Sequence[StepEstimate]) -> str:
    told = [f"{number}: {one.basis}." for number, one in enumerate(estimates, start=1) if not one.is_done]
    return "\n".join(
        [
            *told,
            "Rates are those of this project's machine with two cores, or of runs in this home; time may be half or "
            "twice of that. Memory: where none stands, it was not measured.",
        ]
    )


def _has_desktop() -> bool:
    """Whether somebody looks: a browser on a server would be one in the terminal, or none."""
    shown = sys.platform in ("darwin", "win32") or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    return sys.stdout.isatty() and shown
