"""The server of `kgedit explore`: serves one page and its data to this machine only, until it is stopped.

Any web page can send requests to 127.0.0.1, and a domain that its owner points there makes them look like its own (DNS
rebinding). Therefore every request must name this host and have the secret in its path, which other pages cannot know.
The page contains no data and requests all of it, as JSON, from the routes listed in docs/explore.md.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from typing import Any

import duckdb
import pyarrow as pa
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from kgedit.errors import KgeditError
from kgedit.graph.browser import saved_query
from kgedit.graph_memory.proxy.http import ClosingResponse, TimedProtocol, UnreadableBodyError, read_body, with_headers
from kgedit.pages.explorer import Explorer, is_entity_id, search
from kgedit.pages.explorer.differences import FACETS, Filters, Kinds, Windows
from kgedit.pages.explorer.exports import Exports, ExportTask, ExportTimestep
from kgedit.pages.explorer.history import read_history
from kgedit.pages.shell import policy_of, render
from kgedit.timesteps.selected import SELECTION

HOST = "127.0.0.1"
_SECONDS_TO_STOP = 5  # for answers under way; Ctrl-C should not keep its user waiting
_MOST_CLIENTS = 100  # at once: a browser opens six connections, and more than these are not from one user


@dataclass(frozen=True, slots=True)
class ExploreServer:
    """A server that listens but does not answer yet.

    Attributes:
        url: Address of the page, with its token.
        server: The uvicorn server.
        listening: Listening socket.
    """

    url: str
    server: uvicorn.Server
    listening: socket.socket

    def run(self) -> None:
        """Answer requests until the process is stopped."""
        self.server.run(sockets=[self.listening])


def explore_app(
    explorer: Explorer,
    export: ExportTimestep,
    *,
    hosts: Sequence[str],
    token: str,
    browser: Callable[[], str | None],
) -> Starlette:
    """Create the application.

    Args:
        explorer: The snapshots; closed with the application.
        export: Exports the timestep of a selection.
        hosts: Allowed values of the Host header, with port.
        token: First part of every path.
        browser: Returns the address of Neo4j Browser, for links; None while it is unknown.
    """
    page = explore_page()
    routes = Routes(explorer, Exports(explorer, export), page=page.html, browser=browser)

    @asynccontextmanager
    async def closing(_app: Starlette) -> AsyncIterator[None]:
        yield
        routes.close()
        explorer.close()

    return Starlette(
        routes=[Mount("/{token}", routes=routes.routes())],
        middleware=[Middleware(Guard, hosts=hosts, token=token, policy=page.policy)],
        lifespan=closing,
    )


def make_server(
    explorer: Explorer, export: ExportTimestep, *, port: int, browser: Callable[[], str | None]
) -> ExploreServer:
    """Create a server that listens on a port of this machine.

    Args:
        explorer: The snapshots.
        export: Exports the timestep of a selection.
        port: Port to listen on; 0 means any free port.
        browser: Returns the address of Neo4j Browser, for links; None while it is unknown.

    Raises:
        KgeditError: if the port is taken.
    """
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if os.name == "posix":  # on Windows this option would let another process listen on the same port
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
        listening.listen()  # now, so that a browser can be opened before the server runs
    except OSError as error:
        listening.close()
        raise KgeditError(
            f"Port {port} cannot be had ({error}). Give another one: --port 0 takes a free one."
        ) from error
    port, token = listening.getsockname()[1], new_token()
    app = explore_app(explorer, export, hosts=(f"{HOST}:{port}", f"localhost:{port}"), token=token, browser=browser)
    config = uvicorn.Config(
        app,
        http=TimedProtocol,
        limit_concurrency=_MOST_CLIENTS,
        access_log=False,
        log_level="warning",
        timeout_graceful_shutdown=_SECONDS_TO_STOP,
        server_header=False,
        date_header=False,
        ws="none",
    )
    return ExploreServer(f"http://{HOST}:{port}/{token}/", uvicorn.Server(config), listening)


_SCRIPTS = ("explore_base.js", "explore_cards.js", "explore_item.js", "explore_selection.js", "explore.js")


@dataclass(frozen=True, slots=True)
class ExplorePage:
    """The page.

    Attributes:
        html: HTML of the page.
        policy: Content security policy: only its own script, and requests only to its own server.
    """

    html: str
    policy: str


def explore_page() -> ExplorePage:
    """Render the page, which is the same for every home."""
    policy = policy_of(_SCRIPTS, asks_server=True)
    html = render(
        "explore.html.j2",
        styles=["changes.css", "explore.css"],
        scripts=_SCRIPTS,
        policy=policy,
        title="What changed: kgedit explore",
        brand="kgedit explore",
        sections=[
            ("window", "Two dates"),
            ("find", "Find an item"),
            ("changes", "What changed"),
            ("timesteps", "Timesteps"),
        ],
    )
    return ExplorePage(html, policy + "; frame-ancestors 'none'")


_HEADERS = {
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


def new_token() -> str:
    """Generate a secret of 192 bits for the address."""
    return secrets.token_urlsafe(24)


class Guard:
    """Accepts requests that name an allowed host and whose path begins with the token; sets headers on every response.

    Args:
        app: Application to protect.
        hosts: Allowed values of the Host header, with port.
        token: First part of every path.
        policy: Content security policy.
    """

    def __init__(self, app: ASGIApp, *, hosts: Sequence[str], token: str, policy: str) -> None:
        self._app, self._hosts, self._token = app, frozenset(hosts), token.encode()
        self._headers = _HEADERS | {"content-security-policy": policy}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        refused = self._refusal(scope)
        await (refused or self._app)(scope, receive, with_headers(send, self._headers))

    def _refusal(self, scope: Scope) -> PlainTextResponse | None:
        if Headers(scope=scope).get("host") not in self._hosts:
            return PlainTextResponse("This is not the host of kgedit explore.\n", 421)
        # A path need not begin with a slash: OPTIONS * concerns the whole server.
        given = scope["path"].removeprefix("/").partition("/")[0].encode()
        if not scope["path"].startswith("/") or not secrets.compare_digest(given, self._token):
            return PlainTextResponse("Open the address that kgedit explore printed: it has a token.\n", 403)
        return None


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
        kinds = self._kinds.state(older, newer)  # before the rows: if it is done, they have their kinds
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
            "kinds": kinds,
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
            chosen = _or(asked, "filters", {})
            if not isinstance(chosen, dict) or not all(_are_texts(values) for values in chosen.values()):
                raise KgeditError('"filters" must be lists of texts by facet.')
            selection = self._windows.pairs(older, newer, _filters(_text(asked, "q"), chosen))
        else:
            selection = _selection(pairs)
        name, profile = (_text(asked, key) for key in ("name", "profile"))
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
        text = str(_or(given, name, ""))
        if len(text) != 8 or not text.isascii() or not text.isdigit():
            raise KgeditError(f"'{name}' must be the day of a snapshot as YYYYMMDD, not '{text[:40]}'.")
        found.append(int(text))
    return found[0], found[1]


def _text(given: Mapping[str, Any], name: str) -> str:
    text = _or(given, name, "")
    if not isinstance(text, str):
        raise KgeditError(f"'{name}' must be a text.")
    return text


def _or(given: Mapping[str, Any], name: str, default: Any) -> Any:
    """A field's value; the default if it is missing or null."""
    value = given.get(name)
    return default if value is None else value


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
