"""A fake model server controlled by its tests, and kgedit's servers run in threads, all on free ports."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from world.patience import SECONDS, wait_until


@dataclass
class MadeUpModel:
    """Requests received, and behaviour to show.

    Attributes:
        bodies: Bodies of the requests, in order.
        headers: Headers of the requests, in order.
        go_on: Event for which the second piece of a stream waits.
        seconds: Delay before an answer.
    """

    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    go_on: threading.Event = field(default_factory=threading.Event)
    seconds: float = 0.0

    async def answer(self, request: Request) -> Response:
        """The model "echo" answers, "refuses" returns 429, "breaks" ends midway; `stream` sends two pieces."""
        body = json.loads(await request.body())
        self.bodies.append(body)
        self.headers.append(dict(request.headers))
        await asyncio.sleep(self.seconds)
        if body["model"] == "refuses":
            return JSONResponse({"error": {"message": "slow down"}}, 429, headers={"retry-after": "7"})
        if body["model"] == "breaks":
            return StreamingResponse(self._breaking(), media_type="text/event-stream")
        if body.get("stream"):
            return StreamingResponse(self._pieces(), media_type="text/event-stream")
        return JSONResponse({"choices": [{"message": {"role": "assistant", "content": "Jonas"}}]})

    async def models(self, _request: Request) -> Response:
        """List one model."""
        return JSONResponse({"data": [{"id": "echo"}]})

    def app(self) -> Starlette:
        """Routes of the application."""
        paths = ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/api/chat", "/api/generate")
        asking = [Route(path, self.answer, methods=["POST"]) for path in paths]
        return Starlette(routes=[*asking, Route("/v1/models", self.models), Route("/api/tags", self.models)])

    async def _pieces(self) -> AsyncIterator[bytes]:
        yield b"data: one\n\n"
        while not self.go_on.is_set():
            await asyncio.sleep(0.005)
        yield b"data: [DONE]\n\n"

    async def _breaking(self) -> AsyncIterator[bytes]:
        yield b"data: one\n\n"
        raise ConnectionResetError("on purpose")


@contextmanager
def running(server: uvicorn.Server) -> Iterator[str]:
    """Run a server in a separate thread; yields its address, and stops it like a signal."""
    server.config.log_config = None
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_until(lambda: server.started or not thread.is_alive())
        assert server.started, "the server ended"
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(SECONDS)
        assert not thread.is_alive(), "the server did not stop"


def model_server(model: MadeUpModel, port: int = 0) -> uvicorn.Server:
    """Run a server with a fake model."""
    return uvicorn.Server(uvicorn.Config(model.app(), port=port, log_level="critical", timeout_graceful_shutdown=1))


def free_port() -> int:
    """A port without a listener."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
