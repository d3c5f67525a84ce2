"""`fetch-slice`, `fetch-items`, `fetch-dump` and `write-sample`: dumps for load-dump."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from annotated_types import Le

from kgedit.errors import SourceError, StoreError
from kgedit.progress import Advance, advancing
from kgedit.verbs.home_folder import read_date
from kgedit.verbs.options import (
    AnyFile,
    AnyFolder,
    Day,
    ExistingFile,
    Names,
    Verb,
    argument,
    flag,
    options,
    python_only,
)
from kgedit.wikidata.times import read_day

if TYPE_CHECKING:
    from kgedit.fetching.dumps import DumpOrder
    from kgedit.fetching.slices import FetchedItems
    from kgedit.fetching.sparql import FetchedSlice


@options
class WriteSample(Verb["list[Path]"]):
    """Write three small Wikidata dumps to try kgedit with.

    FOLDER receives them and redirects.tsv. They contain real items with their changes between 2021-01-04, 2023-02-27
    and 2024-06-03: enough to try every command in seconds. Prints the written paths.
    """

    folder: AnyFolder = argument(kw_only=False, help="Folder to write.")
    overwrite: bool = flag(default=False, group="Output", help="Replace the files of an earlier write-sample.")

    def run(self) -> list[Path]:
        """Write the dumps.

        Raises:
            StoreError: if one of the files exists, unless `overwrite` is set.
        """
        from kgedit.sample.generate import SNAPSHOT_DATES, write_world

        folder = Path(self.folder)
        names = [f"{date:%Y%m%d}.json.gz" for date in SNAPSHOT_DATES] + ["redirects.tsv"]
        there = [name for name in names if (folder / name).exists()]
        if there and not self.overwrite:
            raise StoreError(f"{folder / there[0]} already exists. Replace it: --overwrite")
        return write_world(folder)


MOST_STEPS = 8
"""Depth to which containment of values is followed (kgedit.timesteps.kinds.snapshot_tables.MAX_DEPTH; tested)."""


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


@options
class FetchOptions:
    """Options of every fetch."""

    contact: str = flag(
        default="",
        envvar="KGEDIT_CONTACT",
        group="Machine",
        help="Your mail address or page, for the User-Agent that servers see.",
    )
    overwrite: bool = flag(default=False, group="Output", help="Replace the file.")


@options
class FetchedItemsOptions(FetchOptions):
    """Options of fetches of selected items."""

    ancestors: Annotated[int, Le(MOST_STEPS)] = flag(
        default=0,
        ge=0,
        help=f"Also the items' values and what contains them, to N steps; kinds of change look {MOST_STEPS} steps far.",
    )
    limit: int | None = flag(default=None, ge=1, help="At most N items, not counting properties.")
    progress: Advance | None = python_only(default=None, help="Progress callback.")


@options
class FetchSlice(FetchedItemsOptions, Verb["FetchedSlice"]):
    """Fetch selected items by SPARQL.

    They are written to TARGET (.nt or .nt.gz): the items of a list, a class or a query, in full statement form, with
    the properties they use. The same command resumes an interrupted fetch.
    """

    target: AnyFile = argument(kw_only=False, help="File to write, .nt or .nt.gz.")
    items: ExistingFile | None = flag(default=None, help="List of ids, one per line.")
    of_class: str | None = flag(
        "--class", default=None, help="QID of a class: its instances, including those of subclasses."
    )
    query: ExistingFile | None = flag(default=None, help="SELECT query in a file; its column ?item gives the items.")
    languages: Names = flag("--language", default=("en", "mul"), help="Language of labels; repeat for fallbacks.")
    wiki: str = flag(default="enwiki", rare=True, help="Wiki whose article titles are fetched.")
    endpoint: str = flag(
        default="https://query.wikidata.org/sparql", group="Machine", rare=True, help="SPARQL endpoint."
    )
    page: Annotated[int, Le(500)] = flag(
        default=25, ge=1, group="Machine", rare=True, help="Number of entities per request."
    )
    time_limit: float = flag(default=90, ge=1, group="Machine", rare=True, help="Seconds per request.")

    def run(self) -> FetchedSlice:
        """Fetch the items.

        Raises:
            SourceError: if the list or the query is wrong, or the server does not answer.
        """
        from kgedit.fetching.manners import Manners
        from kgedit.fetching.sparql import SliceOrder, fetch_slice

        order = SliceOrder(
            endpoint=self.endpoint,
            ids=None if self.items is None else read_ids(Path(self.items)),
            of_class=self.of_class,
            query=None if self.query is None else Path(self.query).read_text(encoding="utf-8-sig"),
            languages=tuple(self.languages),
            wiki=self.wiki,
            ancestors=self.ancestors,
            page=self.page,
            limit=self.limit,
            manners=Manners(contact=self.contact, time_limit=self.time_limit),
        )
        with advancing(self.progress):
            return fetch_slice(order, Path(self.target), overwrite=self.overwrite)


@options
class FetchItems(FetchedItemsOptions, Verb["FetchedItems"]):
    """Fetch items of a list, with neighbours.

    They are written to TARGET (.json or .json.gz), one entity per line, with one request each: suitable for thousands
    of items. The same command resumes an interrupted fetch.
    """

    target: AnyFile = argument(kw_only=False, help="File to write, .json or .json.gz.")
    items: ExistingFile = flag(kw_only=False, help="List of ids, one per line; Q42@1234567 is Q42 at a revision.")
    depth: Annotated[int, Le(5)] = flag(default=0, ge=0, help="Steps to neighbours.")
    date: Day | None = flag(
        default=None, help="Fetch their state at the end of this day (UTC), which must be over. Default: now."
    )
    properties: bool = flag(default=True, help="Also fetch the properties used.")
    site: str = flag(default="https://www.wikidata.org", group="Machine", rare=True, help="Address of the wiki.")
    time_limit: float = flag(default=60, ge=1, group="Machine", rare=True, help="Seconds per request.")

    def run(self) -> FetchedItems:
        """Fetch the items and their neighbours.

        Raises:
            SourceError: if the list is wrong, the day is not over, or the server does not answer.
        """
        from kgedit.fetching.manners import Manners
        from kgedit.fetching.slices import ItemsOrder, fetch_items

        ids, revisions = read_revisions(Path(self.items))
        order = ItemsOrder(
            ids=ids,
            revisions=revisions,
            site=self.site,
            depth=self.depth,
            ancestors=self.ancestors,
            date=None if self.date is None else read_date(self.date),
            limit=self.limit,
            properties=self.properties,
            manners=Manners(contact=self.contact, time_limit=self.time_limit, pause=0.1),
        )
        with advancing(self.progress):
            return fetch_items(order, Path(self.target), overwrite=self.overwrite)


@options
class FetchDump(FetchOptions, Verb[Path]):
    """Fetch a dump of Wikidata, or its page views.

    The file appears only when it is complete and verified. The same command resumes an interrupted fetch.
    """

    day: str = argument(kw_only=False, metavar="latest|DATE", help="Day of the dump, or latest.")
    kind: str = flag(default="json", help="json, rdf, truthy (each also with -bz2), lexemes or pageviews.")
    folder: AnyFolder = flag("--to", default=".", group="Output", help="Folder for the file.")
    mirror: str | None = flag(
        default=None, group="Machine", help="Address of a mirror. Default: the public Wikimedia dumps."
    )
    progress: Callable[[str, int], Advance] | None = python_only(
        default=None, help="Called with the file's name and size; returns a progress callback."
    )
    found: Callable[[str | None], None] | None = python_only(
        default=None, help="Called with the file's checksum, None without one, before it is fetched."
    )

    def order(self) -> DumpOrder:
        """Dump to request from the server.

        Raises:
            SourceError: if the mirror is not a web address.
        """
        from kgedit.fetching.dumps import DUMPS, DumpOrder
        from kgedit.fetching.manners import Manners, check_address

        if self.mirror is not None:
            check_address(self.mirror, option="--mirror")
        day = None if self.day == "latest" else read_day(self.day)
        manners = Manners(contact=self.contact)
        return DumpOrder(day=day, kind=self.kind, mirror=f"{(self.mirror or DUMPS).rstrip('/')}/", manners=manners)

    def days(self) -> list[str]:
        """Days with available dumps, as YYYY-MM-DD."""
        from kgedit.fetching.dumps import list_days

        return [f"{found[:4]}-{found[4:6]}-{found[6:]}" for found in list_days(self.order())]

    def run(self) -> Path:
        """Fetch the file.

        Returns:
            Path of the file.

        Raises:
            SourceError: if there is no such dump, or the server does not answer.
        """
        from kgedit.fetching.dumps import fetch_dump, find_dump

        order = self.order()
        dump = find_dump(order)
        if self.found is not None:
            self.found(dump.checksum)
        show = self.progress
        return fetch_dump(
            dump,
            Path(self.folder),
            manners=order.manners,
            overwrite=self.overwrite,
            progress=None if show is None else lambda size: show(dump.name, size),
        )
