"""``kgedit mine-templates``: mines cloze templates of relations from a model's statements of many facts."""

from __future__ import annotations

from dataclasses import replace

import click

from kgedit.cli.asking import DRY_RUN, ESTIMATE, tell_asked, tell_without_asking
from kgedit.cli.formats import print_result, print_rows, result_format, wants_json
from kgedit.cli.progress import bar, say
from kgedit.cli.verb_command import verb_command
from kgedit.resources import home as default_home
from kgedit.verbs.verbalize import MineTemplates


@verb_command(
    MineTemplates,
    name="mine-templates",
    more=(ESTIMATE, DRY_RUN, result_format),
    examples=(
        "kgedit mine-templates --date 2021-01-04 --model gpt-4o-mini --estimate",
        "kgedit mine-templates --date 2021-01-04 --model gpt-4o-mini --budget 5 --out mined.yaml",
        "kgedit export-timestep --from 2021-01-04 --to 2023-02-27 --templates mined.yaml",
    ),
)
def mine_templates(given: MineTemplates, *, estimate: bool, dry_run: bool) -> None:
    """Mine templates and print the kept ones, or only estimate the cost."""
    from kgedit.timesteps.verbalizing.mining import wanted_statements

    home = default_home()
    verbalizer = given.verbalizer()
    if estimate or dry_run:
        tell_without_asking(verbalizer, lambda: wanted_statements(given.stated(home)), estimate=estimate)
        return
    if given.out is None:
        raise click.UsageError("Name the catalogue to write: --out FILE.")
    with bar("Stating", "facts") as progress:
        mined, asked = replace(given, progress=progress).run(home)
    if asked:
        tell_asked(asked)
    for reason, count in mined.dropped.items():
        say(f"{count:>8,} statements: {reason}")
    rows = [row for row in mined.table.to_pylist() if row["cloze"] in mined.kept[row["property"]]]
    if not wants_json():
        print_rows(rows, "table")
    print_result({"catalogue": given.out, "templates": rows, "dropped": mined.dropped}, text=given.out)
