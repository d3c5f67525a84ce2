"""``kgedit load-dump``: loads dumps into the store, and the store into the graph."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import click

from kgedit.cli import completion
from kgedit.cli.dates import DATE, DATES
from kgedit.cli.examples import examples
from kgedit.cli.formats import print_result, result_format
from kgedit.cli.interrupts import ResumableCommand
from kgedit.cli.progress import bars, say
from kgedit.cli.scopes import scope_options
from kgedit.store.scope import Scope
from kgedit.verbs.home import Home


@click.command(
    "load-dump",
    cls=ResumableCommand,
    epilog=examples(
        "kgedit load-dump wikidata-20210104-all.json.gz --date 2021-01-04",
        "kgedit load-dump wikidata-20210104-all.json.gz --as-of 2010-12-31,2015-12-31,2020-12-31",
    ),
)
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--date", **DATE, help="Day of the dump.")
@click.option("--as-of", "days", **DATES,
              help="Instead of --date: project the dump to earlier days, by its statements' dates.")  # fmt: skip
@click.option("--source-format", shell_complete=completion.source_formats,
              help="Source format. Default: by the content.")  # fmt: skip
@click.option("--language", "languages", multiple=True, default=("en", "mul"), show_default=True,
              help="Label language; repeat for fallbacks.")  # fmt: skip
@click.option("--wiki", default="enwiki", show_default=True, help="Wiki whose article titles are stored.")
@click.option("--redirects", type=click.Path(path_type=Path, exists=True, dir_okay=False),
              help="Tab-separated: from, to and (optionally) first date. Dumps leave redirects out.")  # fmt: skip
@click.option("--limit", type=click.IntRange(min=1), help="Only the first N lines that may be entities.")
@click.option("--max-error-rate", type=click.FloatRange(0, 1), default=0.01, show_default=True,
              help="Share of unreadable lines or statements above which the load fails.")  # fmt: skip
@click.option("--workers", type=click.IntRange(min=1), help="Parser processes. Default: one for each core.")
@click.option("--overwrite", is_flag=True, help="Replace a snapshot of this date.")
@click.option("--slice-of", metavar="TEXT",
              help="Description of the selected items in PATH: what it lacks is unknown, not removed.")  # fmt: skip
@click.option("--graph/--no-graph", default=True, show_default=True, help="Also update the graph.")
@result_format
@scope_options
def load_dump(
    path: Path,
    date: datetime.datetime | None,
    days: tuple[datetime.date, ...],
    source_format: str | None,
    languages: tuple[str, ...],
    wiki: str,
    redirects: Path | None,
    limit: int | None,
    max_error_rate: float,
    workers: int | None,
    overwrite: bool,
    slice_of: str | None,
    graph: bool,
    scope: Scope | None,
) -> None:
    """Load a Wikidata dump as the snapshot of a date.

    PATH is a dump in one of the formats, plain or compressed (.gz, .bz2, .zst). The same command resumes an interrupted
    load.
    """
    if (date is None) == (not days):
        raise click.UsageError("Give either --date, the day of the dump, or --as-of, earlier days to project it to.")
    options: dict[str, Any] = {
        "source_format": source_format,
        "languages": languages,
        "wiki": wiki,
        "redirects": redirects,
        "limit": limit,
        "max_error_rate": max_error_rate,
        "workers": workers,
        "overwrite": overwrite,
        "slice_of": slice_of,
        "graph": False,
    }
    with bars() as add:
        if date is None:
            snapshots = Home().load_dump_as_of(path, days, **options, progress=add)
        else:
            snapshots = [Home().load_dump(path, date, **options, progress=add)]
    for snapshot in snapshots:
        _tell(snapshot.manifest)
    held = project(scope=scope) if graph else None
    print_result({"snapshots": [snapshot.manifest for snapshot in snapshots], "graph": held})


def _tell(manifest: dict[str, Any]) -> None:
    say(f"Snapshot {manifest['date']}: {manifest['entities']:,} entities, {manifest['claims']:,} claims.")
    if manifest.get("slice_of"):
        say(f"  a slice: {manifest['slice_of']}. What it lacks is unknown, not removed.")
    if manifest.get("lacks"):
        say(f"  the format does not give: {', '.join(manifest['lacks'])}.")
    for verb in ("left out", "noted"):
        for reason, count in manifest[verb.replace(" ", "_")].items():
            say(f"  {verb}: {count:,} {reason}")
    if "projected" in manifest:
        _tell_projection(manifest["projected"])


def _tell_projection(projected: dict[str, Any]) -> None:
    say(f"  projected; {projected['entities_that_came_later']:,} entities of the dump came later")
    for verb in ("placed", "not_placed"):
        for reason, count in projected[f"statements_{verb}_by_dates"].items():
            if count:
                say(f"  {verb.replace('_', ' ')} by dates: {count:,} {reason}")


def project(*, rebuild: bool = False, scope: Scope | None = None) -> dict[str, Any]:
    """Update the graph from the store, print what it contains, and return that for JSON."""
    with bars() as add:
        held = Home().update_graph(rebuild=rebuild, scope=scope, progress=add)
    if held.rebuilt > 1:
        say(f"The graph was rebuilt from {held.rebuilt} snapshots.")
    say(f"Graph: {held.facts:,} facts at {held.date}, {held.terms:,} terms in all ({held.scope.describe()}).")
    return {
        "date": held.date,
        "facts": held.facts,
        "terms": held.terms,
        "rebuilt_from": held.rebuilt,
        "scope": held.scope.describe(),
    }
