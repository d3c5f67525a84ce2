"""The official client and Ollama's requests through the proxy: facts arrive, and everything else is kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn
from openai import OpenAI
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from world.model_servers import free_port, running
from world.small_memory import NORWAY, edit, write_small_memory

from kgedit.graph_memory.proxy.proxy import ProxySettings, make_server
from kgedit.graph_memory.retrieval import Search

TOOL = {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object", "properties": {}}}}
CHUNK = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
MESSAGE = {"role": "assistant", "content": None, "tool_calls": [
    {"id": "t1", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}]}  # fmt: skip


class Upstream:
    """A model's server that stores what it receives and answers in the form of each API."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []

    def server(self) -> uvicorn.Server:
        """The server on a free port."""
        paths = ("/v1/chat/completions", "/v1/responses", "/v1/completions", "/api/chat", "/api/generate")
        routes = [Route(path, self.answer, methods=["POST"]) for path in paths]
        return uvicorn.Server(uvicorn.Config(Starlette(routes=routes), port=free_port(), log_level="error"))

    async def answer(self, request: Request) -> Response:
        """Answer by path."""
        body = await request.json()
        self.bodies.append(body)
        path = request.url.path
        if path == "/v1/responses":
            text = {"type": "output_text", "text": "Jonas", "annotations": []}
            output = [{"id": "o", "type": "message", "role": "assistant", "status": "completed", "content": [text]}]
            return JSONResponse({"id": "r", "object": "response", "created_at": 1, "model": "m", "output": output,
                                 "parallel_tool_calls": True, "tool_choice": "auto", "tools": []})  # fmt: skip
        if path == "/v1/completions":
            choice = {"index": 0, "text": "Jonas", "finish_reason": "stop", "logprobs": None}
            return JSONResponse({**CHUNK, "object": "text_completion", "choices": [choice]})
        if path.startswith("/api/"):
            return JSONResponse({"message": {"role": "assistant", "content": "Jonas"}, "done": True})
        if body.get("stream"):
            return StreamingResponse(self._pieces(), media_type="text/event-stream")
        return JSONResponse({**CHUNK, "object": "chat.completion",
                             "choices": [{"index": 0, "message": MESSAGE, "finish_reason": "tool_calls"}]})  # fmt: skip

    async def _pieces(self) -> Any:
        for text in ("Jo", "nas"):
            piece = {**CHUNK, "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}
            yield f"data: {json.dumps(piece)}\n\n".encode()
        yield b"data: [DONE]\n\n"


@pytest.fixture
def upstream() -> Upstream:
    return Upstream()


@pytest.fixture
def address(upstream: Upstream, tmp_path: Path) -> Iterator[str]:
    write_small_memory(tmp_path / "facts.kgmemory", edit("Denmark", "P6", "Mette"))
    with running(upstream.server()) as model:
        settings = ProxySettings(upstream=f"{model}/v1")
        proxy = make_server(
            tmp_path / "facts.kgmemory",
            settings,
            host="127.0.0.1",
            port=0,
            search=Search(gate=0.0),
            embedder="character-ngrams",
            device="cpu",
        )
        with running(proxy) as own:
            yield own


@pytest.fixture
def client(address: str) -> OpenAI:
    return OpenAI(base_url=f"{address}/v1", api_key="key", max_retries=0, timeout=60)


def test_tools_and_their_calls_are_passed_through(client: OpenAI, upstream: Upstream) -> None:
    answer = client.chat.completions.create(
        model="m",
        messages=[{"role": "user", "content": NORWAY}],
        tools=[TOOL],  # type: ignore[list-item]
        tool_choice="auto",
    )
    calls = answer.choices[0].message.tool_calls
    assert calls is not None
    assert [call.id for call in calls] == ["t1"]
    [body] = upstream.bodies
    assert (body["tools"], body["tool_choice"]) == ([TOOL], "auto")
    assert '"answer": "Jonas"' in body["messages"][0]["content"]


def test_the_result_of_a_tool_stays_the_last_message(client: OpenAI, upstream: Upstream) -> None:
    messages: list[Any] = [
        {"role": "user", "content": NORWAY},
        MESSAGE,
        {"role": "tool", "tool_call_id": "t1", "content": "42"},
    ]
    client.chat.completions.create(model="m", messages=messages)
    assert upstream.bodies[-1]["messages"][1:] == messages[1:]
    assert upstream.bodies[-1]["messages"][0]["content"].endswith(f"</facts>\n{NORWAY}")


def test_a_stream_with_an_explanation_is_read_by_the_official_client(client: OpenAI, address: str) -> None:
    asked = {"model": "m", "messages": [{"role": "user", "content": NORWAY}], "stream": True}
    pieces = client.chat.completions.create(**asked, extra_headers={"x-kgedit-explain": "1"})  # type: ignore[call-overload]
    assert "".join(piece.choices[0].delta.content for piece in pieces) == "Jonas"
    raw = httpx2.post(
        f"{address}/v1/chat/completions", json=asked, headers={"x-kgedit-explain": "1"}, trust_env=False, timeout=60
    ).text
    result = json.loads(raw.partition("\n")[0].removeprefix(": kgedit_facts "))
    assert [fact["values"] for fact in result] == [[{"answer": "Jonas", "since": "2022-01-01", "until": None}]]


def test_responses_get_facts_whether_their_input_is_a_text_or_messages(client: OpenAI, upstream: Upstream) -> None:
    assert client.responses.create(model="m", input=NORWAY).output_text == "Jonas"
    part = {"type": "input_text", "text": NORWAY}
    client.responses.create(model="m", input=[{"role": "user", "content": [part]}])  # type: ignore[arg-type,list-item]
    first, second = (body["input"] for body in upstream.bodies)
    assert first.startswith("<facts>\n")
    assert first.endswith(NORWAY)
    assert second[0]["content"][0]["text"] == first


def test_completions_get_facts(client: OpenAI, upstream: Upstream) -> None:
    assert client.completions.create(model="m", prompt=NORWAY).choices[0].text == "Jonas"
    assert upstream.bodies[-1]["prompt"].startswith("<facts>\n")


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/api/chat", {"messages": [{"role": "user", "content": NORWAY}], "options": {"seed": 1}}, "messages"),
        ("/api/generate", {"prompt": NORWAY, "raw": False}, "prompt"),
    ],
)
def test_ollamas_requests_get_facts(
    address: str, upstream: Upstream, path: str, body: dict[str, Any], field: str
) -> None:
    answered = httpx2.post(f"{address}{path}", json={"model": "m", **body}, trust_env=False, timeout=60)
    assert answered.headers["x-kgedit-facts"] == "1"
    assert "Jonas" in json.dumps(upstream.bodies[-1][field])
    kept = {name: value for name, value in upstream.bodies[-1].items() if name != field}
    assert kept == {"model": "m", **{name: value for name, value in body.items() if name != field}}


def test_a_response_names_the_statements_of_its_facts_and_contains_them_on_request(address: str) -> None:
    asked = {"model": "m", "messages": [{"role": "user", "content": NORWAY}]}
    url = f"{address}/v1/chat/completions"
    plain = httpx2.post(url, json=asked, trust_env=False, timeout=60)
    assert (plain.headers["x-kgedit-facts"], plain.headers["x-kgedit-statements"]) == ("1", "norway:P6")
    assert "kgedit_facts" not in plain.json()
    result = httpx2.post(url, json=asked, headers={"x-kgedit-explain": "true"}, trust_env=False, timeout=60).json()
    assert result["kgedit_facts"] == [
        {
            "question": NORWAY,
            "values": [{"answer": "Jonas", "since": "2022-01-01", "until": None}],
            "left_out": 0,
            "statement": "norway:P6",
        }
    ]
    assert result["choices"] == plain.json()["choices"]
