"""``kgedit verbalize``: rewords a timestep's questions with a language model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kgedit.cli import completion
from kgedit.cli.asking import AXES, ServerOptions, one_verbalizer, server_options, tell_asked, tell_without_asking
from kgedit.cli.examples import examples
from kgedit.cli.formats import print_result, result_format
from kgedit.cli.interrupts import ResumableCommand
from kgedit.cli.progress import bar, say

_EPILOG = examples(
    "kgedit verbalize kgedit-data/timesteps/20210104_20230227 --out worded --model gpt-4o-mini --estimate",
    "kgedit verbalize kgedit-data/timesteps/20210104_20230227 --out worded --model gpt-4o-mini --batch --budget 2",
    "kgedit verbalize kgedit-data/timesteps/20210104_20230227 --out worded --local smollm2-135m --limit 30",
)


@click.command("verbalize", cls=ResumableCommand, epilog=_EPILOG)
@click.argument("timestep", type=click.Path(path_type=Path), shell_complete=completion.timesteps)
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Folder to write.")
@click.option("--model", metavar="NAME", help="Model of an OpenAI-compatible server, as it is named there.")
@click.option("--local", metavar="NAME", help="Instead, a local model, as for --model of run-edit.")
@click.option("--axis", "axes", multiple=True, type=click.Choice(AXES), help="An axis to word; repeat. Default: all.")
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(min=1),
    help="Number of cases to word; the rest keep template questions.",
)
@click.option("--seed", default=0, show_default=True, help="Seed for drawing these cases.")
@click.option("--personas", type=click.Path(path_type=Path, exists=True, file_okay=False),
              help="Folder of personas, if the timestep has your own.")  # fmt: skip
@click.option("--estimate", is_flag=True, help="Print the estimated cost, without calling the model.")
@click.option("--dry-run", is_flag=True, help="Print the requests as JSON lines, without calling the model.")
@click.option("--overwrite", is_flag=True, help="Replace the folder if it exists.")
@result_format
@server_options
def verbalize(
    timestep: Path,
    *,
    out: Path | None,
    model: str | None,
    local: str | None,
    axes: tuple[str, ...],
    limit: int | None,
    seed: int,
    personas: Path | None,
    estimate: bool,
    dry_run: bool,
    overwrite: bool,
    **asked_by: Any,
) -> None:
    """Reword a timestep's questions with a language model.

    TIMESTEP is an exported timestep: its folder, its name in the home's benchmark folder, or two dates as
    2021-01-04..2023-02-27. A copy with the model's questions is written to --out. Every question must pass the final
    filters (subject named, relation expressed, answer not given away, answer repeated, one question, length); otherwise
    the template's question is kept. wordings.parquet in the new folder records the source of each question and the
    reason, timestep.json the counts.

    Replies are cached by content: the same command resumes an interrupted one, does not pay twice and writes the same
    bytes. A server's key is read from the environment only.
    """
    from kgedit.resources import home
    from kgedit.timesteps.timestep import Timestep
    from kgedit.verbs.verbalize import WordingOptions, find_wanted
    from kgedit.verbs.verbalize import verbalize as worded

    options = ServerOptions(**asked_by)
    verbalizer = one_verbalizer(model, local, options)
    read = Timestep.open(timestep)
    wording = WordingOptions(
        axes=axes or AXES, home=home(), personas=personas, prompts=options.prompts, limit=limit, seed=seed
    )
    if estimate or dry_run:
        tell_without_asking(verbalizer, lambda: find_wanted(read, wording), estimate=estimate)
        return
    if out is None:
        raise click.UsageError("Name the folder to write: --out FOLDER.")
    with bar("Wording", "records") as progress:
        made = worded(read, out, verbalizer, options=wording, overwrite=overwrite, progress=progress)
    if made.asked:
        tell_asked(made.asked)
    _tell(made.counts)
    print_result({"folder": made.timestep.folder, "counts": made.counts}, text=made.timestep.folder)


def _tell(counts: dict[str, Any]) -> None:
    for axis, counted in counts.items():
        sources = ", ".join(f"{count:,} by {source}" for source, count in counted["sources"].items())
        say(f"{axis}: {sources}")
        for reason, count in counted["reasons"].items():
            say(f"{count:>8,} {reason}")
        for reason, count in counted["template_faults"].items():
            say(f"{count:>8,} templates kept although: {reason}")
