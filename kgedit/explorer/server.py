"""The server of `kgedit explore`: serves one page and its data to this machine only, until it is stopped."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Mount

from kgedit.errors import KgeditError
from kgedit.explorer.explorer import Explorer
from kgedit.explorer.exports import Exports, ExportTimestep
from kgedit.explorer.guard import Guard, new_token
from kgedit.explorer.page import explore_page
from kgedit.explorer.routes import Routes
from kgedit.proxy.http import TimedProtocol

HOST = "127.0.0.1"
_SECONDS_TO_STOP = 5
_MOST_CLIENTS = 100


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
