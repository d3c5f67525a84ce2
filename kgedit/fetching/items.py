"""Items by their ids from Special:EntityData, with neighbours to a depth, now or as they were at a date.

The one thing to know: this needs no dump, and asks once for each entity, so it is for thousands of items, not millions.
The file has one entity a line, as the JSON dump; redirects go into a file beside it that load-dump takes.
"""

from __future__ import annotations

import datetime
import json
import urllib.error
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from kgedit.errors import SourceError
from kgedit.fetching.ancestors import Surroundings, in_order
from kgedit.fetching.manners import Manners, TemporaryError, get, persistently
from kgedit.fetching.pages import FetchedPages
from kgedit.files import replace_file
from kgedit.wikidata.patterns import is_entity_id

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemsOrder:
    """What to fetch.

    Attributes:
        ids: Ids of items or properties.
        site: Address of the wiki, to which ``/wiki/Special:EntityData/`` and ``/w/api.php`` are added.
        depth: How many steps along item-valued statements neighbours are fetched; 0 for the items alone.
        ancestors: Also the values of the items, their classes, and what contains these, up to this many steps from a
            value (kgedit.fetching.ancestors); 0 for none of it.
        date: The last revision up to the end of this day; None for the current one.
        revisions: Revision of an id, for those that are wanted at one.
        limit: At most so many entities, properties not counted; None for no bound.
        properties: Whether the properties of the statements are fetched as well.
        manners: How the site is asked.
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
        """In words, for the note and the manifest."""
        near = f" and neighbours to depth {self.depth}" if self.depth else ""
        around = f", with ancestors of their values to {self.ancestors} steps" if self.ancestors else ""
        when = f" on {self.date}" if self.date else ""
        return f"{len(self.ids)} items{near}{around}{when}, by {self.site}"


@dataclass(frozen=True, slots=True)
class FetchedItems:
    """What was fetched.

    Attributes:
        path: The file.
        redirects: The file of redirects; None if there are none.
        entities: Number of entities in the file.
        unknown: Ids without an entity.
        ancestors: Entities that were fetched as values or as what lies around them.
        beyond: Ids right beyond the last step, or the limit, which were left out.
    """

    path: Path
    redirects: Path | None
    entities: int
    unknown: tuple[str, ...]
    ancestors: int = 0
    beyond: int = 0


def fetch_items(
    order: ItemsOrder, target: Path, *, overwrite: bool = False, progress: Callable[[int, int], None] | None = None
) -> FetchedItems:
    """Fetch items into a file with one entity a line; a fetch that was interrupted resumes.

    Args:
        order: What to fetch.
        target: The file; ".json.gz" compresses it.
        overwrite: Whether a file that is there may be replaced.
        progress: Called with the thousandths of the current depth done and the entities fetched.

    Raises:
        SourceError: if an id is none, the site goes on failing, or the file is there. Nothing is there then.
    """
    wrong = [one for one in order.ids if not _is_item_or_property(one)]
    if wrong or not order.ids:
        raise SourceError(f"Not an id of an item or a property: {', '.join(wrong[:5]) or 'none given'}. Write Q42.")
    plan = {name: str(getattr(order, name)) for name in order.__slots__ if name != "manners"}
    fetching = _Fetching(order, FetchedPages(target, plan, overwrite=overwrite), progress)
    fetching.fetch_all()
    if not fetching.names:
        raise SourceError(f"{order.site} has none of these items ({order.describe()}). Nothing was written.")
    redirects = None
    if fetching.redirects:
        lines = "".join(f"{source}\t{to}\n" for source, to in sorted(fetching.redirects.items()))
        redirects = replace_file(target.with_name(f"{target.name}.redirects.tsv"), lines)
    path = fetching.pages.finish(fetching.names, slice_of=order.describe())
    return FetchedItems(
        path, redirects, len(fetching.names), tuple(fetching.unknown), fetching.ancestors, fetching.beyond
    )


class _Fetching:
    """One run of fetch_items."""

    def __init__(self, order: ItemsOrder, pages: FetchedPages, progress: Callable[[int, int], None] | None) -> None:
        self.pages = pages
        self.names: list[str] = []
        self.redirects: dict[str, str] = {}
        self.unknown: list[str] = []
        self.ancestors = 0
        self.beyond = 0
        self._order = order
        self._progress = progress
        self._revisions = dict(order.revisions)
        self._seen: set[str] = set()
        self._properties: set[str] = set()
        self._values: set[str] = set()
        self._surroundings = Surroundings()

    def fetch_all(self) -> None:
        """Fetch the items, then their neighbours, step by step, then what lies around values, then the properties."""
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
            self.beyond += beyond  # apart: the call counts in self.beyond too
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
        if self._progress is not None:
            self._progress(1000 * number // of, len(self.names))

    def _fetch(self, name: str) -> Json | None:
        """An entity, once; None if it was fetched before or is not there."""
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
        """An entity's line; empty if there is none, or was none on that day."""
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
        """The last revision of the day; None if there was none yet."""
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
            raise TemporaryError("the answer is not what the API gives") from error

    def _entity_at(self, address: str) -> Json | None:
        answer = _json_at(address, self._order.manners)
        if answer is None:
            return None
        entities = answer.get("entities")
        found = [one for one in entities.values() if isinstance(one, dict)] if isinstance(entities, dict) else []
        if len(found) != 1 or "id" not in found[0]:
            raise TemporaryError("the answer holds no entity")
        return found[0]


def _json_at(address: str, manners: Manners) -> Json | None:
    """The JSON at an address; None if there is nothing (any more)."""
    try:
        answer = json.loads(get(address, manners))
    except urllib.error.HTTPError as error:
        if error.code in (404, 410):
            return None
        raise SourceError(f"{address} answers HTTP {error.code} {error.reason}. Check the address.") from error
    except ValueError as error:
        raise TemporaryError("the answer is no JSON, or breaks off") from error
    if not isinstance(answer, dict):
        raise TemporaryError("the answer is not what the site gives")
    return answer


def _statements(entity: Json) -> Iterator[Json]:
    claims = entity.get("claims")
    for group in claims.values() if isinstance(claims, dict) else ():
        yield from (one for one in group if isinstance(one, dict))


def _objects(entity: Json) -> Iterator[tuple[str, str]]:
    """Property and value of the statements with an entity as value."""
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
