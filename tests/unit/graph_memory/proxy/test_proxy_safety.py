"""The proxy refuses other sites' pages, gives up on half requests, and shows no password."""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
import logging
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from world.model_servers import running
from world.patience import wait_until
from world.small_memory import NORWAY, write_small_memory

from kgedit.errors import KgeditError
from kgedit.graph_memory.proxy.http import TimedProtocol, UnreadableBodyError, read_body
from kgedit.graph_memory.proxy.proxy import ProxySettings, make_server
from kgedit.graph_memory.retrieval import Search
from kgedit.verbs.memory import memory_server

CHAT = "/v1/chat/completions"
ODD = "Zürich → 東京".encode()


class Upstream:
    """Records requests, and answers with a header that is neither ASCII nor Latin-1."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[bytes, bytes]]] = []

    async def answer(self, request: Request) -> Response:
        self.requests.append((request.scope["raw_path"].decode(), dict(request.headers.raw)))
        answered = JSONResponse({"path": request.url.path})
        answered.raw_headers.append((b"x-city", ODD))
        return answered

    def server(self) -> uvicorn.Server:
        app = Starlette(routes=[Route("/{path:path}", self.answer, methods=["GET", "POST"])])
        return uvicorn.Server(uvicorn.Config(app, port=0, log_level="critical", timeout_graceful_shutdown=1))


@pytest.fixture(scope="module")
def upstream() -> Upstream:
    return Upstream()


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("memory") / "facts.kgmemory"
    write_small_memory(path)
    return path


def proxy(memory: Path, upstream: str, **settings: Any) -> uvicorn.Server:
    return make_server(
        memory,
        ProxySettings(upstream=upstream, **settings),
        host="127.0.0.1",
        port=0,
        search=Search(gate=0.0),
        embedder="character-ngrams",
        device="cpu",
    )


@pytest.fixture(scope="module")
def address(memory: Path, upstream: Upstream) -> Iterator[str]:
    """A proxy whose upstream needs a password and whose heads must arrive in a quarter of a second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TimedProtocol, "head_seconds", 0.25)
        with running(upstream.server()) as there:
            outcome = there.replace("http://", "http://me:s3cret%40@")
            with running(proxy(memory, f"{outcome}/v1", most_bytes=1000, hosts=("proxy.example",))) as here:
                yield here


@pytest.fixture
def client(address: str, upstream: Upstream) -> Iterator[httpx2.Client]:
    upstream.requests.clear()
    with httpx2.Client(base_url=address, trust_env=False, timeout=60) as client:
        yield client


def asked() -> dict[str, Any]:
    return {"model": "echo", "messages": [{"role": "user", "content": NORWAY}]}


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8090", "localhost.evil.example", "a@localhost", ""])
@pytest.mark.parametrize("path", ["/health", "/metrics", "/v1/models"])
def test_a_name_that_is_not_the_proxys_is_refused(
    client: httpx2.Client, upstream: Upstream, path: str, host: str
) -> None:
    answered = client.get(path, headers={"host": host})
    assert answered.status_code == 421
    assert "--allowed-host" in answered.json()["error"]["message"]
    assert upstream.requests == []


@pytest.mark.parametrize("host", ["localhost:9000", "127.0.0.1", "[::1]:8090", "192.168.3.4:8090", "Proxy.Example:80"])
def test_loopback_names_ip_addresses_and_configured_names_are_answered(client: httpx2.Client, host: str) -> None:
    assert client.get("/health", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://203.0.113.5:8090", "file://", "http://localhost.evil.example"]
)
def test_a_page_of_another_site_cannot_ask(client: httpx2.Client, upstream: Upstream, origin: str) -> None:
    """A form or a script may send this without a preflight, because the type is text."""
    headers = {"origin": origin, "content-type": "text/plain"}
    answered = client.post(CHAT, content=json.dumps(asked()), headers=headers)
    assert answered.status_code == 403
    assert upstream.requests == []


@pytest.mark.parametrize("origin", ["http://localhost:3000", "http://127.0.0.1:8090", "https://proxy.example"])
def test_own_pages_can_ask(client: httpx2.Client, origin: str) -> None:
    assert client.post(CHAT, json=asked(), headers={"origin": origin}).status_code == 200


def test_preflights_are_refused_and_no_header_of_cors_is_added(client: httpx2.Client, upstream: Upstream) -> None:
    for origin in ("http://localhost:3000", "https://proxy.example"):
        preflight = {"origin": origin, "access-control-request-method": "POST"}
        refused = client.options(CHAT, headers={**preflight, "access-control-request-headers": "content-type"})
        assert refused.status_code == 405
        assert upstream.requests == []
        answered = client.post(CHAT, json=asked(), headers={"origin": origin})
        assert not [name for each in (refused, answered) for name in each.headers if name.startswith("access-control")]
        upstream.requests.clear()


def test_every_answer_keeps_browsers_from_running_it(client: httpx2.Client) -> None:
    for answered in (
        client.get("/health"),
        client.get("/nothing"),
        client.get("/v1/models"),
        client.get("/health", headers={"host": "evil.example"}),
    ):
        assert answered.headers["x-content-type-options"] == "nosniff"
        assert "sandbox" in answered.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in answered.headers["content-security-policy"]


