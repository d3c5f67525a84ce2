"""From dumps to snapshots: ``kgedit write-sample``, ``fetch-*``, ``load-dump``, ``load-changes`` and ``task``.

``snapshots``, ``drop-snapshot``, ``relations``, ``cycles`` and ``verify`` are about loaded ones.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kgedit.cli.command_groups import examples
from kgedit.cli.formats import json_flag, print_json, print_result, print_rows, result_format, rows_format, wants_json
from kgedit.cli.progress import bars, say, steps
from kgedit.cli.verb_command import Given, verb_command
from kgedit.resources import home as default_home
from kgedit.store.scope import Scope
from kgedit.verbs.fetch import FetchDump, FetchItems, FetchSlice, WriteSample
from kgedit.verbs.graph import ScopeOptions
from kgedit.verbs.home import Home
from kgedit.verbs.load_dump import LoadChanges, LoadDump, LoadDumpAsOf
from kgedit.verbs.options import fields_of
from kgedit.verbs.snapshots import Cycles, DropSnapshot, Relations, Verify
from kgedit.verbs.task import RunTask
from kgedit.verbs.verifying import CACHES
from kgedit.wikidata.times import read_day

if TYPE_CHECKING:
    from kgedit.fetching.slices import FetchedItems
    from kgedit.fetching.sparql import FetchedSlice


@verb_command(
    WriteSample,
    name="write-sample",
    more=(result_format,),
    examples=(
        "kgedit write-sample sample/",
        "kgedit load-dump sample/20210104.json.gz --date 2021-01-04 --redirects sample/redirects.tsv",
    ),
)
def write_sample(given: WriteSample) -> None:
    """Write the dumps, and print their paths."""
    written = given.run()
    print_result({"files": written}, text="\n".join(map(str, written)))


@verb_command(
    FetchSlice,
    name="fetch-slice",
    more=(result_format,),
    examples=(
        "kgedit fetch-slice countries.nt.gz --class Q6256 --contact me@example.org",
        "kgedit load-dump countries.nt.gz --date 2026-11-22",
    ),
)
def fetch_slice(given: FetchSlice) -> None:
    """Fetch the items, and print their counts."""
    with bars() as add:
        made = replace(given, progress=add("Fetching", 1000, "entities")).run()
    _report_fetched(made)
    if made.redirected:
        say(f"Ids that redirect to another entity: {made.redirected:,}; their targets are in the file.")
    print_result(
        {
            "path": made.path,
            "entities": made.entities,
            "not_found": made.unknown,
            "redirected": made.redirected,
            "ancestors": made.ancestors,
            "ancestors_left_out": made.beyond,
        }
    )


def _report_fetched(made: FetchedItems | FetchedSlice) -> None:
    say(f"{made.path}: {made.entities:,} entities.")
    if made.ancestors or made.beyond:
        say(f"  values and what contains them: {made.ancestors:,} of these; {made.beyond:,} further ones left out")
    if made.unknown:
        shown = ", ".join(made.unknown[:5]) + (", ..." if len(made.unknown) > 5 else "")
        say(f"  not found: {len(made.unknown):,} ({shown})")
    say(f"Load it: kgedit load-dump {made.path} --date YYYY-MM-DD")


@verb_command(
    FetchItems,
    name="fetch-items",
    more=(result_format,),
    examples=("kgedit fetch-items towns.json.gz --items towns.txt --depth 1 --date 2021-01-04",),
)
def fetch_items(given: FetchItems) -> None:
    """Fetch the items, and print their counts."""
    with bars() as add:
        made = replace(given, progress=add("Fetching", 1000, "entities")).run()
    _report_fetched(made)
    if made.redirects is not None:
        say(f"Redirects among them: add --redirects {made.redirects}")
    print_result(
        {
            "path": made.path,
            "entities": made.entities,
            "not_found": made.unknown,
            "redirects": made.redirects,
            "ancestors": made.ancestors,
            "ancestors_left_out": made.beyond,
        }
    )


@verb_command(
    FetchDump,
    name="fetch-dump",
    optional=("day",),
    several=True,
    more=(
        click.option("--list", "listing", is_flag=True, help="Print the days with available dumps."),
        result_format,
    ),
    examples=("kgedit fetch-dump latest --to dumps", "kgedit fetch-dump --list"),
)
def fetch_dump(given: Given, *, listing: bool) -> None:
    """Fetch the dump and print its path, or list the days."""
    day = given.values["day"]
    if not (listing and day is None):
        _check_day(day)
    wanted = given.with_values(day=day or "latest")
    if listing:
        days = wanted.make(FetchDump).days()
        print_result({"days": days}, text="\n".join(days) if days else None)
        return
    checksums: list[str | None] = []

    def found(checksum: str | None) -> None:
        checksums.append(checksum)
        if checksum is None:
            say("The server gives no checksum for this file: only its length is checked.")

    with bars() as add:
        path = wanted.make(
            FetchDump, found=found, progress=lambda name, size: add(f"Fetching {name}", size, "bytes")
        ).run()
    print_result({"path": path, "checksum": checksums[0]})
    digits = path.name.removeprefix("wikidata-")[:8]
    if digits.isdigit():
        say(f"Load it: kgedit load-dump {path} --date {digits[:4]}-{digits[4:6]}-{digits[6:]}")
    else:
        say(f"{path} is there.")


def _check_day(text: str | None) -> None:
    if text == "latest":
        return
    try:
        read_day(text or "")
    except ValueError as error:
        why = f"{error} " if text else ""
        raise click.BadParameter(f"{why}Give latest or a day, or list the days there are: --list") from error


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
    from kgedit.verbs.up_inputs import day_in_name

    date, days = given.values["date"], given.values["days"]
    named = day_in_name(Path(given.values["path"]))
    if (date is None) == (not days):
        problem = "Give either --date, the day of the dump, or --as-of, earlier days to project it to."
        raise click.UsageError(problem + (f" Its name has a day: --date {named}" if named and not days else ""))
    if days and (given.values["engine"] != "local" or given.values["master"] is not None):
        raise click.UsageError("--as-of projects on this machine only. Leave --engine and --master out.")
    home, scope = default_home(), _scope(given)
    loaded = given.with_values(graph=False)
    with bars() as add:
        if date is None:
            snapshots = loaded.make(LoadDumpAsOf, progress=add).run(home)
        else:
            snapshots = [loaded.make(LoadDump, progress=add).run(home)]
    for snapshot in snapshots:
        _tell(snapshot.manifest)
    if named is not None and any(day > named for day in days):
        say(f"The dump's name says {named}: later changes are missing from it, and from snapshots of later days.")
    held = project(scope=scope) if given.values["graph"] else None
    print_result({"snapshots": [snapshot.manifest for snapshot in snapshots], "graph": held})


def _scope(given: Given) -> Scope | None:
    """Scope that the options set; None if they set none.

    Raises:
        UsageError: if they set one, but the graph is not updated.
    """
    scope = given.make(ScopeOptions).scope()
    if scope is not None and not given.values["graph"]:
        values = {name: given.values[name] for name in fields_of(ScopeOptions)}
        named = [
            (param.secondary_opts if values[param.name] is False else param.opts)[0]
            for param in click.get_current_context().command.params
            if param.name in values and values[param.name] not in (None, ())
        ]
        raise click.UsageError(f"--no-graph does not update the graph. Leave {' and '.join(named)} out.")
    return scope


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
    home, scope = default_home(), _scope(given)
    with steps("Taking what changed"):
        taken = given.with_values(graph=False).make(LoadChanges).run(home)
    for snapshot in taken:
        manifest = snapshot.manifest
        whole = manifest["part"]["whole"]
        counts = (f"{manifest[name]:,} of {whole[name]:,} {name}" for name in ("entities", "claims", "facts"))
        say(f"Snapshot {snapshot.name}: {', '.join(counts)}.")
    held = project(scope=scope) if given.values["graph"] else None
    print_result({"snapshots": [snapshot.manifest for snapshot in taken], "graph": held})


@verb_command(
    RunTask,
    name="task",
    more=(result_format,),
    examples=(
        "kgedit task parse wikidata-20210104-all.json.gz --date 2021-01-04 --part 3/32",
        "kgedit task gather wikidata-20210104-all.json.gz --date 2021-01-04",
        "kgedit task finish wikidata-20210104-all.json.gz --date 2021-01-04 --part 3/32",
        "kgedit task delta --date 2023-02-27 --part 3/32",
        "kgedit task select-changes /mnt/cluster/kgedit-data --from 2021-01-04 --date 2023-02-27",
        "kgedit task take-changes /mnt/cluster/kgedit-data --from 2021-01-04 --date 2023-02-27 --part 3/32",
    ),
)
def task(given: RunTask) -> None:
    """Do a part of a stage."""
    with bars() as steps:
        done = replace(given, progress=steps).run(default_home())
    unit = "blocks" if given.stage == "parse" else "buckets"
    text = f"{given.stage}, part {given.part}: {done:,} {unit} done"
    print_result({"stage": given.stage, "part": given.part, "done": done}, text=text)


@click.command(epilog=examples("kgedit snapshots"))
@json_flag
@result_format
def snapshots() -> None:
    """List the snapshots in the store."""
    home = Home()
    found = home.snapshots()
    if wants_json():
        print_json([snapshot.manifest for snapshot in found])
        return
    if not found:
        say(f"No snapshot is loaded in {home.path}. Load one: kgedit load-dump PATH --date YYYY-MM-DD")
        return
    click.echo(f"{'date':<12}{'entities':>12}{'claims':>14}{'facts':>14}  source")
    for snapshot in found:
        manifest = snapshot.manifest
        counts = f"{manifest['entities']:>12,}{manifest['claims']:>14,}{manifest['facts']:>14,}"
        how = "projected from " if snapshot.is_projected else "what changed in " if snapshot.is_part else ""
        click.echo(f"{manifest['date']:<12}{counts}  {how}{manifest['source']['name']}")


@verb_command(DropSnapshot, name="drop-snapshot", more=(result_format,), examples=("kgedit drop-snapshot 2021-01-04",))
def drop_snapshot(given: DropSnapshot) -> None:
    """Remove it from the store, then rebuild the graph."""
    home = Home()
    replace(given, graph=False).run(home.path)
    say(f"The snapshot of {given.date} is removed from the store.")
    print_result({"dropped": str(given.date), "graph": _without_it(home) if given.graph else None})


def _without_it(home: Home) -> dict[str, Any]:
    """Graph of the remaining snapshots."""
    if home.snapshots():
        return project(rebuild=True)
    home.empty_graph()
    say("The graph is empty.")
    return {"facts": 0, "terms": 0}


@verb_command(
    Relations,
    name="relations",
    more=(rows_format,),
    examples=(
        "kgedit relations --date 2023-02-27",
        "kgedit relations --date 2023-02-27 --disagreeing --min-subjects 20",
    ),
)
def relations(given: Relations, *, form: str) -> None:
    """Print one row per property."""
    rows = given.run(default_home()).to_pylist()
    if form == "table":
        shares = ("functional", "dated", "dated_claims")
        rows = [row | {name: f"{row[name]:.3f}" for name in shares} for row in rows]
    print_rows(rows, form)


@verb_command(Cycles, name="cycles", more=(rows_format,), examples=("kgedit cycles --date 2023-02-27",))
def cycles(given: Cycles, *, form: str) -> None:
    """Print one row per member of a cycle."""
    print_rows(given.run(default_home()).to_pylist(), form)


_MORE = (
    click.argument("home", type=click.Path(exists=True, file_okay=False, path_type=Path), required=False),
    json_flag,
    result_format,
)


@verb_command(
    Verify,
    name="verify",
    more=_MORE,
    examples=("kgedit verify", "kgedit verify kgedit-data --record", "kgedit verify --format json"),
)
def verify(given: Verify, *, home: Path | None) -> None:
    """Compare all files, and print the state of each part."""
    record = given.record
    with bars() as steps:
        parts = replace(given, progress=steps).run(home or default_home())
    damaged = [part for part in parts if part.state == "damaged"]
    if wants_json():
        print_json([asdict(part) for part in parts])
    else:
        width = max((len(part.part) for part in parts), default=0) + 2
        click.echo(f"{'part':<{width}}{'files':>7}{'MB':>11}  state")
        for part in parts:
            click.echo(f"{part.part:<{width}}{part.files:>7,}{part.bytes / 1e6:>11,.1f}  {part.state}")
        for part in damaged:
            click.echo("\n" + "\n".join(part.faults) + f"\n  {part.fix}")
        if not record and any(part.state == "no checksum" and part.part not in CACHES for part in parts):
            click.echo(
                "\n'no checksum': readable, but nothing to compare with (written by an earlier version, or not "
                "finished). Record checksums of snapshots and timesteps: kgedit verify --record"
            )
    click.get_current_context().exit(1 if damaged else 0)
