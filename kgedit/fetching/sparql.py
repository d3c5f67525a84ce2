"""A slice of Wikidata from a SPARQL endpoint, with full statements, as N-Triples grouped by entity like a dump.

Ids are queried first, then the entities in small batches; each page is stored as it arrives. Targets of redirects are
fetched too, and the properties used by the statements, because labels and datatypes would be missing without them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from kgedit.errors import SourceError
from kgedit.fetching.manners import Manners, TemporaryError, check_address, persistently, temporary_errors
from kgedit.fetching.slices import FetchedPages, Surroundings, check_suffix
from kgedit.progress import advance
from kgedit.wikidata.ids import INSTANCE_OF, SUBCLASS_OF, is_entity_id, site_address

WD = "http://www.wikidata.org/entity/"
_TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
_PREDICATE = re.compile(rb"<http://www\.wikidata\.org/prop/(?:[a-z-]+/)*(P[1-9][0-9]*)>")
_LINK = re.compile(
    rb"<http://www\.wikidata\.org/entity/(Q[1-9][0-9]*)> <http://www\.wikidata\.org/prop/direct/(P[1-9][0-9]*)> "
    rb"<http://www\.wikidata\.org/entity/(Q[1-9][0-9]*)> \."
)
_REDIRECT = re.compile(
    rb"<http://www\.wikidata\.org/entity/([QP][1-9][0-9]*)> <http://www\.w3\.org/2002/07/owl#sameAs> "
    rb"<http://www\.wikidata\.org/entity/([QP][1-9][0-9]*)> \."
)
_ID = re.compile(r"[QP][1-9][0-9]{0,17}")

_PAGES = 2
"""Version of what pages contain: pages of earlier versions lack the targets of redirects, and are fetched again."""

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceOrder:
    """Selection of a slice.

    Attributes:
        endpoint: Address of the SPARQL endpoint.
        ids: Ids of items, or None.
        of_class: QID of a class whose instances are fetched, including those of its subclasses, or None.
        query: SELECT query that returns the items in its column ``item``, or None.
        languages: Languages of labels, descriptions and aliases.
        wiki: Wiki whose article titles are fetched.
        ancestors: Maximum steps from a value for which the values of the items, their classes and containers are also
            fetched (kgedit.fetching.slices); 0 disables this.
        page: Number of entities per query.
        limit: Maximum number of items; None means no limit.
        manners: Settings of the requests.
    """

    endpoint: str
    ids: tuple[str, ...] | None = None
    of_class: str | None = None
    query: str | None = None
    languages: tuple[str, ...] = ("en", "mul")
    wiki: str = "enwiki"
    ancestors: int = 0
    page: int = 25
    limit: int | None = None
    manners: Manners = field(default_factory=Manners)

    def describe(self) -> str:
        """Description of the order, for the note and the manifest."""
        if self.of_class is not None:
            said = f"instances of {self.of_class}"
        else:
            said = (
                f"items of the query: {' '.join(self.query.split())}" if self.query else f"{len(self.ids or ())} items"
            )
        around = f", with ancestors of their values to {self.ancestors} steps" if self.ancestors else ""
        return f"{said}{around}, by {self.endpoint}" + (f", the first {self.limit}" if self.limit else "")


@dataclass(frozen=True, slots=True)
class FetchedSlice:
    """Result of a fetch.

    Attributes:
        path: The file.
        entities: Number of entities in the file.
        unknown: Ids without statements on the endpoint.
        ancestors: Number of entities fetched as values or their surroundings.
        beyond: Number of ids directly beyond the last step, which were not fetched.
        redirected: Number of ids that redirect to another entity, which is in the file with the redirect.
    """

    path: Path
    entities: int
    unknown: tuple[str, ...]
    ancestors: int = 0
    beyond: int = 0
    redirected: int = 0


def fetch_slice(order: SliceOrder, target: Path, *, overwrite: bool = False) -> FetchedSlice:
    """Fetch a slice into a file of N-Triples; an interrupted fetch is resumed.

    Advances (kgedit.progress) with the completed thousandths and the number of fetched entities.

    Args:
        order: Selection of the slice.
        target: Destination, which ends in ".nt" or ".nt.gz"; ".nt.gz" compresses it.
        overwrite: Whether an existing file may be replaced.

    Raises:
        SourceError: if the order is contradictory, the endpoint or the file's name is invalid, the endpoint keeps
            failing, or the file exists. No partial file is left then.
    """
    if sum(one is not None for one in (order.ids, order.of_class, order.query)) != 1:
        raise SourceError("A slice is of a list of items, of a class or of a query. Give exactly one of them.")
    check_suffix(target, ".nt", ".nt.gz")
    check_address(order.endpoint, option="--endpoint")
    plan = {name: getattr(order, name) for name in order.__slots__ if name != "manners"} | {"pages": _PAGES}
    pages = FetchedPages(target, plan, overwrite=overwrite)
    items = _items(order, pages)
    fetched = _Fetched()
    _fetch_entities(order, pages, "items", items, fetched)
    ancestors = beyond = 0
    if order.ancestors:
        ancestors, beyond = _fetch_ancestors(order, pages, fetched)
    _fetch_entities(order, pages, "properties", sorted(fetched.properties - fetched.asked), fetched)
    if not fetched.entities:
        raise SourceError(f"{order.endpoint} knows none of these items ({order.describe()}). Nothing was written.")
    path = pages.finish(fetched.names, slice_of=order.describe())
    return FetchedSlice(path, fetched.entities, tuple(fetched.unknown), ancestors, beyond, fetched.redirected)


@dataclass(slots=True)
class _Fetched:
    """State of the fetch."""

    entities: int = 0
    redirected: int = 0
    names: list[str] = field(default_factory=list)
    properties: set[str] = field(default_factory=set)
    unknown: list[str] = field(default_factory=list)
    asked: set[str] = field(default_factory=set)
    values: set[str] = field(default_factory=set)
    surroundings: Surroundings = field(default_factory=Surroundings)

    def add(self, content: bytes, *, are_items: bool) -> list[str]:
        """Add the triples of a page; returns the targets of its redirects, whose facts are not on the page."""
        redirects = [(source.decode(), target.decode()) for source, target in _REDIRECT.findall(content)]
        self.redirected += len(redirects)
        self.entities += content.count(b"schema.org/Dataset> .") - len(redirects)
        self.properties |= {match[1].decode() for match in _PREDICATE.finditer(content)}
        for match in _LINK.finditer(content):
            subject, property_id, value = (group.decode() for group in match.groups())
            self.surroundings.add(subject, property_id, value)
            if are_items:
                self.values.add(value)
        for source, target in redirects:
            self.surroundings.redirect(source, target)
        return list(dict.fromkeys(target for _, target in redirects))


def _fetch_ancestors(order: SliceOrder, pages: FetchedPages, fetched: _Fetched) -> tuple[int, int]:
    """Fetch the values of the items and their surroundings; returns the numbers of ids fetched and left out."""
    before, step = fetched.entities, 0

    def fetch(names: list[str]) -> None:
        nonlocal step
        step += 1
        wanted = [name for name in names if name not in fetched.asked]
        _fetch_entities(order, pages, f"ancestors-{step}", wanted, fetched)

    beyond = fetched.surroundings.fetch_around(set(fetched.values), order.ancestors, fetch)
    return fetched.entities - before, beyond


def _fetch_entities(
    order: SliceOrder,
    pages: FetchedPages,
    kind: str,
    ids: list[str],
    fetched: _Fetched,
) -> None:
    wanted, queued, done = list(ids), fetched.asked.union(ids), 0
    for number in count(1):
        batch = wanted[done : done + order.page]
        if not batch:
            return
        name = f"{kind}-{number:06d}.nt"
        content = pages.get(name)
        if content is None:
            content = pages.put(name, _entities(order, batch))
        fetched.names.append(name)
        fetched.unknown += [one for one in batch if f"/Special:EntityData/{one}>".encode() not in content]
        fetched.asked.update(batch)
        targets = fetched.add(content, are_items=kind == "items")
        wanted += [one for one in targets if one not in queued]
        queued.update(targets)
        done += len(batch)
        advance(1000 * done // len(wanted), fetched.entities)


_PAGE_OF_IDS = 10_000
"""Ids per request: those of a large class do not come within the public endpoint's limit of 60 seconds at once."""


