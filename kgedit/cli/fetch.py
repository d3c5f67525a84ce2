"""``kgedit fetch-slice``, ``fetch-items``, ``fetch-dump``: fetches selected items, or whole dumps, for load-dump."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kgedit.cli.dates import DATE
from kgedit.cli.examples import examples
from kgedit.cli.formats import print_result, result_format
from kgedit.cli.progress import bars, say
from kgedit.errors import SourceError
from kgedit.wikidata.times import read_day

if TYPE_CHECKING:
    from kgedit.fetching.items import FetchedItems
    from kgedit.fetching.sparql import FetchedSlice

MOST_STEPS = 8
"""Depth to which containment of values is followed (kgedit.timesteps.kinds.snapshot_tables.MAX_DEPTH; tested)."""

_CONTACT: dict[str, Any] = {
    "envvar": "KGEDIT_CONTACT",
    "default": "",
    "help": "Your mail address or page, for the User-Agent that servers see. [env: KGEDIT_CONTACT]",
}
_LANGUAGES: dict[str, Any] = {
    "multiple": True,
    "default": ("en", "mul"),
    "show_default": True,
    "help": "Language of labels; repeat for fallbacks.",
}
_ANCESTORS: dict[str, Any] = {
    "type": click.IntRange(0, MOST_STEPS),
    "default": 0,
    "show_default": True,
    "help": f"Also the items' values and what contains them, to N steps; kinds of change look {MOST_STEPS} steps far.",
}
_TARGET = click.Path(path_type=Path, dir_okay=False)
_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


def read_ids(path: Path) -> tuple[str, ...]:
    """Read the ids of a list, one per line; # begins a comment, further columns are ignored."""
    lines = (
        line.partition("#")[0].split() for line in path.read_text(encoding="utf-8-sig", errors="replace").splitlines()
    )
    ids = tuple(cells[0] for cells in lines if cells)
    if not ids:
        raise SourceError(f"{path} holds no ids. Write one a line, such as Q42.")
    return ids


def read_revisions(path: Path) -> tuple[tuple[str, ...], tuple[tuple[str, int], ...]]:
    """Read the ids of a list, and the revisions of those written as Q42@1234567.

    Raises:
        SourceError: if a revision is not a number, or an id has two.
    """
    ids: dict[str, int | None] = {}
    for text in read_ids(path):
        name, at, revision = text.partition("@")
        if at and not (revision.isascii() and revision.isdigit() and len(revision) < 19):
            raise SourceError(f"{text} in {path} names no revision. Write Q42@1234567.")
        number = int(revision) if at else None
        if ids.setdefault(name, number) != number:
            raise SourceError(f"{name} is in {path} at two revisions. Write one file for each.")
    return tuple(ids), tuple((name, number) for name, number in ids.items() if number is not None)


@click.command(
    "fetch-slice",
    epilog=examples(
        "kgedit fetch-slice countries.nt.gz --class Q6256 --contact me@example.org",
        "kgedit load-dump countries.nt.gz --date 2026-11-22",
    ),
)
@click.argument("target", type=_TARGET)
@click.option("--items", type=_FILE, help="List of ids, one per line.")
@click.option("--class", "of_class", help="QID of a class: its instances, including those of subclasses.")
@click.option("--query", type=_FILE, help="SELECT query in a file; its column ?item gives the items.")
@click.option("--endpoint", default="https://query.wikidata.org/sparql", show_default=True, help="SPARQL endpoint.")
@click.option("--language", "languages", **_LANGUAGES)
@click.option("--wiki", default="enwiki", show_default=True, help="Wiki whose article titles are fetched.")
@click.option("--ancestors", **_ANCESTORS)
@click.option(
    "--page", type=click.IntRange(1, 500), default=25, show_default=True, help="Number of entities per request."
)
@click.option("--limit", type=click.IntRange(min=1), help="Only the first N items.")
@click.option("--time-limit", type=click.FloatRange(min=1), default=90, show_default=True, help="Seconds per request.")
@click.option("--contact", **_CONTACT)
@click.option("--overwrite", is_flag=True, help="Replace the file.")
@result_format
def fetch_slice(
    target: Path,
    items: Path | None,
    of_class: str | None,
    query: Path | None,
    endpoint: str,
    languages: tuple[str, ...],
    wiki: str,
    ancestors: int,
    page: int,
    limit: int | None,
    time_limit: float,
    contact: str,
    overwrite: bool,
) -> None:
    """Fetch selected items by SPARQL.

    They are written to TARGET (.nt or .nt.gz): the items of a list, a class or a query, in full statement form, with
    the properties they use. The same command resumes an interrupted fetch.
    """
    from kgedit.fetching.manners import Manners
    from kgedit.fetching.sparql import SliceOrder
    from kgedit.fetching.sparql import fetch_slice as fetch

    order = SliceOrder(
        endpoint=endpoint,
        ids=None if items is None else read_ids(items),
        of_class=of_class,
        query=None if query is None else query.read_text(encoding="utf-8"),
        languages=languages,
        wiki=wiki,
        ancestors=ancestors,
        page=page,
        limit=limit,
        manners=Manners(contact=contact, time_limit=time_limit),
    )
    with bars() as add:
        made = fetch(order, target, overwrite=overwrite, progress=add("Fetching", 1000, "entities"))
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


