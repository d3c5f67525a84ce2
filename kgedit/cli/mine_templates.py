"""``kgedit mine-templates``: mines cloze templates of relations from a model's statements of many facts."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import click

from kgedit.cli import completion
from kgedit.cli.asking import ServerOptions, one_verbalizer, server_options, tell_asked, tell_without_asking
from kgedit.cli.dates import SNAPSHOT_DATE
from kgedit.cli.examples import examples
from kgedit.cli.formats import print_result, result_format, wants_json
from kgedit.cli.interrupts import ResumableCommand
from kgedit.cli.progress import bar, say

_EPILOG = examples(
    "kgedit mine-templates --date 2021-01-04 --model gpt-4o-mini --estimate",
    "kgedit mine-templates --date 2021-01-04 --model gpt-4o-mini --budget 5 --out mined.yaml",
    "kgedit export-timestep --from 2021-01-04 --to 2023-02-27 --templates mined.yaml --out mined",
)


@click.command("mine-templates", cls=ResumableCommand, epilog=_EPILOG)
@click.option("--date", **SNAPSHOT_DATE, required=True, help="The snapshot whose facts are stated.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Catalogue to write, a YAML file.")
@click.option("--model", metavar="NAME", help="Model of an OpenAI-compatible server, as it is named there.")
@click.option("--local", metavar="NAME", help="Instead, a local model, as for --model of run-edit.")
@click.option("--property", "properties", metavar="PID", multiple=True, shell_complete=completion.properties,
              help="A relation; repeat. Default: all.")  # fmt: skip
@click.option(
    "--facts", default=100, show_default=True, type=click.IntRange(min=1), help="Maximum number of facts per relation."
)
@click.option("--most-popular", default=100_000, show_default=True, type=click.IntRange(min=1),
              help="Number of items that count as popular.")  # fmt: skip
@click.option("--pageviews", multiple=True, type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help="A monthly file pageviews-YYYYMM-user, of the year before the snapshot; repeat. Popular are then "
              "the most read items, as in the paper; else those that most facts have as their value.")  # fmt: skip
@click.option("--seed", default=0, show_default=True, help="Seed for drawing the facts.")
@click.option("--estimate", is_flag=True, help="Print the estimated cost, without calling the model.")
@click.option("--dry-run", is_flag=True, help="Print the requests as JSON lines, without calling the model.")
@click.option("--overwrite", is_flag=True, help="Replace the file if it exists.")
@result_format
@server_options
def mine_templates(
    *,
    date: datetime.datetime,
    out: Path | None,
    model: str | None,
    local: str | None,
    properties: tuple[str, ...],
    facts: int,
    most_popular: int,
    pageviews: tuple[Path, ...],
    seed: int,
    estimate: bool,
    dry_run: bool,
    overwrite: bool,
    **asked_by: Any,
) -> None:
    """Mine cloze templates from a model's statements.

    As WikiFactDiff did with a language model: the model states facts of popular subjects of each relation ten times
    each; statements that contain the subject and end with the object become templates, and the five most frequent are
    kept. --out is a catalogue for `export-timestep --templates`, with the mined clozes in place of the built-in ones.
    The output lists every kept template with the number of facts that were stated with it.
    """
    from kgedit.cli.query import print_rows
    from kgedit.resources import home
    from kgedit.store.snapshots import open_snapshot
    from kgedit.timesteps.verbalizing.mining import facts_to_state, wanted_statements
    from kgedit.verbs.verbalize import mine_clozes

    options = ServerOptions(**asked_by)
    verbalizer = one_verbalizer(model, local, options)
    snapshot = open_snapshot(home(), date.date())
    stated = facts_to_state(
        snapshot,
        properties=properties,
        per_relation=facts,
        most_popular=most_popular,
        pageviews=pageviews,
        seed=seed,
    )
    if estimate or dry_run:
        tell_without_asking(verbalizer, lambda: wanted_statements(stated), estimate=estimate)
        return
    if out is None:
        raise click.UsageError("Name the catalogue to write: --out FILE.")
    with bar("Stating", "facts") as progress:
        mined, asked = mine_clozes(
            stated, verbalizer, out, prompts=options.prompts, overwrite=overwrite, progress=progress
        )
    if asked:
        tell_asked(asked)
    for reason, count in mined.dropped.items():
        say(f"{count:>8,} statements: {reason}")
    rows = [row for row in mined.table.to_pylist() if row["cloze"] in mined.kept[row["property"]]]
    if not wants_json():
        print_rows(rows, "table")
    print_result({"catalogue": out, "templates": rows, "dropped": mined.dropped}, text=out)
