"""The proxy: requests to an OpenAI-compatible server, with facts ahead of what is asked; answers as they come.

Requests that it does not understand are passed on unchanged, and answers, errors included, are passed back, so that
clients see the upstream's own API. Headers and texts are never logged.
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import anyio
import httpx2
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from kgedit.memory.reading import reading_order
from kgedit.serving.memories import ServedMemory
from kgedit.serving.metrics import CONTENT_TYPE, Metrics
from kgedit.serving.placing import Placing, asked_in, with_facts

LOG = logging.getLogger("kgedit.serving")
ASKING = ("/v1/chat/completions", "/v1/completions")
"""Paths whose requests get facts."""

_HOP_BY_HOP = frozenset(
    (
        *("connection", "content-length", "host", "keep-alive", "proxy-authenticate", "proxy-authorization"),
        *("proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"),
    )
)
"""Headers of one connection (RFC 9110, 7.6.1), with those that are written anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxySettings:
    """How requests are passed on.

    Attributes:
        upstream: Address of the server, with or without /v1 at its end.
        placing: How facts are written.
        connect_seconds: Until the upstream must have taken a connection.
        read_seconds: Longest silence of the upstream; None waits for as long as the client does.
        most_bytes: Of a request.
        watch_seconds: How often the file of the memory is looked at.
    """

    upstream: str
    placing: Placing = field(default_factory=Placing)
    connect_seconds: float = 10.0
    read_seconds: float | None = None
    most_bytes: int = 32 * 1024 * 1024
    watch_seconds: float = 1.0


class Proxy:
    """Answers the routes of `proxy_app`.

    Args:
        memory: Facts.
        settings: How requests are passed on.
        metrics: Told what happens.
    """

    def __init__(self, memory: ServedMemory, settings: ProxySettings, metrics: Metrics) -> None:
        self._memory, self._settings, self._metrics = memory, settings, metrics
        self._upstream = settings.upstream.rstrip("/").removesuffix("/v1")
        self._in_flight = 0
        # Neither proxies nor passwords of the environment: only what the client sends goes to the upstream.
        self._client = httpx2.AsyncClient(
            timeout=httpx2.Timeout(settings.read_seconds, connect=settings.connect_seconds, pool=None),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=64),
            trust_env=False,
            follow_redirects=False,
        )

    @asynccontextmanager
    async def lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        """Make ready, watch the memory's file while the server runs, and close what is open."""
        await self._memory.warm()
        loop = asyncio.get_running_loop()
        tasks: set[asyncio.Task[Any]] = {loop.create_task(self._memory.watch(self._settings.watch_seconds))}

        def hang_up() -> None:
            task = loop.create_task(self._memory.reload())
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        # Not on Windows, and not in a thread, as tests run it: there the watched file is enough.
        with suppress(AttributeError, NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(signal.SIGHUP, hang_up)
        try:
            yield
        finally:
            for task in list(tasks):
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._client.aclose()
            self._memory.close()

    async def answer(self, request: Request) -> Response:
        """Pass one request on, with facts if it asks something."""
        path = request.url.path
        body = await self._body(request)
        if body is None:
            return self._refused(path, 413, f"The request is longer than {self._settings.most_bytes:,} bytes.")
        told = 0
        if path in ASKING and request.method == "POST":
            body, told = await self._with_facts(request, body)
        headers = _passed(request.headers.items())
        upstream = self._client.build_request(
            request.method, f"{self._upstream}{path}", params=request.url.query or None, headers=headers, content=body
        )
        for name in ("user-agent", "accept", "accept-encoding"):
            if name not in request.headers:  # the client's own words, not those of the library
                upstream.headers.pop(name, None)
        try:
            response = await self._client.send(upstream, stream=True)
        except httpx2.TimeoutException as error:
            return self._failed(path, 504, error)
        except httpx2.HTTPError as error:
            return self._failed(path, 502, error)
        self._metrics.facts.add(told)
        if told:
            self._metrics.with_facts.add()
        return _Relayed(response, self, path, told)

    async def health(self, _request: Request) -> Response:
        """That the proxy runs, and with which memory. Whether the upstream does is asked at /v1/models."""
        loaded = self._memory.loaded
        return JSONResponse(
            {
                "status": "ok",
                "upstream": self._upstream,
                "memory": {
                    "file": str(self._memory.path),
                    "sha256": loaded.sha256,
                    "facts": len(loaded.memory),
                    "sources": loaded.manifest.get("sources", []),
                    "loaded": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(loaded.at)),
                    "reload_failures": int(self._metrics.reload_failures.total()),
                },
            }
        )

    async def metrics(self, _request: Request) -> Response:
        """Counts for Prometheus."""
        gauges = {
            "in_flight": ("Requests that are being answered.", float(self._in_flight)),
            "memory_facts": ("Facts of the memory, ended ones included.", float(len(self._memory.loaded.memory))),
            "memory_loaded_seconds": ("When the memory was loaded, seconds since 1970.", self._memory.loaded.at),
        }
        return PlainTextResponse(self._metrics.text(gauges), headers={"content-type": CONTENT_TYPE})

    def begun(self) -> None:
        """An answer is on its way."""
        self._in_flight += 1

    def ended(self, path: str, status: int) -> None:
        """An answer is over; its status is 0 if the client went away, 599 if the upstream broke off."""
        self._in_flight -= 1
        self._metrics.requests.add(path=_path_label(path), status=str(status))

    def broke_off(self, path: str, error: Exception) -> None:
        """The upstream ended in the middle of an answer."""
        self._metrics.upstream_errors.add(kind=type(error).__name__)
        LOG.warning("%s: the upstream broke off (%s)", path, type(error).__name__)

    async def _body(self, request: Request) -> bytes | None:
        """The request's body; None if it is too long."""
        parts, length = [], 0
        async for part in request.stream():
            length += len(part)
            if length > self._settings.most_bytes:
                return None
            parts.append(part)
        return b"".join(parts)

    async def _with_facts(self, request: Request, content: bytes) -> tuple[bytes, int]:
        """A body with facts, and how many; as it was where there is nothing to tell or it cannot be read."""
        path = request.url.path
        try:
            body = json.loads(content)
        except (ValueError, RecursionError):
            return content, 0
        if not isinstance(body, dict) or not (question := asked_in(path, body)):
            return content, 0
        try:
            facts = reading_order((await self._memory.find(question)).paths)
        except Exception as error:  # a question is answered without facts rather than not at all
            self._metrics.retrieval_errors.add()
            LOG.error("%s: no facts were sought (%s: %s)", path, type(error).__name__, error)
            return content, 0
        text = self._settings.placing.text(facts)
        if not text:
            return content, 0
        return json.dumps(with_facts(path, body, text)).encode(), len(facts)

    def _failed(self, path: str, status: int, error: Exception) -> Response:
        kind = type(error).__name__
        self._metrics.upstream_errors.add(kind=kind)
        LOG.warning("%s: the upstream did not answer (%s)", path, kind)
        return self._refused(path, status, f"The model's server at {self._upstream} did not answer ({kind}).")

    def _refused(self, path: str, status: int, message: str) -> Response:
        self._metrics.requests.add(path=_path_label(path), status=str(status))
        return JSONResponse({"error": {"message": message, "type": "kgedit_proxy", "code": status}}, status)


