"""``kgedit fetch-slice``, ``fetch-items``, ``fetch-dump``: fetches selected items, or whole dumps, for load-dump."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from kgedit.cli.formats import print_result, result_format
from kgedit.cli.progress import bars, say
from kgedit.cli.verb_command import Given, verb_command
from kgedit.verbs.fetch import FetchDump, FetchItems, FetchSlice
from kgedit.wikidata.times import read_day

if TYPE_CHECKING:
    from kgedit.fetching.items import FetchedItems
    from kgedit.fetching.sparql import FetchedSlice


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
    print_result(
        {
            "path": made.path,
            "entities": made.entities,
            "not_found": made.unknown,
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
