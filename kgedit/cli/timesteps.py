"""``kgedit export-timestep``, ``describe`` and ``audit``: export changes as questions, count and check questions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kgedit.cli.formats import print_result, print_rows, result_format, rows_format
from kgedit.cli.progress import say, steps
from kgedit.cli.verb_command import Given, verb_command
from kgedit.resources import home as default_home
from kgedit.verbs.audit import AuditEdits
from kgedit.verbs.describe import DescribeEdits, DescribePage
from kgedit.verbs.export_timestep import ExportAll, ExportTimestep

if TYPE_CHECKING:
    from kgedit.timesteps.audit import Audit
    from kgedit.verbs.export_options import ExportOptions


_STREAM = click.option(
    "--all",
    "stream",
    is_flag=True,
    help="Instead of two dates: the timesteps of all neighbouring snapshots, linked.",
)


@verb_command(
    ExportTimestep,
    ExportAll,
    name="export-timestep",
    optional=("older", "newer"),
    more=(_STREAM, result_format),
    examples=(
        "kgedit export-timestep --from 2021-01-04 --to 2023-02-27",
        "kgedit export-timestep --from 2021-01-04 --to 2023-02-27 --kinds update --out updates",
        "kgedit export-timestep --from 2021-01-04 --to 2023-02-27 --profile wikifactdiff",
        "kgedit export-timestep --all --engine store",
    ),
)
def export_timestep(given: Given, *, stream: bool) -> None:
    """Export one timestep or all of them, and print the counts."""
    home = default_home()
    older, newer = (given.values[name] for name in ("older", "newer"))
    if stream and not older and not newer:
        everything = given.make(
            ExportAll, on_timestep=lambda name, kept: say(f"{name}: {'kept' if kept else 'written'}")
        )
        with steps("Exporting"):
            made = everything.run(home)
        _tell_stream(made.manifest)
        rows = made.manifest["timesteps"]
        _tell_no_cases(home, [(made.folder / row["folder"]).resolve() for row in rows if not row["edits"]], everything)
        print_result({"folder": made.folder, "stream": made.manifest}, text=made.folder)
    elif older and newer and not stream:
        with steps("Exporting"):
            export = given.make(ExportTimestep)
            timestep = export.run(home)
        _tell_updates(timestep.manifest) if timestep.manifest["profile"] == "wikifactdiff" else _tell(timestep.manifest)
        _tell_no_cases(home, [] if any(timestep.manifest["cases"].values()) else [timestep.folder], export)
        print_result({"folder": timestep.folder, "timestep": timestep.manifest}, text=timestep.folder)
    else:
        raise click.UsageError("Give --from and --to, or --all.")


def _tell_no_cases(home: Path, empty: Sequence[Path], options: ExportOptions) -> None:
    """Print how many timesteps have no case, and why the first of them has none."""
    if not empty:
        return
    from kgedit.timesteps.timestep import Timestep
    from kgedit.verbs.exporting import why_no_cases

    if len(empty) > 1:
        say(f"{len(empty):,} timesteps have no case. Of the first:")
    dates = [snapshot["date"] for snapshot in Timestep.open(empty[0]).manifest["snapshots"]]
    say(why_no_cases(home, empty[0], dates, options=options))


def _tell_stream(manifest: dict[str, Any]) -> None:
    columns = ("edits", "edited_again", "probes", "edited_probes", "expiring_probes")
    say(f"{'timestep':<18}{'edits':>8}{'edited again':>14}{'probes':>8}{'edited before':>15}{'expire later':>14}")
    for row in manifest["timesteps"]:
        counts = (f"{row[name]:>{width},}" for name, width in zip(columns, (8, 14, 8, 15, 14), strict=True))
        say(f"{row['timestep']:<18}{''.join(counts)}")


def _tell(manifest: dict[str, Any]) -> None:
    funnel = manifest["funnel"]
    say(f"{funnel['changed']:>8,} changed subjects and properties (engine: {manifest['engine']})")
    for reason, count in funnel["dropped"].items():
        if count:
            say(f"{-count:>8,} {reason}")
    cases = ", ".join(f"{count} {tag}" for tag, count in manifest["cases"].items()) or "none"
    say(f"{funnel['kept']:>8,} cases ({cases})")
    kinds = ", ".join(f"{count} {kind}" for kind, count in manifest["kinds"].items()) or "none"
    say(f"         kinds of change: {kinds}")
    probes = ", ".join(f"{count} by {basis}" for basis, count in manifest["locality"].items()) or "none"
    without = manifest["without_locality"]
    probes += f", {without:,} cases without" if without else ""
    say(f"         locality: {probes}; two-hop questions: {manifest['two_hops']['asked']}")
    if "without_template" in manifest:
        missing = ", ".join(f"{name} {count:,}" for name, count in manifest["without_template"].items()) or "none"
        say(f"         properties without a template in the language: {missing}")
        say(f"         cases with a label in another language: {manifest['labels_in_other_languages']:,}")
    if "crosslingual" in manifest:
        other = manifest["crosslingual"]
        without = f", {other['cases_without']:,} cases without" if other["cases_without"] else ""
        say(f"         questions in the language {other['language']}: {other['asked']:,}{without}")
    if "chains" in manifest:
        asked = manifest["chains"]["asked"]
        lengths = ", ".join(f"{count:,} of {hops} facts" for hops, count in asked.items()) or "none"
        say(f"         chains: {lengths}")
    _tell_left_out(manifest["final_filters"])
    _tell_specificity(manifest, manifest.get("page_views", {}))


def _tell_specificity(manifest: Mapping[str, Any], page_views: Mapping[str, Any]) -> None:
    """Print the number of cases with known views and counts, if requested."""
    if "specificity" in manifest:
        months, others = len(page_views.get("months", ())), page_views.get("files left out", 0)
        if months or others:
            say(f"         page views of {months} months; {others} files are not of the year before the newer snapshot")
        known = ", ".join(f"{name} {count:,}" for name, count in manifest["specificity"].items()) or "none"
        say(f"         cases with views and counts: {known}")


def _tell_left_out(final_filters: Mapping[str, Any]) -> None:
    """Print the number of questions that a final filter removed, if any."""
    for axis, counts in final_filters.items():
        if counts["failed"]:
            reasons = ", ".join(f"{reason}: {count:,}" for reason, count in counts["failed"].items())
            asked = "known facts" if axis == "known_facts" else f"{axis} questions"
            say(f"         left out of {counts['judged']:,} {asked}: {reasons}")


def _tell_updates(manifest: dict[str, Any]) -> None:
    if "changed_statements" in manifest:  # absent from kept timesteps of earlier versions
        found = manifest["changed_statements"]["subjects and properties"]
        say(f"{found:>8,} subjects and properties with a changed statement (engine: {manifest['engine']})")
    for side, which in zip(manifest["preprocessing"].values(), ("older", "newer"), strict=True):
        say(f"{side['read']:>8,} statements of touched items in the {which} snapshot, {side['kept']:,} of them facts")
    funnel = manifest["funnel"]
    say(f"{funnel['changed']:>8,} changed subjects and relations")
    for reason, count in funnel["dropped"].items():
        say(f"{-count:>8,} {reason}")
    scenarios = ", ".join(f"{count} {name}" for name, count in manifest["scenarios"].items() if count) or "none"
    say(f"{funnel['kept']:>8,} updates ({scenarios})")
    say(f"         cases for editing: {sum(manifest['cases'].values())}; locality: {manifest['locality']}")
    _tell_left_out(manifest["final_filters"])
    _tell_specificity(manifest, manifest["popularity"])


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