class _Relayed(StreamingResponse):
    """An upstream's answer, passed back in the pieces in which it comes."""

    def __init__(self, upstream: httpx2.Response, proxy: Proxy, path: str, told: int) -> None:
        super().__init__(upstream.aiter_raw(), upstream.status_code)
        self._upstream, self._proxy, self._path = upstream, proxy, path
        kept = _passed(upstream.headers.multi_items())
        if "content-length" in upstream.headers:
            kept.append(("content-length", upstream.headers["content-length"]))
        kept.append(("x-kgedit-facts", str(told)))
        self.raw_headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in kept]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        status = 0
        self._proxy.begun()
        try:
            await super().__call__(scope, receive, send)
            status = self.status_code
        except httpx2.HTTPError as error:
            status = 599
            self._proxy.broke_off(self._path, error)
            raise BrokenAnswerError(str(error)) from None
        except ClientDisconnect:
            pass
        finally:
            with anyio.CancelScope(shield=True):
                await self._upstream.aclose()
            self._proxy.ended(self._path, status)


class BrokenAnswerError(Exception):
    """The upstream broke off: raised so that the server closes the client's connection without a proper end."""


def proxy_app(memory: ServedMemory, settings: ProxySettings, metrics: Metrics) -> Starlette:
    """The application with its routes."""
    proxy = Proxy(memory, settings, metrics)
    return Starlette(
        routes=[
            *(Route(path, proxy.answer, methods=["POST"]) for path in ASKING),
            Route("/v1/models", proxy.answer, methods=["GET"]),
            Route("/v1/models/{model}", proxy.answer, methods=["GET"]),
            Route("/v1/embeddings", proxy.answer, methods=["POST"]),
            Route("/health", proxy.health, methods=["GET"]),
            Route("/metrics", proxy.metrics, methods=["GET"]),
        ],
        lifespan=proxy.lifespan,
    )


def _passed(headers: Any) -> list[tuple[str, str]]:
    """Headers less those of one connection."""
    listed = list(headers)
    named = {
        part.strip().lower() for name, value in listed if name.lower() == "connection" for part in value.split(",")
    }
    return [(name, value) for name, value in listed if name.lower() not in _HOP_BY_HOP | named]


def _path_label(path: str) -> str:
    """A path without what clients may choose at will."""
    return "/v1/models/…" if path.startswith("/v1/models/") else path