def _items(order: SliceOrder, pages: FetchedPages) -> list[str]:
    """Ids of the selected items, in a fixed order."""
    if order.ids is not None:
        wrong = [one for one in order.ids if not _ID.fullmatch(one)]
        if wrong:
            raise SourceError(f"Not an id of an item or a property: {', '.join(wrong[:5])}. Write ids such as Q42.")
        return list(dict.fromkeys(order.ids))[: order.limit]
    kept = pages.get("ids.json")
    if kept is not None:
        return [str(one) for one in json.loads(kept)]
    names: dict[str, None] = {}
    offset = 0
    while order.limit is None or len(names) < order.limit:
        # Where the first rows are too few, because some have no item, whole pages take fewer requests.
        size = min(_PAGE_OF_IDS, order.limit) if order.limit and not offset else _PAGE_OF_IDS
        # Rows without an item count too, because the endpoint counts them for LIMIT and OFFSET.
        page = _ask(order, _query_of_ids(order, size, offset))
        names.update(dict.fromkeys(name for name in map(_id_in, page) if name is not None))
        offset += len(page)
        if len(page) < size:
            break
    ids = list(names)[: order.limit]
    pages.put("ids.json", json.dumps(ids).encode())
    return ids


_PROLOGUE = re.compile(r"(?:\s|#[^\r\n]*|BASE\s*<[^>]*>|PREFIX\s*[^\s:]*:\s*<[^>]*>)*", re.IGNORECASE)
"""Declarations and comments before a query, which a query within another one must not have."""


