"""Address of Neo4j Browser for the graph of a home: on the managed server's port, or that of an outside server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from kgedit.errors import GraphError
from kgedit.graph.address import Address
from kgedit.graph.connection import Graph, external_address
from kgedit.graph.managed.server import ManagedServer

_HTTP = """\
SHOW SETTINGS 'server.http.enabled', 'server.http.advertised_address' YIELD name, value
RETURN name, value
"""


def browser_of_home(home: Path) -> Callable[[], str | None]:
    """Return a function that returns Browser's current address, without starting a server.

    The managed server's address is read at each call, because it may be started later, on another port. An outside
    server is queried once, here.

    Args:
        home: Home folder.

    Returns:
        The function returns None while no server was started in the home, or if the outside server has no page.
    """
    outside = external_address()
    if outside is not None:
        page = with_browser(outside).browser_page()
        return lambda: page
    return lambda: _managed(home)


def with_browser(address: Address) -> Address:
    """Add the address of Browser's page to an address, if its server has one.

    Neo4j reports its HTTP port; a server that does not answer, or is not Neo4j, has no page.

    Args:
        address: Unchanged if it already has a page: KGEDIT_GRAPH_BROWSER comes first, because ports may be mapped.
    """
    if address.browser_url is not None:
        return address
    try:
        with Graph(address) as graph:
            settings = {row["name"]: str(row["value"]) for row in graph.rows(_HTTP, timeout=5)}
    except GraphError:
        return address
    port = settings.get("server.http.advertised_address", "").rpartition(":")[2]
    if settings.get("server.http.enabled") != "true" or not port.isdigit():
        return address
    host = urlsplit(address.uri).hostname or "localhost"
    return replace(address, browser_url=f"http://{f'[{host}]' if ':' in host else host}:{port}/browser/")


def _managed(home: Path) -> str | None:
    try:
        return ManagedServer(home).address().browser_page()
    except GraphError:
        return None
