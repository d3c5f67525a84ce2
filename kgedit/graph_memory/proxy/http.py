"""Limits of HTTP requests: timeouts, sizes, and only requests that name this server and come from no other page.

uvicorn limits the pause between two requests of a connection, but not the time of an incomplete head or body.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import h11
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from kgedit.untrusted import ip_address_of, is_loopback_name

# Any web page can send requests to a server on this machine. If the owner of a domain points it at 127.0.0.1 (DNS
# rebinding), the browser also gives the responses to the page, but it still sends the domain as the Host. A POST from
# another site names that site as its Origin. Programs other than browsers send no Origin. Preflights are refused and no
# headers of CORS are added: pages of other origins, such as another port of this machine, cannot send JSON.


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
                f"Pages of {_shown(origins)} may not ask this server. If it is served under that name too, start it "
                "with --allowed-host NAME.",
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


HEAD_SECONDS = 20.0
"""Time in which a request's head must arrive, from the start of the connection or the first byte of the head."""

BODY_SECONDS = 60.0
"""Longest silence within a request's body."""

_SECONDS_TO_DRAIN = 30.0


class TimedProtocol(H11Protocol):
    """uvicorn's HTTP/1.1 protocol with a time limit for the head of a request."""

    head_seconds = HEAD_SECONDS
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timer for the first head."""
        super().connection_made(transport)
        self._start_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        self._stop_head_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Start the timer at the first byte of a head; further bytes of the same head do not extend it."""
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop_head_timer()
        elif self.conn.trailing_data[0] and self._head_timer is None:
            self._start_head_timer()

    def on_response_complete(self) -> None:
        """Start the timer for a pipelined head that has begun."""
        super().on_response_complete()
        if self.conn.their_state is h11.IDLE and self.conn.trailing_data[0] and self._head_timer is None:
            self._start_head_timer()

    def _start_head_timer(self) -> None:
        self._head_timer = self.loop.call_later(self.head_seconds, self._give_up)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _give_up(self) -> None:
        self._head_timer = None
        if not self.transport.is_closing():
            self.transport.close()


class UnreadableBodyError(Exception):
    """A body that is too long or does not arrive.

    Attributes:
        status: HTTP status of the response, 413 or 408.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


async def read_body(request: Request, *, most_bytes: int, seconds: float = BODY_SECONDS) -> bytes:
    """Read the body of a request.

    Args:
        request: The request.
        most_bytes: Maximum size of the body.
        seconds: Longest silence.

    Raises:
        UnreadableBodyError: if it is longer, or nothing arrives for that time.
        ClientDisconnect: if the client leaves before its end.
    """
    too_long = UnreadableBodyError(413, f"The request is longer than {most_bytes:,} bytes.")
    announced = request.headers.get("content-length", "0")
    # h11 has rejected values that are not numbers.
    if int(announced) > most_bytes:
        raise too_long
    parts: list[bytes] = []
    length, stream = 0, request.stream()
    while True:
        try:
            async with asyncio.timeout(seconds):
                part = await anext(stream)
        except StopAsyncIteration:
            return b"".join(parts)
        except TimeoutError as error:
            raise UnreadableBodyError(408, f"The request's body did not arrive within {seconds:g} s.") from error
        length += len(part)
        if length > most_bytes:
            raise too_long
        parts.append(part)


class ClosingResponse(JSONResponse):
    """Response to a request whose body is not read: it is sent at once, and the connection is closed after it.

    Unread bytes would make the system reset the connection before the client sees the response. Therefore the rest of
    the body is read and discarded for up to `_SECONDS_TO_DRAIN`.
    """

    def __init__(self, content: Any, status: int) -> None:
        super().__init__(content, status, headers={"connection": "close"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": True})
        if not _waits_to_be_asked(scope):
            with suppress(TimeoutError):
                async with asyncio.timeout(_SECONDS_TO_DRAIN):
                    await _drain(receive)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _drain(receive: Receive) -> None:
    while True:
        message: Message = await receive()
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            return


def _waits_to_be_asked(scope: Scope) -> bool:
    """Whether the client waits for permission to send its body (Expect: 100-continue)."""
    return any(name == b"expect" for name, _ in scope["headers"])
