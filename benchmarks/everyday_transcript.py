"""Asks everyday questions through the proxy with OpenAI's client, and prints what the model's server receives.

    OMP_NUM_THREADS=1 python benchmarks/everyday_transcript.py sample.kgmemory

The server in the place of a model stores each request. A test compares the output with docs/measurements.
"""

from __future__ import annotations

import argparse
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from openai import OpenAI
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from kgedit.graph_memory.proxy.proxy import ProxySettings, make_server
from kgedit.graph_memory.retrieval import Search

CONVERSATIONS = (
    ("who's running norway these days?",),
    ("Tell me about the prime minister of Norway, please",),
    ("Is Angela Merkel still chancellor?",),
    ("Wer ist Bundeskanzler von Deutschland?",),
    ("Who is the prime minister of Italy?", "Giorgia Meloni.", "And who is her predecessor?"),
    ("Who was chancellor of Germany in 2019?",),
    ("What is the population of Norway?",),
)


class Recorder:
    """A model's server that stores requests."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []

    def server(self) -> uvicorn.Server:
        """The server, on a free port."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        routes = [Route("/v1/chat/completions", self._answer, methods=["POST"])]
        return uvicorn.Server(uvicorn.Config(Starlette(routes=routes), port=port, log_level="error"))

    async def _answer(self, request: Request) -> JSONResponse:
        self.messages = (await request.json())["messages"]
        choice = {"index": 0, "message": {"role": "assistant", "content": "-"}, "finish_reason": "stop"}
        return JSONResponse(
            {"id": "c", "object": "chat.completion", "created": 1, "model": "model", "choices": [choice]}
        )


@contextmanager
def running(server: uvicorn.Server) -> Iterator[str]:
    """Run a server in a thread; yields its address."""
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    [listening] = server.servers[0].sockets
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    server.should_exit = True
    thread.join()


def transcript(memory: Path, *, embedder: str = "all-minilm-l6-v2") -> str:
    """The questions with the facts that are added to them, and the statements in the response's header."""
    recorder = Recorder()
    lines: list[str] = []
    with running(recorder.server()) as model:
        settings = ProxySettings(upstream=f"{model}/v1")
        proxy = make_server(
            memory, settings, host="127.0.0.1", port=0, search=Search(), embedder=embedder, device="cpu"
        )
        with running(proxy) as address, OpenAI(base_url=f"{address}/v1", api_key="-") as client:
            for turns in CONVERSATIONS:
                roles = ("user", "assistant")
                messages: Any = [{"role": roles[at % 2], "content": turn} for at, turn in enumerate(turns)]
                response = client.chat.completions.with_raw_response.create(model="model", messages=messages)
                facts, _, _ = recorder.messages[-1]["content"].rpartition(turns[-1])
                statements = response.headers.get("x-kgedit-statements", "none")
                lines += [f"> {turn}" for turn in turns]
                lines += [*facts.splitlines(), f"statements: {statements}", ""]
    return "\n".join(lines[:-1]) + "\n"


def main() -> None:
    """Print the transcript."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("memory", type=Path)
    print(transcript(parser.parse_args().memory), end="")


if __name__ == "__main__":
    main()