def _query_of_ids(order: SliceOrder, size: int, offset: int) -> str:
    prologue = ""
    if order.of_class is not None:
        if not _ID.fullmatch(order.of_class):
            raise SourceError(f"{order.of_class!r} is not the id of a class. Give one such as Q6256.")
        direct = "http://www.wikidata.org/prop/direct/"
        path = f"<{direct}{INSTANCE_OF}>/<{direct}{SUBCLASS_OF}>*"
        inner = f"?item {path} <{WD}{order.of_class}>"
    else:
        query = order.query or ""
        body = _PROLOGUE.sub("", query, count=1)
        # The bracket is on a separate line, because the last line of the query may end with a comment.
        prologue, inner = f"{query.removesuffix(body)}\n", f"{{\n{body}\n}}"
    return f"{prologue}SELECT DISTINCT ?item WHERE {{ {inner} }} ORDER BY ?item LIMIT {size} OFFSET {offset}"


def _id_in(row: Row) -> str | None:
    """Id of the item of a row; None if the row has no item, or another value."""
    if "item" not in row:
        return None
    address = str(row["item"]["value"])
    name = address.removeprefix(WD)
    return name if address.startswith(WD) and is_entity_id(name) and name[0] in "QP" else None


def _entities(order: SliceOrder, ids: list[str]) -> bytes:
    """Triples of some entities; if the query fails for all of them, it is split in half."""
    try:
        rows = _ask(order, _query_of_entities(order, ids), "item", "s", "p", "o")
    except SourceError:
        if len(ids) == 1:
            raise
        middle = len(ids) // 2
        return _entities(order, ids[:middle]) + _entities(order, ids[middle:])
    of_item: dict[str, set[str]] = {}
    for row in rows:
        line = " ".join(_token(row[name]) for name in ("s", "p", "o"))
        of_item.setdefault(str(row["item"]["value"]).removeprefix(WD), set()).add(f"{line} .\n")
    return "".join(_as_dumped(name, of_item[name]) for name in ids if name in of_item).encode()


