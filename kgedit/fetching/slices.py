"""Slices: dumps of chosen items, made of pages that are stored while they are fetched.

Data missing from a slice is unknown: an entity is not new or removed only because another snapshot has or lacks it. A
note in a file beside the dump marks it as a slice.

A slice also needs the surroundings of its values, their classes and the chains of their containers, so that kgedit can
decide whether a new value is contained in the old one (kgedit.timesteps.kinds). Only current statements of fetched
entities are followed, so each step depends on the previous one.

`fetch_items` makes a slice of items by id from Special:EntityData, with neighbours up to a depth, current or as of a
date. No dump is needed. Each entity takes one request, so this is suitable for thousands of items, not millions. The
file has one entity per line, as in the JSON dump; redirects are written to a second file that load-dump reads.
`kgedit.fetching.sparql` makes a slice from a SPARQL endpoint.
"""

from __future__ import annotations

import datetime
import gzip
import json
import shutil
import urllib.error
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlencode

from kgedit.errors import SourceError
from kgedit.fetching.manners import Manners, TemporaryError, check_address, get, persistently
from kgedit.files import replace_file
from kgedit.progress import advance
from kgedit.store.closures import CONTAINMENT
from kgedit.store.files import json_text
from kgedit.wikidata.ids import INSTANCE_OF, is_entity_id


def note_beside(dump: Path) -> Path:
    """Path of the note of a slice."""
    return dump.with_name(f"{dump.name}.slice.json")


def write_slice_note(dump: Path, slice_of: str) -> None:
    """Write a note beside a dump that describes its slice."""
    replace_file(note_beside(dump), json_text({"slice_of": slice_of}))


