"""Routes of the server and their JSON responses (listed in docs/explore.md)."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import duckdb
import pyarrow as pa
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from kgedit.errors import KgeditError
from kgedit.graph.browser import saved_query
from kgedit.graph_memory.proxy.http import ClosingResponse, UnreadableBodyError, read_body
from kgedit.pages.explorer.differences import FACETS, Filters, Kinds, Windows
from kgedit.pages.explorer.explorer import Explorer, is_entity_id, search
from kgedit.pages.explorer.exports import Exports, ExportTask
from kgedit.pages.explorer.history import read_history
from kgedit.timesteps.selected import SELECTION

ITEM = "Q9999999999"
"""Placeholder for the item in a query that the page completes; no item has this id."""

_TOLD = (KgeditError, duckdb.IOException)
"""Errors whose message is returned: wrong requests, and snapshots that were dropped or reloaded meanwhile."""

_MOST_ROWS = 200  # of a page of changes
_MOST_TEXT = 200  # characters of a search; Wikidata's labels have at most 250
_LONGEST_BODY = 16 << 20  # bytes; a selection of all changes of a slice takes a few


class UnknownError(KgeditError):
    """The requested entity or route does not exist."""


class Routes:
    """Routes of the server.

    Args:
        explorer: The snapshots.
        exports: Queue of timesteps to export.
        page: HTML of the page.
        browser: Returns the current address of Neo4j Browser, or None while it is unknown.
    """

    def __init__(self, explorer: Explorer, exports: Exports, *, page: str, browser: Callable[[], str | None]) -> None:
        self._explorer, self._exports, self._page, self._browser = explorer, exports, page, browser
        self._windows = Windows(explorer)
        self._kinds = Kinds(explorer, self._windows)

    def routes(self) -> list[Route]:
        """Routes below the token."""
        asked: dict[str, Callable[[Request], Any]] = {
            "/api/overview": self._overview,
            "/api/search": self._search,
            "/api/changes": self._changes,
            "/api/items/{entity}": self._item,
            "/api/exports": self._list_exports,
        }
        return [
            Route("/", lambda _request: HTMLResponse(self._page), methods=["GET"]),
            *(Route(path, _answering(answer), methods=["GET"]) for path, answer in asked.items()),
            Route("/api/exports", _posted(self._start_export), methods=["POST"]),
            Route("/api/kinds", _posted(self._start_kinds), methods=["POST"]),
        ]

    def close(self) -> None:
        """Start no further background work."""
        self._kinds.close()
        self._exports.close()

    def _overview(self, _request: Request) -> dict[str, Any]:
        names = ("entities", "claims", "facts", "slice_of")
        return {
            "home": str(self._explorer.home),
            "snapshots": [
                {"date": one.date, "name": one.name, "projected": one.is_projected}
                | {name: one.manifest.get(name) for name in names}
                for one in self._explorer.snapshots
            ],
            "browser": self._browser(),
            "item": ITEM,
            "query": saved_query("facts_of_item", item=ITEM),
        }

    def _search(self, request: Request) -> dict[str, Any]:
        text = request.query_params.get("q", "")[:_MOST_TEXT]
        limit = _whole(request, "limit", 20, most=100)
        found = search(self._explorer, text, limit=limit)
        return {"query": text, "results": [asdict(one.term) | {"match": one.match} for one in found]}

    def _changes(self, request: Request) -> dict[str, Any]:
        older, newer = _dates(request.query_params)
        filters = _filters(
            request.query_params.get("q", ""), {name: request.query_params.getlist(name) for name in FACETS}
        )
        found = self._windows.differences(
            older,
            newer,
            filters,
            order=request.query_params.get("order", "popular"),
            offset=_whole(request, "offset", 0, most=10_000_000),
            limit=_whole(request, "limit", 30, most=_MOST_ROWS),
        )
        facets: dict[str, list[list[Any]]] = {name: [] for name in FACETS}
        for row in found.facets.to_pylist():
            facets[row["facet"]].append([row["value"], row["label"], row["count"]])
        window = {"from": older, "to": newer}
        return {
            **window,
            "total": found.total,
            "found": found.found,
            "rows": found.rows.to_pylist(),
            "facets": facets,
            "kinds": self._kinds.state(older, newer),
            "query": saved_query("changes_around_item", item=ITEM, **window),
        }

    def _item(self, request: Request) -> dict[str, Any]:
        entity = request.path_params["entity"]
        if not is_entity_id(entity):
            raise KgeditError(f"'{entity[:40]}' is not an id. Give one like Q183.")
        history = read_history(self._explorer, entity)
        if history is None:
            raise UnknownError(f"No loaded snapshot has {entity}.")
        return asdict(history)

    def _list_exports(self, _request: Request) -> dict[str, Any]:
        return {"exports": [_as_json(task) for task in self._exports.tasks()]}

    def _start_kinds(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        return {"kinds": self._kinds.start(*_dates(asked))}

    def _start_export(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        older, newer = _dates(asked)
        pairs = asked.get("selection")
        if pairs is None:
            chosen = asked.get("filters", {})
            if not isinstance(chosen, dict) or not all(_are_texts(values) for values in chosen.values()):
                raise KgeditError('"filters" must be lists of texts by facet.')
            selection = self._windows.pairs(older, newer, _filters(str(asked.get("q", "")), chosen))
        else:
            selection = _selection(pairs)
        name, profile = (str(asked.get(key, "")) for key in ("name", "profile"))
        return _as_json(self._exports.start(older, newer, selection, name=name, profile=profile))


def _answering(answer: Callable[[Request], Any]) -> Callable[[Request], Response]:
    def respond(request: Request) -> Response:
        try:
            return JSONResponse(answer(request))
        except _TOLD as error:
            return _refused(error)

    return respond


def _posted(start: Callable[[Mapping[str, Any]], dict[str, Any]]) -> Callable[[Request], Awaitable[Response]]:
    async def respond(request: Request) -> Response:
        try:
            return JSONResponse(await run_in_threadpool(start, await _body(request)), 202)
        except UnreadableBodyError as error:
            return ClosingResponse({"error": str(error)}, error.status)
        except _TOLD as error:
            return _refused(error)

    return respond


def _refused(error: Exception) -> JSONResponse:
    if isinstance(error, duckdb.IOException):
        return JSONResponse({"error": "A file of the store is gone or another one. Start kgedit explore again."}, 409)
    return JSONResponse({"error": str(error)}, 404 if isinstance(error, UnknownError) else 400)


def _as_json(task: ExportTask) -> dict[str, Any]:
    return asdict(task) | {"only": str(task.only), "out": str(task.out), "command": task.command}


def _filters(text: str, chosen: Mapping[str, Sequence[str]]) -> Filters:
    return Filters(text=text[:_MOST_TEXT], chosen={name: values for name, values in chosen.items() if values})


def _dates(given: Mapping[str, Any]) -> tuple[int, int]:
    found = []
    for name in ("from", "to"):
        text = str(given.get(name, ""))
        if len(text) != 8 or not text.isascii() or not text.isdigit():
            raise KgeditError(f"'{name}' must be the day of a snapshot as YYYYMMDD, not '{text[:40]}'.")
        found.append(int(text))
    return found[0], found[1]


def _whole(request: Request, name: str, default: int, *, most: int) -> int:
    text = request.query_params.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) <= most):
        raise KgeditError(f"'{name}' must be a whole number up to {most:,}, not '{text[:40]}'.")
    return int(text)


async def _body(request: Request) -> dict[str, Any]:
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise KgeditError("Send JSON: Content-Type: application/json.")
    body = await read_body(request, most_bytes=_LONGEST_BODY)
    try:
        asked = json.loads(body)
        json.dumps(asked, ensure_ascii=False).encode()  # raises for halves of surrogate pairs
    except RecursionError as error:
        raise KgeditError("The request is JSON nested too deeply.") from error
    except UnicodeEncodeError as error:
        raise KgeditError("The request contains text that is not valid Unicode.") from error
    except ValueError as error:
        raise KgeditError(f"The request is not valid JSON: {error}") from error
    if not isinstance(asked, dict):
        raise KgeditError("The request must be a JSON object.")
    return asked


def _selection(pairs: Any) -> pa.Table:
    if not isinstance(pairs, list) or not all(_is_pair(pair) for pair in pairs):
        raise KgeditError(
            '"selection" must be a list of [subject, relation], one of them null for any: ["Q183", "P6"].'
        )
    return pa.table({"subject": [one for one, _ in pairs], "property": [other for _, other in pairs]}, SELECTION)


def _is_pair(pair: Any) -> bool:
    return (
        isinstance(pair, list)
        and len(pair) == 2
        and pair != [None, None]
        and all(one is None or (isinstance(one, str) and is_entity_id(one)) for one in pair)
        and (pair[1] is None or pair[1].startswith("P"))
    )


def _are_texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)
