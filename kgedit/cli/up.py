"""`kgedit up`: from two states of Wikidata to an edited model and its page, in one command."""

from __future__ import annotations

import datetime
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kgedit.cli import completion
from kgedit.cli.dates import SNAPSHOT_DATE
from kgedit.cli.desktop import open_in_browser
from kgedit.cli.examples import examples
from kgedit.cli.formats import print_json, result_format, wants_json
from kgedit.cli.interrupts import ResumableCommand
from kgedit.cli.progress import bars, say

if TYPE_CHECKING:
    from kgedit.verbs.one_command import Outcome, StepTaken


@click.command(
    cls=ResumableCommand,
    epilog=examples(
        "kgedit up",
        "kgedit up --method locft_bf --method graph_rag --set steps=100 --sample 50",
        "kgedit up 20210104.json.gz 20230227.json.gz --redirects redirects.tsv --model smollm2-135m --method memit",
        "kgedit up --from 2021-01-04 --to 2023-02-27 --method grace --method rag --sample 50 --no-open",
        "kgedit up old.json.bz2 new.json.bz2 --from 2021-01-04 --to 2023-02-27 --dry-run",
    ),
)
@click.argument("older", metavar="[OLD", required=False)
@click.argument("newer", metavar="NEW]", required=False)
@click.option("--from", "older_date", **SNAPSHOT_DATE,
              help="Day of OLD, if its name has none; without OLD, of a loaded snapshot.")  # fmt: skip
@click.option("--to", "newer_date", **SNAPSHOT_DATE, help="Likewise for NEW.")
@click.option("--redirects", type=click.Path(path_type=Path, exists=True, dir_okay=False),
              help="As for load-dump, for both.")  # fmt: skip
@click.option("--model", "models", metavar="NAME", multiple=True,
              help="As for run-edit; repeat for several. tiny is trained on the facts of OLD. Default: tiny, and on "
              "the bundled sample also smollm2-135m.")  # fmt: skip
@click.option("--method", "methods", metavar="NAME", multiple=True, shell_complete=completion.methods,
              help="As for run-edit; repeat for several. Default: for tiny locft_bf with --set steps=200 "
              "--set learning_rate=0.002 --set rehearse=50 --train-context asked, on the bundled sample also ft_m; "
              "for any other model graph_rag.")  # fmt: skip
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE",
              help="A hyperparameter of the methods that have it.")  # fmt: skip
@click.option("--train-context", metavar="NAME", help="As for run-edit.")
@click.option("--protocol", metavar="NAME", shell_complete=completion.protocols, help="As for run-edit.")
@click.option("--preset", "presets", metavar="NAME", multiple=True, shell_complete=completion.presets,
              help="As for run-edit; repeat.")  # fmt: skip
@click.option("--sample", metavar="N", type=click.IntRange(min=1),
              help="N cases, drawn by --seed. Default: all; 30 of the bundled sample's.")  # fmt: skip
@click.option("--all-cases", is_flag=True, help="Also edit what the model answers right already.")
@click.option("--seed", metavar="N", type=click.IntRange(min=0), help="As for run-edit.")
@click.option("--device", metavar="NAME", help="As for run-edit.")
@click.option("--profile", type=click.Choice(("wikibigedit", "wikifactdiff")), default="wikibigedit",
              show_default=True, help="What counts as a change, as for export-timestep.")  # fmt: skip
@click.option("--graph/--no-graph", default=True, show_default=True,
              help="Find changes in the graph (updated first), or in the store without a server.")  # fmt: skip
@click.option("--track", type=click.Choice(("trackio", "wandb")), help="Log the runs' metrics there, as for run-edit.")
@click.option("--open/--no-open", "open_page", default=True, show_default=True,
              help="Open the page, where there is a desktop.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Show the steps with estimates, without carrying them out.")
@click.option("--overwrite", is_flag=True, help="Replace snapshots, timesteps and runs created with other options.")
@result_format
def up(
    older: str | None,
    newer: str | None,
    *,
    older_date: datetime.datetime | None,
    newer_date: datetime.datetime | None,
    redirects: Path | None,
    models: tuple[str, ...],
    methods: tuple[str, ...],
    settings: tuple[str, ...],
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
    """Run every step: from two dumps to a page of answers.

    Loads two states of Wikidata, edits language models with the changes, and evaluates them before and after. OLD and
    NEW are dumps, or days of loaded snapshots; without them the bundled sample is used. The steps are those of
    load-dump, export-timestep, run-edit and report. A step whose result exists and was created from the same inputs is
    skipped, so the same command resumes an interrupted one. Everything that would make a later step fail is checked
    before the first one. At the end a table compares the models, and a few answers are shown in words; the last line is
    the path of the page.
    """
    import warnings

    # Peft still calls functions that transformers renames, which no user can change.
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
    from kgedit.cli.run_edit import pairs
    from kgedit.cli.up_plan import plan, print_estimates
    from kgedit.resources import home
    from kgedit.verbs.one_command import carry_out
    from kgedit.verbs.up_estimates import estimate
    from kgedit.verbs.up_inputs import read_inputs

    inputs = read_inputs(
        home(),
        older,
        newer,
        older_date=older_date,
        newer_date=newer_date,
        models=models,
        methods=methods,
        run={
            **run,
            "only_failed": not all_cases,
            "presets": list(presets) or None,
            "settings": pairs(settings) or None,
        },
        redirects=redirects,
        profile=profile,
        graph=graph,
    )
    if inputs.note:
        say(inputs.note)
    estimates = estimate(inputs, track=track, overwrite=overwrite)
    if dry_run:
        print_estimates(estimates)
        return
    say(plan(inputs, estimates))
    with bars() as progress:
        outcome = carry_out(inputs, overwrite=overwrite, track=track, told=_tell_step, progress=progress)
    _tell_outcome(outcome)
    if open_page:
        open_in_browser(outcome.page.as_uri())


def _tell_step(taken: StepTaken) -> None:
    ended = {"begun": " ...", "made": f": {taken.seconds:.1f} s", "kept": ": already done"}
    say(f"{taken.number}/{taken.of} {taken.name}{ended[taken.state]}")


def _tell_outcome(outcome: Outcome) -> None:
    if wants_json():
        steps = [{"name": step.name, "state": step.state, "seconds": round(step.seconds, 3)} for step in outcome.steps]
        print_json({**outcome.numbers, "note": outcome.note, "steps": steps})
        return
    from kgedit.cli.up_screen import screen

    click.echo(screen(outcome.numbers, width=min(100, shutil.get_terminal_size().columns)))
    click.echo(outcome.page)