def slice_note(dump: Path) -> str | None:
    """Read the description of a slice from the note beside its dump, or beside the file that it links to.

    Returns:
        The description; None without a note.

    Raises:
        SourceError: if the note cannot be read.
    """
    note = next((note for note in map(note_beside, (dump, dump.resolve())) if note.is_file()), None)
    if note is None:
        return None
    try:
        return str(json.loads(note.read_text(encoding="utf-8"))["slice_of"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SourceError(
            f"{note} cannot be read. It says what {dump.name} is a slice of: write "
            '{"slice_of": "..."} into it, or remove it and give --slice-of.'
        ) from error


def check_suffix(target: Path, *suffixes: str) -> None:
    """Check the name of a file to write before the first request.

    Raises:
        SourceError: if it ends in none of the suffixes.
    """
    if not target.name.endswith(suffixes):
        raise SourceError(f"{target} is written in one format. End its name in {' or '.join(suffixes)}.")


class FetchedPages:
    """Fetched pages of one file, in a folder beside it that is deleted when the file is complete.

    Args:
        target: Destination; ".gz" compresses it.
        plan: Identifies the fetch; pages of another plan are deleted.
        overwrite: Whether an existing file may be replaced.

    Raises:
        SourceError: if the file exists.
    """

    def __init__(self, target: Path, plan: Mapping[str, Any], *, overwrite: bool) -> None:
        if target.exists() and not overwrite:
            raise SourceError(f"{target} already exists. Name another file, or add --overwrite.")
        self.target = target
        self.folder = target.with_name(f".{target.name}.pages")
        marker = self.folder / "plan.json"
        wanted = json.dumps(plan, sort_keys=True)
        if not (marker.is_file() and marker.read_text(encoding="utf-8") == wanted):
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder.mkdir(parents=True)
            replace_file(marker, wanted)

    def get(self, name: str) -> bytes | None:
        """A page fetched before; None if it has not been fetched."""
        path = self.folder / name
        return path.read_bytes() if path.is_file() else None

    def put(self, name: str, content: bytes) -> bytes:
        """Store a page and return its content."""
        replace_file(self.folder / name, content)
        return content

    def finish(self, names: Iterable[str], *, slice_of: str) -> Path:
        """Combine the pages into the file, with the note that it is a slice, and delete the folder."""
        aside = self.target.with_name(f".{self.target.name}.aside")
        with _opened(aside, compressed=self.target.suffix == ".gz") as file:
            for name in names:
                file.write((self.folder / name).read_bytes())
        write_slice_note(self.target, slice_of)
        aside.replace(self.target)
        shutil.rmtree(self.folder)
        return self.target


def _opened(path: Path, *, compressed: bool) -> IO[bytes]:
    if compressed:
        return gzip.GzipFile(path, "wb", mtime=0)  # type: ignore[return-value]
    return path.open("wb")


class Surroundings:
    """Classes and direct containers of the entities fetched so far."""

    def __init__(self) -> None:
        self._classes: dict[str, set[str]] = defaultdict(set)
        self._containers: dict[str, set[str]] = defaultdict(set)
        self._targets: dict[str, str] = {}

    def add(self, subject: str, property_id: str, value: str) -> None:
        """Record a statement; statements with other properties are ignored."""
        if property_id == INSTANCE_OF:
            self._classes[subject].add(value)
        elif property_id in CONTAINMENT:
            self._containers[subject].add(value)

    def redirect(self, source: str, target: str) -> None:
        """Give an id the surroundings of the entity to which it redirects, also those added later."""
        self._targets[source] = target

    def _end(self, name: str) -> str:
        """The entity at the end of an id's redirects; any id of a circle."""
        passed = set[str]()
        while name in self._targets and name not in passed:
            passed.add(name)
            name = self._targets[name]
        return name

    def fetch_around(self, values: Iterable[str], steps: int, fetch: Callable[[list[str]], None]) -> int:
        """Fetch values and then their surroundings, one batch per step.

        Args:
            values: Ids of items.
            steps: Maximum number of steps from a value; its class is one step away.
            fetch: Fetches entities by their ids, in this order, unless already fetched, and adds their statements
                to this object.

        Returns:
            Number of ids directly beyond the last step, which were not fetched.
        """
        reached: set[str] = set()
        level = set(values)
        for step in range(steps + 1):
            fetch(sorted(level, key=in_order))
            reached |= level
            ends = {self._end(name) for name in level}
            outwards = [self._containers[name] for name in ends]
            outwards += [self._classes[name] for name in ends] if step == 0 else []
            level = set().union(*outwards) - reached
        return len(level)


def in_order(name: str) -> tuple[str, int]:
    """Sort key of an id: letter, then number."""
    return name[0], int(name[1:])


Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemsOrder:
    """Selection of items.

    Attributes:
        ids: Ids of items or properties.
        site: Address of the wiki, to which ``/wiki/Special:EntityData/`` and ``/w/api.php`` are added.
        depth: Steps along item-valued statements for which neighbours are fetched; 0 means only the items.
        ancestors: Maximum steps from a value for which the values of the items, their classes and containers are also
            fetched (kgedit.fetching.slices); 0 disables this.
        date: The last revision up to the end of this day (UTC), which must be over, is fetched; None means the
            current one.
        revisions: Id -> revision, for ids wanted at a certain revision.
        limit: Maximum number of entities, not counting properties; None means no limit.
        properties: Whether to fetch the properties of the statements as well.
        manners: Settings of the requests.
    """

    ids: tuple[str, ...]
    site: str
    depth: int = 0
    ancestors: int = 0
    date: datetime.date | None = None
    revisions: tuple[tuple[str, int], ...] = ()
    limit: int | None = None
    properties: bool = True
    manners: Manners = field(default_factory=Manners)

    def describe(self) -> str:
        """Description of the order, for the note and the manifest."""
        near = f" and neighbours to depth {self.depth}" if self.depth else ""
        around = f", with ancestors of their values to {self.ancestors} steps" if self.ancestors else ""
        when = f" on {self.date}" if self.date else ""
        return f"{len(self.ids)} items{near}{around}{when}, by {self.site}"


@dataclass(frozen=True, slots=True)
class FetchedItems:
    """Result of a fetch.

    Attributes:
        path: The file.
        redirects: The file of redirects; None if there are none.
        entities: Number of entities in the file.
        unknown: Ids without an entity.
        ancestors: Number of entities fetched as values or their surroundings.
        beyond: Number of ids directly beyond the last step or the limit, which were not fetched.
    """

    path: Path
    redirects: Path | None
    entities: int
    unknown: tuple[str, ...]
    ancestors: int = 0
    beyond: int = 0


def fetch_items(order: ItemsOrder, target: Path, *, overwrite: bool = False) -> FetchedItems:
    """Fetch items into a file with one entity per line; an interrupted fetch is resumed.

    Advances (kgedit.progress) with the completed thousandths of the current depth and the number of fetched entities.

    Args:
        order: Selection of items.
        target: Destination, which ends in ".json" or ".json.gz"; ".json.gz" compresses it.
        overwrite: Whether an existing file may be replaced.

    Raises:
        SourceError: if an id, the site or the file's name is invalid, the day is not over, the site keeps failing, or
            the file exists. No file is written then.
    """
    check_suffix(target, ".json", ".json.gz")
    check_address(order.site, option="--site")
    today = datetime.datetime.now(datetime.UTC).date()
    if order.date is not None and order.date >= today:
        raise SourceError(
            f"{order.date} is not over yet: by UTC, today is {today}. Give an earlier day, or leave --date out to "
            "fetch the current state."
        )
    wrong = [one for one in order.ids if not _is_item_or_property(one)]
    if wrong or not order.ids:
        raise SourceError(f"Not an id of an item or a property: {', '.join(wrong[:5]) or 'none given'}. Write Q42.")
    plan = {name: str(getattr(order, name)) for name in order.__slots__ if name != "manners"}
    fetching = _Fetching(order, FetchedPages(target, plan, overwrite=overwrite))
    fetching.fetch_all()
    if not fetching.names:
        raise SourceError(f"{order.site} has none of these items ({order.describe()}). Nothing was written.")
    redirects = target.with_name(f"{target.name}.redirects.tsv")
    if fetching.redirects:
        lines = "".join(f"{source}\t{to}\n" for source, to in sorted(fetching.redirects.items()))
        replace_file(redirects, lines)
    else:
        redirects.unlink(missing_ok=True)  # that of an earlier fetch
    path = fetching.pages.finish(fetching.names, slice_of=order.describe())
    return FetchedItems(
        path,
        redirects if fetching.redirects else None,
        len(fetching.names),
        tuple(fetching.unknown),
        fetching.ancestors,
        fetching.beyond,
    )


class _Fetching:
    """One call of fetch_items."""

    def __init__(self, order: ItemsOrder, pages: FetchedPages) -> None:
        self.pages = pages
        self.names: list[str] = []
        self.redirects: dict[str, str] = {}
        self.unknown: list[str] = []
        self.ancestors = 0
        self.beyond = 0
        self._order = order
        self._revisions = dict(order.revisions)
        self._seen: set[str] = set()
        self._properties: set[str] = set()
        self._values: set[str] = set()
        self._surroundings = Surroundings()

    def fetch_all(self) -> None:
        """Fetch the items, their neighbours step by step, the surroundings of values, and then the properties."""
        wanted = list(dict.fromkeys(self._order.ids))
        for step in range(self._order.depth + 1):
            neighbours: set[str] = set()
            for number, name in enumerate(wanted, start=1):
                if self._is_full():
                    break
                entity = self._fetch(name)
                if entity is not None and step < self._order.depth:
                    neighbours.update(value for _, value in _objects(entity))
                if entity is not None and step == 0:
                    self._values.update(value for _, value in _objects(entity) if value[0] == "Q")
                self._tell(number, len(wanted))
            wanted = sorted(neighbours - self._seen, key=in_order)
        if self._order.ancestors:
            before = len(self.names)
            beyond = self._surroundings.fetch_around(self._values, self._order.ancestors, self._fetch_each)
            self.beyond += beyond  # not added in the call's statement, because the call changes self.beyond too
            self.ancestors = len(self.names) - before
        if self._order.properties:
            properties = sorted(self._properties - self._seen, key=in_order)
            for number, name in enumerate(properties, start=1):
                self._fetch(name)
                self._tell(number, len(properties))

    def _is_full(self) -> bool:
        return self._order.limit is not None and len(self.names) >= self._order.limit

    def _fetch_each(self, names: list[str]) -> None:
        for number, name in enumerate(names, start=1):
            if self._is_full():
                self.beyond += len(set(names[number - 1 :]) - self._seen)
                break
            self._fetch(name)
            self._tell(number, len(names))

    def _tell(self, number: int, of: int) -> None:
        advance(1000 * number // of, len(self.names))

    def _fetch(self, name: str) -> Json | None:
        """Fetch an entity once; None if it was fetched before or does not exist."""
        if name in self._seen:
            return None
        self._seen.add(name)
        page = f"{name}.json"
        content = self.pages.get(page)
        if content is None:
            content = self.pages.put(page, self._asked(name))
        if not content:
            self.unknown.append(name)
            return None
        entity: Json = json.loads(content)
        if entity["id"] != name:
            self.redirects[name] = str(entity["id"])
            if entity["id"] in self._seen:
                for property_id, value in _objects(entity):
                    self._surroundings.add(name, property_id, value)
                return None
            self._seen.add(str(entity["id"]))
        self.names.append(page)
        self._properties.update(_used_properties(entity))
        for property_id, value in _objects(entity):
            self._surroundings.add(name, property_id, value)
        return entity

    def _asked(self, name: str) -> bytes:
        """Line of an entity; empty if it does not exist, or did not exist on that day."""
        order = self._order
        revision = self._revisions.get(name)
        if revision is None and order.date is not None:
            revision = persistently(lambda: self._revision_of(name), of=f"Asking for {name}", manners=order.manners)
            if revision is None:
                return b""
        query = f"?revision={revision}" if revision is not None else ""
        address = f"{order.site.rstrip('/')}/wiki/Special:EntityData/{name}.json{query}"
        entity = persistently(lambda: self._entity_at(address), of=f"Asking for {name}", manners=order.manners)
        order.manners.sleep(order.manners.pause)
        return b"" if entity is None else json.dumps(entity, ensure_ascii=False).encode() + b"\n"

    def _revision_of(self, name: str) -> int | None:
        """Last revision of the day; None if there was none."""
        title = f"Property:{name}" if name[0] == "P" else name
        query = urlencode({
            "action": "query", "prop": "revisions", "titles": title, "rvprop": "ids", "rvlimit": 1, "rvdir": "older",
            "rvstart": f"{self._order.date}T23:59:59Z", "format": "json", "formatversion": 2,
        })  # fmt: skip
        answer = _json_at(f"{self._order.site.rstrip('/')}/w/api.php?{query}", self._order.manners)
        try:
            found = answer["query"]["pages"][0].get("revisions", []) if answer else []
            return int(found[0]["revid"]) if found else None
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise TemporaryError("the response is not in the API's format") from error

    def _entity_at(self, address: str) -> Json | None:
        answer = _json_at(address, self._order.manners)
        if answer is None:
            return None
        entities = answer.get("entities")
        found = [one for one in entities.values() if isinstance(one, dict)] if isinstance(entities, dict) else []
        if len(found) != 1 or "id" not in found[0]:
            raise TemporaryError("the response contains no entity")
        return found[0]


def _json_at(address: str, manners: Manners) -> Json | None:
    """JSON at an address; None if it does not exist or no longer exists."""
    try:
        body = get(address, manners)
    except urllib.error.HTTPError as error:
        if error.code in (404, 410):
            return None
        raise SourceError(f"{address} answers HTTP {error.code} {error.reason}. Check the address.") from error
    try:
        answer = json.loads(body)
    except ValueError as error:
        raise TemporaryError("the response is not JSON, or is truncated") from error
    if not isinstance(answer, dict):
        raise TemporaryError("the response is not a JSON object")
    return answer


def _statements(entity: Json) -> Iterator[Json]:
    claims = entity.get("claims")
    for group in claims.values() if isinstance(claims, dict) else ():
        yield from (one for one in group if isinstance(one, dict))


def _objects(entity: Json) -> Iterator[tuple[str, str]]:
    """Property and value of all statements whose value is an entity."""
    for statement in _statements(entity):
        main = statement.get("mainsnak", {})
        value = main.get("datavalue", {}).get("value")
        name = value.get("id") if isinstance(value, dict) else None
        if isinstance(name, str) and _is_item_or_property(name):
            yield str(main.get("property")), name


def _used_properties(entity: Json) -> Iterator[str]:
    for statement in _statements(entity):
        yield str(statement.get("mainsnak", {}).get("property"))
        qualifiers = statement.get("qualifiers")
        yield from qualifiers if isinstance(qualifiers, dict) else ()


def _is_item_or_property(name: str) -> bool:
    return name[:1] in ("Q", "P") and is_entity_id(name)
