"""Accepts only requests that name this server as their host and do not come from another site's page.

Any web page can send requests to a server on this machine. If the owner of a domain points it at 127.0.0.1 (DNS
rebinding), the browser also gives the responses to the page, but it still sends the domain as the Host. A POST from
another site names that site as its Origin. Programs other than browsers send no Origin.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kgedit.untrusted import ip_address_of, is_loopback_name

SAFE_HEADERS = {
    # A response shown by a browser must not run as a page of this server, whatever the model wrote.
    "content-security-policy": "default-src 'none'; form-action 'none'; frame-ancestors 'none'; sandbox",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


class HostNames:
    """Names under which a server may be reached.

    IP addresses are always accepted as a Host, because only names can be rebound. Loopback names are accepted too.

    Args:
        names: Further host names, without port.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = frozenset(_bare(name) for name in names)

    def is_ours(self, host: str) -> bool:
        """Whether a Host header names this server."""
        name = host_name(host)
        return name is not None and (ip_address_of(name) is not None or self._is_named(name))

    def is_own_origin(self, origin: str) -> bool:
        """Whether a page of this origin may send requests: one on this machine or under a configured name."""
        try:
            parts = urlsplit(origin)
            name = parts.hostname
        except ValueError:
            return False
        return parts.scheme in ("http", "https") and name is not None and self._is_named(name)

    def _is_named(self, name: str) -> bool:
        return is_loopback_name(name) or _bare(name) in self._names


class OnlyOurPages:
    """Refuses requests under another host name and from other sites' pages; adds headers to every answer.

    Args:
        app: Application to protect.
        hosts: Accepted host names.
    """

    def __init__(self, app: ASGIApp, *, hosts: HostNames) -> None:
        self._app, self._hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refused = self._refusal(Headers(scope=scope))
        await (refused or self._app)(scope, receive, with_headers(send, SAFE_HEADERS))

    def _refusal(self, headers: Headers) -> Response | None:
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) != 1 or not self._hosts.is_ours(hosts[0]):
            return _refused(
                421,
                f"This server is not known as {_shown(hosts)}. If that is its name, start it with --allowed-host NAME.",
            )
        if not all(self._hosts.is_own_origin(origin) for origin in origins):
            return _refused(
                403,
                f"Pages of {_shown(origins)} may not ask this server. If they should, start it with --allowed-host "
                "NAME.",
            )
        return None


def with_headers(send: Send, added: Mapping[str, str]) -> Send:
    """Wrap `send` to set headers on every response."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in added.items():
                headers[name] = value
        await send(message)

    return send_with_headers


def host_name(host: str) -> str | None:
    """Name in a Host header, without the port; None if the header is not a host.

    >>> [host_name(host) for host in ("localhost:8090", "[::1]:80", "a@b", "")]
    ['localhost', '::1', None, None]
    """
    if not host.isascii() or any(mark in host for mark in "@/?#\\ "):
        return None
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port  # raises where it is no number
    except ValueError:
        return None
    return parts.hostname or None


def _bare(name: str) -> str:
    return name.strip().lower().rstrip(".").removeprefix("[").removesuffix("]")


def _shown(values: list[str]) -> str:
    return ", ".join(repr(value[:80]) for value in values) or "nothing (the header Host is missing)"


def _refused(status: int, message: str) -> JSONResponse:
    return JSONResponse({"error": {"message": message, "type": "kgedit_proxy", "code": status}}, status)
