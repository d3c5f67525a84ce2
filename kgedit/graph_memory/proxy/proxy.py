"""Forwards requests to an OpenAI-compatible server with facts prepended to the question, and streams the responses.

Requests that it does not understand are forwarded unchanged, and responses, including errors, are returned unchanged,
so that clients see the upstream's API. Headers and texts are never logged. If the server is stopped, it first completes
requests in progress.
"""

from __future__ import annotations

import asyncio
import copy
import json
import logging
import signal
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import httpx2
import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send
from uvicorn.config import LOGGING_CONFIG

from kgedit.errors import KgeditError
from kgedit.graph_memory.gate import read_gate
from kgedit.graph_memory.matching import read_matcher
from kgedit.graph_memory.proxy.bodies import (
    ASKING,
    EXPLAIN_HEADER,
    Placing,
    explained_body,
    explained_stream,
    fact_headers,
    readings_in,
    with_facts,
)
from kgedit.graph_memory.proxy.http import (
    ClosingResponse,
    HostNames,
    OnlyOurPages,
    TimedProtocol,
    UnreadableBodyError,
    read_body,
)
from kgedit.graph_memory.proxy.memories import CONTENT_TYPE, Metrics, ServedMemory
from kgedit.graph_memory.retrieval import Remembered, Search, reading_order
from kgedit.llm.embeddings import embedder_on_demand
from kgedit.untrusted import is_web_address, split_credentials

LOG = logging.getLogger("kgedit.graph_memory.proxy")
PASSED_ON = {
    # OpenAI's, vLLM's and llama.cpp's
    **dict.fromkeys(
        ("/v1/embeddings", "/v1/rerank", "/v1/score", "/v1/moderations", "/tokenize", "/detokenize"), "POST"
    ),
    **dict.fromkeys(("/rerank", "/score", "/pooling", "/classify"), "POST"),
    **dict.fromkeys(("/v1/models", "/version", "/ping", "/props"), "GET"),
    # Ollama's
    **dict.fromkeys(("/api/embed", "/api/embeddings", "/api/show"), "POST"),
    **dict.fromkeys(("/api/tags", "/api/ps", "/api/version"), "GET"),
}
"""Other paths, by method. Those that change the server's models are not passed on."""