def _query_of_entities(order: SliceOrder, ids: Iterable[str]) -> str:
    items = " ".join(f"<{WD}{name}>" for name in ids)
    languages = ", ".join(f'"{language}"' for language in order.languages)
    statement = f'FILTER(STRSTARTS(STR(?statement), "{WD}statement/"))'
    return f"""
        PREFIX schema: <http://schema.org/>
        SELECT ?item ?s ?p ?o WHERE {{
          VALUES ?item {{ {items} }}
          {{ ?item ?p ?o . BIND(?item AS ?s) FILTER(LANG(?o) IN ("", {languages}) || !ISLITERAL(?o)) }}
          UNION {{ ?item ?claim ?statement . {statement} ?statement ?p ?o . BIND(?statement AS ?s) }}
          UNION {{ ?item ?claim ?statement . {statement} ?statement ?value ?s .
                   FILTER(STRSTARTS(STR(?s), "http://www.wikidata.org/value/")) ?s ?p ?o . }}
          UNION {{ ?s schema:about ?item ; schema:isPartOf <{site_address(order.wiki)}> ; ?p ?o . }}
        }}
    """


def _as_dumped(name: str, lines: set[str]) -> str:
    """Triples of an entity as in a dump: its Dataset first, with its type. Endpoints omit both."""
    begin = f"<https://www.wikidata.org/wiki/Special:EntityData/{name}>"
    kind = "Property" if name[0] == "P" else "Item"
    head = [f"{begin} {_TYPE} <http://schema.org/Dataset> .\n", f"{begin} <http://schema.org/about> <{WD}{name}> .\n"]
    is_redirect = any("2002/07/owl#sameAs>" in line for line in lines)
    said = lines - {f"<{WD}{name}> {_TYPE} <http://wikiba.se/ontology#{kind}> .\n"}
    if not is_redirect:
        head.append(f"<{WD}{name}> {_TYPE} <http://wikiba.se/ontology#{kind}> .\n")
    return "".join([*head, *sorted(line for line in said if "schema.org/Dataset>" not in line)])


def _token(value: Row) -> str:
    """Convert a value of SPARQL's JSON results to a term of N-Triples."""
    kind, text = value["type"], str(value["value"])
    if kind == "uri":
        return f"<{text}>"
    if kind == "bnode":
        return "_:b" + re.sub(r"[^A-Za-z0-9]", "", text)
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    if value.get("xml:lang"):
        return f'"{escaped}"@{value["xml:lang"]}'
    return f'"{escaped}"' + (f"^^<{value['datatype']}>" if value.get("datatype") else "")


def _ask(order: SliceOrder, query: str, *columns: str) -> list[Row]:
    """Rows of a query, restricted to those with all of the columns."""
    rows = persistently(lambda: _asked_once(order, query, columns), of=f"A query to {order.endpoint}",
                        manners=order.manners)  # fmt: skip
    order.manners.sleep(order.manners.pause)
    return rows


def _asked_once(order: SliceOrder, query: str, columns: tuple[str, ...]) -> list[Row]:
    import SPARQLWrapper
    from SPARQLWrapper.SPARQLExceptions import EndPointInternalError, EndPointNotFound, QueryBadFormed, Unauthorized

    client = SPARQLWrapper.SPARQLWrapper(
        order.endpoint, returnFormat=SPARQLWrapper.JSON, agent=order.manners.user_agent
    )
    client.setMethod(SPARQLWrapper.POST)
    client.setTimeout(max(1, int(order.manners.time_limit)))
    client.setQuery(query)
    try:
        with temporary_errors():
            body = client.query().response.read()
    except EndPointInternalError as error:
        raise TemporaryError("HTTP 500: the endpoint gave up, perhaps after its time limit") from error
    except (QueryBadFormed, EndPointNotFound, Unauthorized) as error:
        first = str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
        raise SourceError(f"{order.endpoint} refuses the query: {first}. Check the address and the query.") from error
    except OSError as error:
        raise SourceError(f"{order.endpoint} cannot be queried: {error}. Check the address.") from error
    try:
        rows: list[Row] = json.loads(body)["results"]["bindings"]
        complete = [row for row in rows if all(name in row for name in columns)]
    except (ValueError, KeyError, TypeError) as error:
        # If an endpoint times out while sending a response, it has already sent status 200.
        raise TemporaryError("the response is truncated, or is not a SPARQL result") from error
    return complete
