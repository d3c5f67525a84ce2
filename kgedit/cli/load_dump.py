"""``kgedit load-dump`` and ``load-changes``: load snapshots into the store, and the store into the graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kgedit.cli.formats import print_result, result_format
from kgedit.cli.progress import bars, say, steps
from kgedit.cli.verb_command import Given, verb_command
from kgedit.resources import home as default_home
from kgedit.store.scope import Scope
from kgedit.verbs.graph import ScopeOptions
from kgedit.verbs.home import Home
from kgedit.verbs.load_dump import LoadChanges, LoadDump, LoadDumpAsOf


@verb_command(
    LoadDump,
    LoadDumpAsOf,
    ScopeOptions,
    name="load-dump",
    optional=("date", "days"),
    more=(result_format,),
    examples=(
        "kgedit load-dump wikidata-20210104-all.json.gz --as-of 2010-12-31,2015-12-31,2020-12-31",
        "kgedit load-dump wikidata-20210104-all.json.gz --date 2021-01-04",
        "kgedit load-dump wikidata-20210104-all.json.bz2 --date 2021-01-04 --engine spark --master spark://host:7077",
    ),
)
def load_dump(given: Given) -> None:
    """Load a dump as one or several snapshots, then update the graph."""
    date, days = given.values["date"], given.values["days"]
    if (date is None) == (not days):
        from kgedit.verbs.up_inputs import day_in_name

        problem = "Give either --date, the day of the dump, or --as-of, earlier days to project it to."
        named = None if days or date else day_in_name(Path(given.values["path"]))
        raise click.UsageError(problem + (f" Its name has a day: --date {named}" if named else ""))
    if days and (given.values["engine"] != "local" or given.values["master"] is not None):
        raise click.UsageError("--as-of projects on this machine only. Leave --engine and --master out.")
    home, scope = default_home(), given.make(ScopeOptions).scope()
    loaded = given.with_values(graph=False)
    with bars() as add:
        if date is None:
            snapshots = loaded.make(LoadDumpAsOf, progress=add).run(home)
        else:
            snapshots = [loaded.make(LoadDump, progress=add).run(home)]
    for snapshot in snapshots:
        _tell(snapshot.manifest)
    held = project(scope=scope) if given.values["graph"] else None
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


@verb_command(
    LoadChanges,
    ScopeOptions,
    name="load-changes",
    more=(result_format,),
    examples=("kgedit load-changes /mnt/cluster/kgedit-data --from 2021-01-04 --to 2023-02-27",),
)
def load_changes(given: Given) -> None:
    """Take what changed, then update the graph."""
    home, scope = default_home(), given.make(ScopeOptions).scope()
    with steps("Taking what changed"):
        taken = given.with_values(graph=False).make(LoadChanges).run(home)
    for snapshot in taken:
        manifest = snapshot.manifest
        whole = manifest["part"]["whole"]
        counts = (f"{manifest[name]:,} of {whole[name]:,} {name}" for name in ("entities", "claims", "facts"))
        say(f"Snapshot {snapshot.name}: {', '.join(counts)}.")
    held = project(scope=scope) if given.values["graph"] else None
    print_result({"snapshots": [snapshot.manifest for snapshot in taken], "graph": held})