_HOP_BY_HOP = frozenset(
    (
        *(b"connection", b"content-length", b"host", b"keep-alive", b"proxy-authenticate", b"proxy-authorization"),
        *(b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade"),
    )
)
"""Headers of a single connection (RFC 9110, 7.6.1), and headers that are set again for the next one."""

Headers = list[tuple[bytes, bytes]]
"""Names and values as sent: a value may contain bytes that are neither ASCII nor UTF-8."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxySettings:
    """Settings of a proxy.

    Attributes:
        upstream: Address of the model's server, with or without a final /v1. A user and password in it are sent as
            Basic authorization instead of the client's, and are never shown.
        placing: Format of facts in requests.
        connect_seconds: Timeout for connecting to the upstream.
        read_seconds: Longest silence of the upstream; None waits as long as the client does.
        most_bytes: Maximum size of a request.
        hosts: Host names of the proxy, besides loopback names and IP addresses.
        watch_seconds: Interval between checks of the memory file.
        explain: Whether every response contains the facts that were added; a request can ask for it by a header.
    """

    upstream: str = field(repr=False)
    placing: Placing = field(default_factory=Placing)
    connect_seconds: float = 10.0
    read_seconds: float | None = None
    most_bytes: int = 32 * 1024 * 1024
    watch_seconds: float = 1.0
    hosts: tuple[str, ...] = ()
    explain: bool = False


class Proxy:
    """Answers the routes of `proxy_app`.

    Args:
        memory: Memory to search.
        settings: Settings of the proxy.
        metrics: Counters to update.

    Raises:
        KgeditError: if the upstream is not a valid address.
    """

    def __init__(self, memory: ServedMemory, settings: ProxySettings, metrics: Metrics) -> None:
        self._memory, self._settings, self._metrics = memory, settings, metrics
        self._upstream, credentials = _read_upstream(settings.upstream)
        self._address = httpx2.URL(self._upstream)
        self._in_flight = 0
        # Ignores proxies and passwords of the environment: the upstream receives only what the client sends.
        self._client = httpx2.AsyncClient(
            timeout=httpx2.Timeout(settings.read_seconds, connect=settings.connect_seconds, pool=None),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=64),
            trust_env=False,
            follow_redirects=False,
            auth=None if credentials is None else httpx2.BasicAuth(*credentials),
        )

    @asynccontextmanager
    async def lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        """Warm up the memory, watch its file while the server runs, and close all resources."""
        await self._memory.warm()
        loop = asyncio.get_running_loop()
        tasks: set[asyncio.Task[Any]] = {loop.create_task(self._memory.watch(self._settings.watch_seconds))}

        def hang_up() -> None:
            task = loop.create_task(self._memory.reload())
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        # Signals are not available on Windows or in a thread; there, watching the file is enough.
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
        """Forward one request, with facts if it contains a question."""
        path = request.scope["path"]
        try:
            body = await read_body(request, most_bytes=self._settings.most_bytes)
        except UnreadableBodyError as error:
            return self._refused(path, error.status, str(error), closing=True)
        if any(part in (".", "..") for part in path.split("/")):
            return self._refused(path, 404, "A path with '.' or '..' is not passed on.")
        added: Sequence[Remembered] = ()
        if path in ASKING and request.method == "POST":
            body, added = await self._with_facts(path, body)
        try:
            response = await self._client.send(self._passed_on(request, body), stream=True)
            answered = await self._explained(response, path, added) if self._explains(request, added) else None
        except httpx2.TimeoutException as error:
            return self._failed(path, 504, error)
        except httpx2.HTTPError as error:
            return self._failed(path, 502, error)
        self._metrics.facts.add(len(added))
        if added:
            self._metrics.with_facts.add()
        return answered or _Relayed(response, self, path, added)

    def _explains(self, request: Request, added: Sequence[Remembered]) -> bool:
        return bool(added) and (self._settings.explain or _is_set(request.headers.get(EXPLAIN_HEADER, "")))

    async def _explained(self, response: httpx2.Response, path: str, added: Sequence[Remembered]) -> Response:
        """The response with the facts in it; unchanged if it is neither JSON nor a stream of events."""
        kind = response.headers.get("content-type", "")
        if kind.startswith("text/event-stream") and "content-encoding" not in response.headers:
            return _Relayed(response, self, path, added, explained_stream(response.aiter_raw(), added))
        if not kind.startswith("application/json"):
            return _Relayed(response, self, path, added)
        content = await explained_body(response, added)
        return _Relayed(response, self, path, added, _once(response.content if content is None else content))

    async def health(self, _request: Request) -> Response:
        """Report that the proxy runs, and its memory. Use /v1/models to check the upstream."""
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
        """Metrics for Prometheus."""
        gauges = {
            "in_flight": ("Requests that are being answered.", float(self._in_flight)),
            "memory_facts": ("Facts of the memory, ended ones included.", float(len(self._memory.loaded.memory))),
            "memory_loaded_seconds": ("When the memory was loaded, seconds since 1970.", self._memory.loaded.at),
        }
        return PlainTextResponse(self._metrics.text(gauges), headers={"content-type": CONTENT_TYPE})

    def begun(self) -> None:
        """Count a response that begins."""
        self._in_flight += 1

    def ended(self, path: str, status: int) -> None:
        """Count a response that ends, with status 0 if the client disconnected and 599 if the upstream did."""
        self._in_flight -= 1
        self._metrics.requests.add(path=_path_label(path), status=str(status))

    def broke_off(self, path: str, error: Exception) -> None:
        """Count and log an upstream that disconnected during a response."""
        self._metrics.upstream_errors.add(kind=type(error).__name__)
        LOG.warning("%s: the upstream broke off (%s)", path, type(error).__name__)

    def _passed_on(self, request: Request, body: bytes) -> httpx2.Request:
        """Request to the upstream for a client's request."""
        target = request.scope.get("raw_path") or request.scope["path"].encode()
        if query := request.scope["query_string"]:
            target += b"?" + query
        address = self._address.copy_with(raw_path=self._address.raw_path.rstrip(b"/") + target)
        passed = self._client.build_request(request.method, address, headers=_passed(request.headers.raw), content=body)
        for name in ("user-agent", "accept", "accept-encoding"):
            if name not in request.headers:  # the library would add its own
                passed.headers.pop(name, None)
        return passed

    async def _with_facts(self, path: str, content: bytes) -> tuple[bytes, Sequence[Remembered]]:
        """Body with facts added, and the facts; unchanged if none is found or the body is not JSON."""
        try:
            body = json.loads(content)
        except (ValueError, RecursionError):
            return content, ()
        if not isinstance(body, dict):
            return content, ()
        try:
            for turns in readings_in(path, body):
                facts = reading_order((await self._memory.find(turns)).paths)
                placed = self._settings.placing.place(facts, as_of=self._memory.loaded.as_of)
                if placed.facts:
                    return json.dumps(with_facts(path, body, placed.text)).encode(), placed.facts
            return content, ()
        except Exception as error:  # an answer without facts is better than none
            self._metrics.retrieval_errors.add()
            LOG.error("%s: no facts were sought (%s: %s)", path, type(error).__name__, error)
            return content, ()

    def _failed(self, path: str, status: int, error: Exception) -> Response:
        kind = type(error).__name__
        self._metrics.upstream_errors.add(kind=kind)
        LOG.warning("%s: the upstream did not answer (%s)", path, kind)
        return self._refused(path, status, f"The model's server at {self._upstream} did not answer ({kind}).")

    def _refused(self, path: str, status: int, message: str, *, closing: bool = False) -> Response:
        self._metrics.requests.add(path=_path_label(path), status=str(status))
        kind = ClosingResponse if closing else JSONResponse
        return kind({"error": {"message": message, "type": "kgedit_proxy", "code": status}}, status)


class _Relayed(StreamingResponse):
    """Response of the upstream, streamed to the client: unchanged, or with another body."""

    def __init__(
        self,
        upstream: httpx2.Response,
        proxy: Proxy,
        path: str,
        added: Sequence[Remembered],
        body: AsyncIterator[bytes] | None = None,
    ) -> None:
        super().__init__(upstream.aiter_raw() if body is None else body, upstream.status_code)
        self._upstream, self._proxy, self._path = upstream, proxy, path
        kept = _passed(upstream.headers.raw)
        if body is None:
            kept += [(name, value) for name, value in upstream.headers.raw if name.lower() == b"content-length"][:1]
        else:  # it is decoded and of another length
            kept = [(name, value) for name, value in kept if name.lower() != b"content-encoding"]
        kept += fact_headers(added)
        self.raw_headers = [(name.lower(), value) for name, value in kept]

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
    """The upstream disconnected. Raised so that the server closes the client's connection without completing it."""


def proxy_app(memory: ServedMemory, settings: ProxySettings, metrics: Metrics) -> Starlette:
    """Create the application with its routes."""
    proxy = Proxy(memory, settings, metrics)
    return Starlette(
        routes=[
            *(Route(path, proxy.answer, methods=["POST"]) for path in ASKING),
            *(Route(path, proxy.answer, methods=[method]) for path, method in PASSED_ON.items()),
            # A model's name may hold a slash: "org/name".
            Route("/v1/models/{model:path}", proxy.answer, methods=["GET"]),
            Route("/health", proxy.health, methods=["GET"]),
            Route("/metrics", proxy.metrics, methods=["GET"]),
        ],
        middleware=[Middleware(OnlyOurPages, hosts=HostNames(settings.hosts))],
        lifespan=proxy.lifespan,
    )


async def _once(content: bytes) -> AsyncIterator[bytes]:
    yield content


def _is_set(value: str) -> bool:
    return value.strip().lower() in ("1", "true", "yes", "on")


def _passed(headers: Headers) -> Headers:
    """Headers without those of a single connection."""
    named = {
        part.strip().lower() for name, value in headers if name.lower() == b"connection" for part in value.split(b",")
    }
    return [(name, value) for name, value in headers if name.lower() not in _HOP_BY_HOP | named]


def _read_upstream(given: str) -> tuple[str, tuple[str, str] | None]:
    """Address of the upstream without /v1, and the user and password in it or None."""
    address, credentials = split_credentials(given)
    if not is_web_address(address) or "?" in address or "#" in address:
        raise KgeditError(f"'{address}' is not an address of a server. Give one like http://127.0.0.1:8000/v1")
    try:
        httpx2.URL(address)
    except httpx2.InvalidURL as error:
        raise KgeditError(f"'{address}' is not an address of a server: {error}") from error
    return address.rstrip("/").removesuffix("/v1"), credentials


def _path_label(path: str) -> str:
    """Path as a metric label, without the parts that clients choose, which would create unlimited labels."""
    return "/v1/models/…" if path.startswith("/v1/models/") else path


_SECONDS_TO_STOP = 30
_MOST_CLIENTS = 1000
"""Connections at once; further ones get 503, because each may hold a body of `ProxySettings.most_bytes` in memory."""


def make_server(
    path: Path,
    settings: ProxySettings,
    *,
    host: str,
    port: int,
    search: Search,
    embedder: str,
    device: str,
) -> uvicorn.Server:
    """Create a server for a memory file, without starting it.

    Args:
        path: Path of the memory file.
        settings: Settings of the proxy.
        host: Address to listen on.
        port: Port to listen on; 0 means any free port.
        search: Search options.
        embedder: See kgedit.llm.embeddings.load_embedder.
        device: Device of the embedder.

    Raises:
        KgeditError: if the upstream is not a valid address, or the file is not a memory.
    """
    metrics = Metrics()
    memory = ServedMemory(
        path,
        embedder_on_demand(embedder, device=device, reduced=True),
        gate=read_gate(embedder),
        search=search,
        metrics=metrics,
        matcher=read_matcher(embedder),
    )
    # The address to listen on is an allowed host name too; 0.0.0.0 and :: are not names.
    settings = replace(settings, hosts=(*settings.hosts, host))
    config = uvicorn.Config(
        proxy_app(memory, settings, metrics),
        host=host,
        port=port,
        http=TimedProtocol,
        ws="none",
        limit_concurrency=_MOST_CLIENTS,
        access_log=False,
        log_level="info",
        log_config=_log_config(),
        timeout_graceful_shutdown=_SECONDS_TO_STOP,
        server_header=False,
        date_header=False,
    )
    return uvicorn.Server(config)


class _WithoutBrokenAnswers(logging.Filter):
    """Removes the traceback of a response that was broken off on purpose; the proxy has logged one line."""

    def filter(self, record: logging.LogRecord) -> bool:
        raised = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
        return not isinstance(raised, BrokenAnswerError)


def _log_config() -> dict[str, Any]:
    """uvicorn's logging configuration, on stderr, extended by the logger kgedit.graph_memory.proxy."""
    config = copy.deepcopy(LOGGING_CONFIG)
    config["filters"] = {"broken": {"()": _WithoutBrokenAnswers}}
    config["handlers"]["default"]["filters"] = ["broken"]
    config["loggers"]["kgedit.graph_memory.proxy"] = {"handlers": ["default"], "level": "INFO", "propagate": False}
    return config
