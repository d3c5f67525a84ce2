"""The server of `kgedit explore`: serves one page and its data to this machine only, until it is stopped.

Any web page can send requests to 127.0.0.1, and a domain that its owner points there makes them look like its own (DNS
rebinding). Therefore every request must name this host and have the secret in its path, which other pages cannot know.
The page contains no data and requests all of it.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Mount
from starlette.types import ASGIApp, Receive, Scope, Send

from kgedit.errors import KgeditError
from kgedit.graph_memory.proxy.http import TimedProtocol, with_headers
from kgedit.pages.explorer.explorer import Explorer
from kgedit.pages.explorer.exports import Exports, ExportTimestep
from kgedit.pages.explorer.routes import Routes
from kgedit.pages.shell import policy_of, render

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
