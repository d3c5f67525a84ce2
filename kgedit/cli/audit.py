"""``kgedit audit``: checks the rows of a file of edits against two snapshots."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kgedit.cli import completion
from kgedit.cli.dates import SNAPSHOT_DATE
from kgedit.cli.examples import examples
from kgedit.cli.formats import rows_format
from kgedit.cli.progress import say, steps
from kgedit.verbs.home import Home

if TYPE_CHECKING:
    from kgedit.timesteps.audit import Audit

_EPILOG = examples(
    "kgedit audit wiki_big_edit.json --from 2021-01-04 --to 2023-02-27",
    "kgedit audit wiki_big_edit.json --from 2021-01-04 --to 2023-02-27 --format csv",
    "kgedit audit kgedit-data/timesteps/20210104_20230227 --from 2021-01-04 --to 2023-02-27",
)


@click.command(epilog=_EPILOG)
@click.argument("file", type=click.Path(path_type=Path), shell_complete=completion.timesteps)
@click.option("--from", "older", required=True, **SNAPSHOT_DATE,
              help="Date of the older snapshot.")  # fmt: skip
@click.option("--to", "newer", required=True, **SNAPSHOT_DATE,
              help="Date of the newer snapshot.")  # fmt: skip
@rows_format
@click.option("--limit", default=10, show_default=True, type=click.IntRange(min=0),
              help="Maximum number of invalid rows to show below the table.")  # fmt: skip
def audit(file: Path, older: datetime.datetime, newer: datetime.datetime, form: str, limit: int) -> None:
    """Check a file of edits against two snapshots.

    FILE is any file that `run-edit --edits` accepts, or a timestep: its folder, its name in the home's benchmark
    folder, or two dates as 2021-01-04..2023-02-27. Labels are resolved to ids if ids are missing. A row is valid if its
    edit is a current main statement that changed in the window, its locality questions ask for facts that did not
    change, and its two-hop questions depend on the edit. The table counts verdicts and reasons with 95 % intervals
    (Wilson). A valid row is not an update if, for example, the change is a late entry or a refinement: a second table
    counts the valid rows by kind of change, with the mean confidence of each kind. csv has one line per row of the
    file; json has all of these. Reads the store; no server is needed.
    """
    from kgedit.cli.query import print_rows

    with steps("Auditing"):
        audited = Home().audit(file, older, newer)
    for reason, count in audited.not_audited.items():
        say(f"{file}: not audited: {reason}: {count:,}")
    if form == "json":
        import json

        click.echo(json.dumps(audited.as_json(), indent=2, ensure_ascii=False))
    elif form == "csv":
        print_rows(audited.rows.to_pylist(), "csv")
    else:
        print_rows([_shown(count) for count in audited.counts.to_pylist()], "table")
        _show_kinds(audited)
        _show_rows(audited, limit)


def _shown(count: dict[str, Any]) -> dict[str, str]:
    return {
        "part": count["part"],
        "verdict": count["verdict"],
        "reason": count["reason"] or "",
        "rows": f"{count['rows']:,} of {count['of']:,}",
        "share": "" if count["share"] is None else f"{count['share']:.1%}",
        "95 % interval": "" if count["low"] is None else f"{count['low']:.1%} to {count['high']:.1%}",
    }


def _show_kinds(audited: Audit) -> None:
    from kgedit.cli.query import print_rows

    if audited.kinds.num_rows:
        click.echo()
        print_rows([_shown_kind(kind) for kind in audited.kinds.to_pylist()], "table")


def _shown_kind(kind: dict[str, Any]) -> dict[str, str]:
    return {
        "kind of change": kind["kind"],
        "valid rows": f"{kind['rows']:,} of {kind['of']:,}",
        "share": f"{kind['share']:.1%}",
        "95 % interval": f"{kind['low']:.1%} to {kind['high']:.1%}",
        "mean confidence": f"{kind['confidence']:.2f}",
    }


def _show_rows(audited: Audit, limit: int) -> None:
    from kgedit.cli.query import print_rows

    wrong = [row for row in audited.rows.to_pylist() if row["verdict"] != "valid"]
    if wrong and limit:
        click.echo()
        print_rows(
            [{name: row[name] for name in ("case_id", "reason", "question", "answer")} for row in wrong[:limit]],
            "table",
        )
    if len(wrong) > limit:
        say(f"{len(wrong) - limit:,} more rows are not valid: --format csv lists all")
