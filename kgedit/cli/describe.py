"""``kgedit describe`` and ``kgedit audit``: count the contents of edits, and check them against two snapshots."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from kgedit.cli.formats import print_rows, rows_format
from kgedit.cli.progress import say, steps
from kgedit.cli.verb_command import Given, verb_command
from kgedit.resources import home as default_home
from kgedit.verbs.audit import AuditEdits
from kgedit.verbs.describe import DescribeEdits, DescribePage

if TYPE_CHECKING:
    from kgedit.timesteps.audit import Audit


_LINES = click.option("--limit", default=15, show_default=True, type=click.IntRange(min=1),
                      help="Maximum lines per part in the table; json and csv have all.")  # fmt: skip


@verb_command(
    DescribeEdits,
    DescribePage,
    name="describe",
    more=(_LINES, rows_format),
    examples=(
        "kgedit describe 20210104_20230227",
        "kgedit describe 20210104_20230227 --html changes.html",
        "kgedit describe 2021-01-04..2023-02-27 --word-cloud words.svg",
        "kgedit describe counterfact-edit.json --model smollm2-135m --format json",
    ),
)
def describe(given: Given, *, limit: int, form: str) -> None:
    """Print the counts, and write the page and its figures."""
    rows = given.make(DescribeEdits).run().to_pylist()
    print_rows(list(_shortened(rows, limit)) if form == "table" else rows, form)
    if any(given.values[name] for name in ("html", "figures", "word_cloud")):
        for path in given.make(DescribePage).run():
            say(f"Written: {path}")


def _shortened(rows: list[dict[str, Any]], limit: int) -> list[dict[str, str]]:
    """First lines of each part, with a line that counts the remaining ones."""
    parts: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        parts.setdefault(row["part"], []).append(row)
    shown = []
    for part, own in parts.items():
        shown += [_shown(row) for row in own[:limit]]
        if len(own) > limit:
            shown.append({"part": part, "name": f"{len(own) - limit:,} more: --limit", "value": "", "share": ""})
    return shown


def _shown(row: dict[str, Any]) -> dict[str, str]:
    value, share = row["value"], row["share"]
    if value is None:
        return {"part": row["part"], "name": row["name"], "value": "", "share": ""}
    number = f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"
    # A day is not a quantity.
    number = f"{value:.0f}" if row["part"] == "dates" else number
    return {"part": row["part"], "name": row["name"], "value": number, "share": "" if share is None else f"{share:.1%}"}


_INVALID_ROWS = click.option("--limit", default=10, show_default=True, type=click.IntRange(min=0),
                              help="Maximum number of invalid rows to show below the table.")  # fmt: skip


@verb_command(
    AuditEdits,
    name="audit",
    more=(rows_format, _INVALID_ROWS),
    examples=(
        "kgedit audit wiki_big_edit.json --from 2021-01-04 --to 2023-02-27",
        "kgedit audit wiki_big_edit.json --from 2021-01-04 --to 2023-02-27 --format csv",
        "kgedit audit 20210104_20230227 --from 2021-01-04 --to 2023-02-27",
    ),
)
def audit(given: AuditEdits, *, form: str, limit: int) -> None:
    """Check the file, and print verdicts, kinds and invalid rows."""
    with steps("Auditing"):
        audited = given.run(default_home())
    for reason, count in audited.not_audited.items():
        say(f"{given.file}: not audited: {reason}: {count:,}")
    if form == "json":
        click.echo(json.dumps(audited.as_json(), indent=2, ensure_ascii=False))
    elif form == "csv":
        print_rows(audited.rows.to_pylist(), "csv")
    else:
        print_rows([_verdicts_shown(count) for count in audited.counts.to_pylist()], "table")
        _show_kinds(audited)
        _show_rows(audited, limit)


def _verdicts_shown(count: dict[str, Any]) -> dict[str, str]:
    return {
        "part": count["part"],
        "verdict": count["verdict"],
        "reason": count["reason"] or "",
        "rows": f"{count['rows']:,} of {count['of']:,}",
        "share": "" if count["share"] is None else f"{count['share']:.1%}",
        "95 % interval": "" if count["low"] is None else f"{count['low']:.1%} to {count['high']:.1%}",
    }


def _show_kinds(audited: Audit) -> None:
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
    wrong = [row for row in audited.rows.to_pylist() if row["verdict"] != "valid"]
    if wrong and limit:
        click.echo()
        print_rows(
            [{name: row[name] for name in ("case_id", "reason", "question", "answer")} for row in wrong[:limit]],
            "table",
        )
    if len(wrong) > limit:
        say(f"{len(wrong) - limit:,} more rows are not valid: --format csv lists all")