def test_headers_that_are_not_latin_1_are_passed_on_both_ways(client: httpx2.Client, upstream: Upstream) -> None:
    for _ in range(3):
        answered = client.post(CHAT, json=asked(), headers=[(b"x-town", ODD)])
        assert answered.status_code == 200
        assert dict(answered.headers.raw)[b"x-city"] == ODD
    assert [headers[b"x-town"] for _, headers in upstream.requests] == [ODD] * 3
    wait_until(lambda: "kgedit_in_flight 0" in client.get("/metrics").text)


def test_the_upstreams_password_is_sent_there_and_shown_nowhere(
    client: httpx2.Client, upstream: Upstream, memory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        assert client.get("/v1/models", headers={"authorization": "Bearer none"}).status_code == 200
        shown = client.get("/health").text
        with (
            running(proxy(memory, "http://me:s3cret%40@127.0.0.1:9/v1")) as address,
            httpx2.Client(base_url=address, trust_env=False, timeout=60) as other,
        ):
            failed = other.post(CHAT, json=asked())
            shown += failed.text + other.get("/health").text
    assert failed.status_code == 502
    assert "http://127.0.0.1:9" in failed.text
    logged = "\n".join(record.getMessage() for record in caplog.records if not record.name.startswith("httpcore2"))
    assert "s3cret" not in shown + logged + repr(ProxySettings(upstream="http://me:s3cret@h"))
    [(_, headers)] = upstream.requests
    assert base64.b64decode(headers[b"authorization"].removeprefix(b"Basic ")) == b"me:s3cret@"


@pytest.mark.parametrize("upstream", ["ftp://me:s3cret@h/v1", "me:s3cret@h", "http://me:s3cret@h:port/v1"])
def test_a_wrong_upstream_is_refused_without_its_password(memory: Path, upstream: str) -> None:
    with pytest.raises(KgeditError, match="an address of a server") as caught:
        memory_server(memory, upstream=upstream, embedder="character-ngrams")
    assert "s3cret" not in str(caught.value)


def test_a_models_name_may_hold_a_slash_and_no_path_leads_out(client: httpx2.Client, upstream: Upstream) -> None:
    assert client.get("/v1/models/org/name").json() == {"path": "/v1/models/org/name"}
    assert client.get("/v1/models/org%2Fname").status_code == 200
    assert [path for path, _ in upstream.requests] == ["/v1/models/org/name", "/v1/models/org%2Fname"]
    for path in ("/v1/models/%2e%2e/%2e%2e/admin", "/v1/models/..%2f..%2fadmin"):
        assert client.get(path).status_code == 404
    assert len(upstream.requests) == 2


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_that_is_too_long_gets_an_answer_and_no_reset(address: str, chunked: bool) -> None:
    """The standard library's client sends all of a request before it reads anything, as most clients do."""
    connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=60)
    content = (b"x" * 65536 for _ in range(128)) if chunked else b"x" * 8_000_000
    connection.request("POST", CHAT, content, {"content-type": "application/json"}, encode_chunked=chunked)
    answered = connection.getresponse()
    assert answered.status == 413
    assert answered.headers["connection"] == "close"
    assert b"longer than 1,000 bytes" in answered.read()


@pytest.mark.parametrize("rest", [b"", b"x-slow: "])
def test_a_head_that_never_ends_is_given_up(address: str, rest: bytes) -> None:
    host, _, port = address.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=60) as opened:
        opened.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n" + rest)
        if rest:  # more bytes do not extend the time
            wait_until(lambda: _ended_while_sending(opened))
        assert opened.recv(1000) == b""


def test_a_second_head_that_never_ends_is_given_up(address: str) -> None:
    host, _, port = address.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=60) as opened:
        opened.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert opened.recv(1000).startswith(b"HTTP/1.1 200")
        opened.sendall(b"GET /he")
        answers = iter(lambda: opened.recv(1000), b"")
        assert b"HTTP/1.1" not in b"".join(answers)


def _ended_while_sending(opened: socket.socket) -> bool:
    try:
        opened.sendall(b"x")
        opened.setblocking(False)
        return opened.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
    finally:
        opened.setblocking(True)


def test_text_that_is_not_unicode_is_passed_on(client: httpx2.Client) -> None:
    content = json.dumps(asked()).replace("Norway", "Norway \\ud800")
    assert client.post(CHAT, content=content).status_code == 200


def test_a_body_that_stops_is_given_up() -> None:
    sent = iter([{"type": "http.request", "body": b"half", "more_body": True}])

    async def receive() -> Any:
        return next(sent, None) or await asyncio.Event().wait()

    request = Request({"type": "http", "headers": [(b"content-length", b"8")]}, receive)
    # In a thread: Playwright keeps a loop running in the thread of the browser tests, which asyncio.run refuses.
    with (
        ThreadPoolExecutor(1) as other,
        pytest.raises(UnreadableBodyError, match="did not arrive within") as caught,
    ):
        other.submit(asyncio.run, read_body(request, most_bytes=100, seconds=0.01)).result()
    assert caught.value.status == 408
