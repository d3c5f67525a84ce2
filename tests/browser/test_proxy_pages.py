"""The proxy's replies in a real browser: text of models and memories neither runs nor fetches anything."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote, urlsplit

import pytest
import uvicorn
from playwright.sync_api import Browser
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from world.hostile import HOSTILE
from world.model_servers import running
from world.small_memory import write_small_memory

from kgedit.verbs.memory import memory_server

pytestmark = pytest.mark.browser

FETCHING = "<img src='http://elsewhere.example/image'><script src='http://elsewhere.example/script'></script>"


class HostileModel:
    """A model's server whose answers are markup; with the names of those who asked it."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def markup(self, request: Request) -> Response:
        self.asked.append(request.url.path)
        return HTMLResponse(f"<p>{FETCHING}</p>" + "".join(HOSTILE))

    async def answer(self, request: Request) -> Response:
        self.asked.append(request.url.path)
        return JSONResponse({"choices": [{"message": {"content": FETCHING}}]}, headers={"content-type": "text/html"})

    def server(self) -> uvicorn.Server:
        routes = [
            Route("/v1/chat/completions", self.answer, methods=["POST"]),
            Route("/v1/models/{name:path}", self.markup),
            Route("/v1/models", self.markup),
        ]
        return uvicorn.Server(uvicorn.Config(Starlette(routes=routes), port=0, log_level="critical"))


@pytest.fixture(scope="module")
def model() -> HostileModel:
    return HostileModel()


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory, model: HostileModel) -> Iterator[str]:
    """A proxy with a hostile memory, in a folder with a hostile name, ahead of a hostile model."""
    folder = tmp_path_factory.mktemp("memory") / "<img src=x onerror=alert(1)>"
    folder.mkdir()
    write_small_memory(folder / "facts.kgmemory", leader=HOSTILE[1])
    with running(model.server()) as upstream:
        server = memory_server(
            folder / "facts.kgmemory",
            upstream=f"{upstream}/v1",
            port=0,
            embedder="character-ngrams",
            gate=0.0,
        )
        with running(server) as address:
            yield address


@pytest.mark.parametrize(
    "path", ["/health", "/metrics", "/v1/models", f"/v1/models/{quote(HOSTILE[1])}", f"/{quote(HOSTILE[0])}"]
)
def test_nothing_in_an_answer_runs_or_is_fetched(proxy: str, browser: Browser, path: str) -> None:
    here = urlsplit(proxy).netloc
    with browser.new_context() as context:
        page = context.new_page()
        left: list[str] = []
        page.on("response", lambda answered: left.append(answered.url))
        page.on("requestfailed", lambda asked: left.append(asked.url) if asked.failure != "csp" else None)
        page.goto(proxy + path)
        assert page.evaluate("window.hacked") is None
        assert {urlsplit(url).netloc for url in left} == {here}
        assert page.evaluate("document.contentType") != "text/html" or page.evaluate("origin") == "null"


def test_a_page_of_another_site_reaches_neither_model_nor_memory(
    proxy: str, model: HostileModel, browser: Browser
) -> None:
    model.asked.clear()
    with browser.new_context() as context:
        page = context.new_page()
        # A form needs no preflight, and its text can be JSON.
        form = (
            f"<form method=post enctype=text/plain action='{proxy}/v1/chat/completions'>"
            """<input name='{"model": "m", "messages": [{"role": "user", "content": ""}], "x": "' value='"}'></form>"""
        )
        page.route("http://elsewhere.example/**", lambda route: route.fulfill(content_type="text/html", body=form))
        page.goto("http://elsewhere.example/")
        page.evaluate("document.forms[0].submit()")
        page.wait_for_url(f"{proxy}/**")
        assert "Pages of 'http://elsewhere.example' may not ask" in page.content()
    assert model.asked == []
