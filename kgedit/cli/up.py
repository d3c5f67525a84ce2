"""`kgedit up`: from two states of Wikidata to an edited model and its page, in one command."""

from __future__ import annotations

import shutil
import warnings
from typing import TYPE_CHECKING, Any

import click

from kgedit.cli.formats import open_in_browser, open_page, print_json, result_format, wants_json
from kgedit.cli.progress import bars, say
from kgedit.cli.run_edit import pairs, spec_options
from kgedit.cli.verb_command import FlagOption, Given, verb_command, with_parameters
from kgedit.verbs.up import Up, carry_out

if TYPE_CHECKING:
    from kgedit.verbs.up import Outcome, StepTaken


_SPEC_FIELDS = ("settings", "train_context", "protocol", "presets", "sample", "seed", "device")
"""Fields of the run specs that are flags of `up` too."""


def _more_options(command: Any) -> Any:
    all_cases = FlagOption(
        ["--all-cases"], group="Questions", is_flag=True, help="Also edit what the model answers right already."
    )
    dry_run = FlagOption(["--dry-run"], is_flag=True, help="Show the steps with estimates, without carrying them out.")
    of_spec = spec_options(_SPEC_FIELDS)
    for option in of_spec:  # the estimates, which come before the check of the spec, compute with these two
        option.type = {"sample": click.IntRange(min=1), "seed": click.IntRange(min=0)}.get(
            option.name or "", option.type
        )
    return with_parameters(command, *of_spec, all_cases, dry_run)


@verb_command(
    Up,
    name="up",
    several=True,
    more=(_more_options, open_page, result_format),
    examples=(
        "kgedit up --method locft_bf --method graph_rag --set steps=100 --sample 50",
        "kgedit up 20210104.json.gz 20230227.json.gz --redirects redirects.tsv --model smollm2-135m --method memit",
        "kgedit up --from 2021-01-04 --to 2023-02-27 --method grace --method rag --sample 50 --no-open",
        "kgedit up old.json.bz2 new.json.bz2 --from 2021-01-04 --to 2023-02-27 --dry-run",
        "kgedit up",
    ),
)
def up(
    given: Given,
    *,
    settings: tuple[str, ...],
    presets: tuple[str, ...],
    all_cases: bool,
    opens: bool,
    dry_run: bool,
    **fields: Any,
) -> None:
    """Show the plan, take the steps, and print the outcome."""

    # Peft still calls functions that transformers renames, which no user can change.
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
    from kgedit.cli.up_screen import plan, print_estimates
    from kgedit.verbs.up_estimates import estimate

    spec = {**fields, "presets": list(presets) or None, "settings": pairs(settings) or None}
    wanted = given.make(Up, spec=spec, only_failed=not all_cases)
    inputs, track, overwrite = wanted.inputs(), wanted.track, wanted.overwrite
    if inputs.note:
        say(inputs.note)
    estimates = estimate(inputs, track=track, overwrite=overwrite)
    if dry_run:
        print_estimates(estimates)
        return
    say(plan(inputs, estimates))
    with bars() as progress:
        outcome = carry_out(inputs, overwrite=overwrite, track=track, on_step=_tell_step, progress=progress)
    _tell_outcome(outcome)
    if opens:
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