@click.command(
    "fetch-items",
    epilog=examples("kgedit fetch-items towns.json.gz --items towns.txt --depth 1 --date 2021-01-04"),
)
@click.argument("target", type=_TARGET)
@click.option("--items", type=_FILE, required=True, help="List of ids, one per line; Q42@1234567 is Q42 at a revision.")
@click.option("--depth", type=click.IntRange(0, 5), default=0, show_default=True, help="Steps to neighbours.")
@click.option("--ancestors", **_ANCESTORS)
@click.option("--date", **DATE, help="Fetch their state at the end of this day. Default: now.")
@click.option("--site", default="https://www.wikidata.org", show_default=True, help="Address of the wiki.")
@click.option("--properties/--no-properties", default=True, show_default=True, help="Also fetch the properties used.")
@click.option("--limit", type=click.IntRange(min=1), help="At most N entities, not counting properties.")
@click.option("--time-limit", type=click.FloatRange(min=1), default=60, show_default=True, help="Seconds per request.")
@click.option("--contact", **_CONTACT)
@click.option("--overwrite", is_flag=True, help="Replace the file.")
@result_format
def fetch_items(
    target: Path,
    items: Path,
    depth: int,
    ancestors: int,
    date: datetime.datetime | None,
    site: str,
    properties: bool,
    limit: int | None,
    time_limit: float,
    contact: str,
    overwrite: bool,
) -> None:
    """Fetch items of a list, with neighbours.

    They are written to TARGET (.json or .json.gz), one entity per line, with one request each: suitable for thousands
    of items. The same command resumes an interrupted fetch.
    """
    from kgedit.fetching.items import ItemsOrder
    from kgedit.fetching.items import fetch_items as fetch
    from kgedit.fetching.manners import Manners

    ids, revisions = read_revisions(items)
    order = ItemsOrder(
        ids=ids,
        revisions=revisions,
        site=site,
        depth=depth,
        ancestors=ancestors,
        date=None if date is None else date.date(),
        limit=limit,
        properties=properties,
        manners=Manners(contact=contact, time_limit=time_limit, pause=0.1),
    )
    with bars() as add:
        made = fetch(order, target, overwrite=overwrite, progress=add("Fetching", 1000, "entities"))
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


@click.command("fetch-dump", epilog=examples("kgedit fetch-dump latest --to dumps", "kgedit fetch-dump --list"))
@click.argument("day", metavar="latest|DATE", required=False)
@click.option("--list", "listing", is_flag=True, help="Print the days with available dumps.")
@click.option("--kind", default="json", show_default=True,
              help="json, rdf, truthy (each also with -bz2), lexemes or pageviews.")  # fmt: skip
@click.option("--to", "folder", type=click.Path(path_type=Path, file_okay=False), default=".", show_default=True,
              help="Folder for the file.")  # fmt: skip
@click.option("--mirror", help="Address of a mirror. Default: the public Wikimedia dumps.")
@click.option("--contact", **_CONTACT)
@click.option("--overwrite", is_flag=True, help="Replace the file.")
@result_format
def fetch_dump(
    day: str | None, listing: bool, kind: str, folder: Path, mirror: str | None, contact: str, overwrite: bool
) -> None:
    """Fetch a dump of Wikidata, or its page views.

    The file appears only when it is complete and verified. The same command resumes an interrupted fetch.
    """
    from kgedit.fetching.dumps import DUMPS, DumpOrder, find_dump, list_days
    from kgedit.fetching.dumps import fetch_dump as fetch
    from kgedit.fetching.manners import Manners

    manners = Manners(contact=contact)
    order = DumpOrder(day=_day(day, listing), kind=kind, mirror=f"{(mirror or DUMPS).rstrip('/')}/", manners=manners)
    if listing:
        days = [f"{found[:4]}-{found[4:6]}-{found[6:]}" for found in list_days(order)]
        print_result({"days": days}, text="\n".join(days) if days else None)
        return
    dump = find_dump(order)
    if dump.checksum is None:
        say("The server gives no checksum for this file: only its length is checked.")
    with bars() as add:
        path = fetch(dump, folder, manners=manners, overwrite=overwrite,
                     progress=lambda size: add(f"Fetching {dump.name}", size, "bytes"))  # fmt: skip
    print_result({"path": path, "checksum": dump.checksum})
    digits = dump.name.removeprefix("wikidata-")[:8]
    if digits.isdigit():
        say(f"Load it: kgedit load-dump {path} --date {digits[:4]}-{digits[4:6]}-{digits[6:]}")
    else:
        say(f"{path} is there.")


def _day(text: str | None, listing: bool) -> datetime.date | None:
    if text in (None, "latest") and (text or listing):
        return None
    try:
        return read_day(text or "")
    except ValueError as error:
        why = f"{error} " if text else ""
        raise click.BadParameter(f"{why}Give latest or a day, or list the days there are: --list") from error
