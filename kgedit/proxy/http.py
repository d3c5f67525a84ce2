"""HTTP as our servers speak it: requests that never end are given up, and long ones get an answer before that.

uvicorn times the pause between two requests of a connection, but neither half a request's head nor a body that stops.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import h11
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 20.0
"""In which a request's head must arrive, from the first byte of a connection or of the head on."""

BODY_SECONDS = 60.0
"""Longest silence within a request's body."""

_SECONDS_TO_DRAIN = 30.0


class TimedProtocol(H11Protocol):
    """uvicorn's HTTP/1.1, with a limit on the time in which a head arrives."""

    head_seconds = HEAD_SECONDS
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Time the first head from the connection on."""
        super().connection_made(transport)
        self._start_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        self._stop_head_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Time a head from its first byte on; more bytes of the same head do not extend the time."""
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop_head_timer()
        elif self.conn.trailing_data[0] and self._head_timer is None:
            self._start_head_timer()

    def on_response_complete(self) -> None:
        """A next head that has begun already is timed from now on."""
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
        status: To answer with, 413 or 408.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


async def read_body(request: Request, *, most_bytes: int, seconds: float = BODY_SECONDS) -> bytes:
    """A request's body.

    Args:
        request: The request.
        most_bytes: Longest body.
        seconds: Longest silence.

    Raises:
        UnreadableBodyError: if it is longer, or nothing arrives for that time.
        ClientDisconnect: if the client leaves before its end.
    """
    too_long = UnreadableBodyError(413, f"The request is longer than {most_bytes:,} bytes.")
    announced = request.headers.get("content-length", "0")
    # h11 has refused whatever is not a number.
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
    """An answer to a request whose body is not read: it is sent at once, and the connection ends after it.

    Unread bytes would make the system reset the connection, and the client would not see the answer. So the
    rest of the body is read and dropped, for a while.
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
    """Whether the client sends no body before it was asked to (Expect: 100-continue)."""
    return any(name == b"expect" for name, _ in scope["headers"])
