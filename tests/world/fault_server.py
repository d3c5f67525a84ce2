"""A local OpenAI-compatible chat server that fails on request and records what was paid for."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Reply = Callable[[str], str]
"""Reply of the server's model to the last message of a chat."""

Fault = Callable[[str, int], str | None]
"""Fault of a message at its n-th attempt, counted from 1; None means no fault.

"401", "404", "429", "500", "503": that status; 429 requests `retry_after`. "no credit": 429 with OpenAI's error for an
empty account. "timeout": no response. "cut": half of the JSON. "torn": shorter than announced. "not JSON".
"no choice": an empty list. "two choices". "no text": content null. "refused": content null and a refusal. "tool call":
content null and a call of a tool. "spent": content null because reasoning took all tokens. "spent, shown": with that
reasoning. "filtered": content null for the reason content_filter. "another's": repeats the reply to an earlier request.
"""


Complete = Callable[[dict[str, Any]], tuple[str, int, int]]
"""Continuation of the prompt or message in a request's body, its prompt tokens, and its completion tokens."""


class FaultServer:
    """The server, with a record of its calls.

    Attributes:
        url: Base URL.
        tries: Message -> number of attempts.
        paid: Message -> number of complete and correct replies, which are paid for.
        arrivals: Message and time of every attempt, in order.
        under_way: Maximum number of concurrent calls.
        retry_after: Seconds requested by a 429.
        silence: Duration of "timeout" in seconds.
        complete: Model of the server; replaces `reply` if the model needs the whole request.
        explain: Message of the error with a status.
        name: Id of the n-th completion.
        hold_after: Number of paid replies after which further calls wait until the server ends; None disables this.
        held: Number of calls that waited for this reason.
    """

    def __init__(self, reply: Reply, fault: Fault) -> None:
        self.reply, self.fault = reply, fault
        self.tries: Counter[str] = Counter()
        self.paid: Counter[str] = Counter()
        self.arrivals: list[tuple[str, float]] = []
        self.headers: list[dict[str, str]] = []
        self.bodies: list[dict[str, Any]] = []
        self.under_way = 0
        self.retry_after: float | str = 0.05
        self.silence = 1.0
        self.hold_after: int | None = None
        self.held = 0
        self.seconds = 0.0
        self.released = threading.Event()
        self.lock = threading.Lock()
        self.now = 0
        self.delivered: dict[str, Any] | None = None
        self.url = ""
        self.complete: Complete | None = None
        self.explain: Callable[[str], str] = "fault {}".format
        self.name: Callable[[int], str] = "chatcmpl-{}".format

    def completion(self, message: str, body: dict[str, Any]) -> dict[str, Any]:
        """A correct reply; tokens are words unless `complete` defines them."""
        if self.complete:
            text, prompt_tokens, new_tokens = self.complete(body)
        else:
            text = self.reply(message)
            prompt_tokens, new_tokens = len(message.split()), len(text.split())
        said = {"text": text} if "prompt" in body else {"message": {"role": "assistant", "content": text}}
        return {
            "id": self.name(self.tries.total()),
            "object": "text_completion" if "prompt" in body else "chat.completion",
            "created": 0,
            "model": "fault",
            "choices": [{"index": 0, **said, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": prompt_tokens, "completion_tokens": new_tokens},
        }


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Disable logging."""

    def do_POST(self) -> None:
        world: FaultServer = self.server.world  # type: ignore[attr-defined]
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        message = body["prompt"] if "prompt" in body else body["messages"][-1]["content"]
        with world.lock:
            world.now += 1
            world.under_way = max(world.under_way, world.now)
            world.tries[message] += 1
            world.arrivals.append((message, time.monotonic()))
            world.headers.append({name.lower(): text for name, text in self.headers.items()})
            world.bodies.append(body)
            fault = world.fault(message, world.tries[message])
            completion = world.completion(message, body)
            hold = world.hold_after is not None and world.paid.total() >= world.hold_after
            if hold:
                world.held += 1
            elif fault is None:
                world.paid[message] += 1
        if world.seconds:
            time.sleep(world.seconds)
        try:
            if hold:
                world.released.wait(20)
                self.close_connection = True
            else:
                self._answer(fault, completion, world)
        except OSError:
            self.close_connection = True
        finally:
            with world.lock:
                world.now -= 1

    def _answer(self, fault: str | None, completion: dict[str, Any], world: FaultServer) -> None:
        whole = json.dumps(completion).encode()
        if fault is None:
            self._send(200, whole)
            world.delivered = completion
        elif fault.isdigit():
            said = json.dumps({"error": {"message": world.explain(fault), "code": None, "type": "fault"}}).encode()
            self._send(int(fault), said, retry_after=world.retry_after if fault == "429" else None)
        elif fault == "no credit":
            error = {"message": "You exceeded your quota.", "code": "insufficient_quota", "type": "insufficient_quota"}
            self._send(429, json.dumps({"error": error}).encode())
        elif fault == "timeout":
            time.sleep(world.silence)
            self.close_connection = True
        elif fault == "torn":
            self._send(200, whole[: len(whole) // 2], announced=len(whole))
            self.close_connection = True
        elif fault == "cut":
            self._send(200, whole[: len(whole) // 2])
        elif fault == "not JSON":
            self._send(200, b"<html>Bad gateway</html>")
        elif fault == "another's":
            earlier = world.delivered
            time.sleep(0.1)  # the original recipient has read it by now
            self._send(200, json.dumps(earlier or completion).encode())
        else:
            choice = completion["choices"][0]
            broken = {
                "no choice": [],
                "two choices": [choice, choice],
                "no text": [{**choice, **_no_text(choice)}],
                "refused": [{**choice, **_no_text(choice, refusal="I cannot help with that.")}],
                "filtered": [{**choice, **_no_text(choice), "finish_reason": "content_filter"}],
                "spent": [{**choice, **_no_text(choice), "finish_reason": "length"}],
                "spent, shown": [{**choice, **_no_text(choice, reasoning="Well,"), "finish_reason": "length"}],
                "tool call": [{**choice, **_no_text(choice, tool_calls=[{"id": "1", "type": "function"}])}],
            }[fault]
            self._send(200, json.dumps({**completion, "choices": broken}).encode())

    def _send(
        self, status: int, content: bytes, *, announced: int | None = None, retry_after: float | str | None = None
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(announced or len(content)))
        if retry_after is not None:
            self.send_header("Retry-After", str(retry_after))
        self.end_headers()
        self.wfile.write(content)


def _no_text(choice: dict[str, Any], **more: object) -> dict[str, Any]:
    return {"text": None} if "text" in choice else {"message": {"role": "assistant", "content": None, **more}}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, *_: object) -> None:
        """Ignore broken connections, which are expected from clients that time out or are killed."""


@contextmanager
def fault_server(reply: Reply = str.upper, fault: Fault = lambda _, __: None) -> Iterator[FaultServer]:
    """Serve on a free port of this machine until the context ends."""
    world = FaultServer(reply, fault)
    server = _Server(("127.0.0.1", 0), _Handler)
    server.world = world  # type: ignore[attr-defined]
    world.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield world
    finally:
        world.released.set()
        server.shutdown()
        server.server_close()
