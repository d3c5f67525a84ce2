"""A local OpenAI-compatible Batch API that fails on request and records what was paid for."""

from __future__ import annotations

import email
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Fault = Callable[[str, int], str | None]
"""Fault of a step ("upload", "create", "list", "look up", "download") at its n-th call, counted from 1.

"429", "500": that status, without any effect. "done, then 500", "done, then silence": the step takes effect, but the
client is not informed. "timeout": no response and no effect. "cut": half of the JSON, or of a file's last line. For
files of replies, until the next download: "wrong ids", "duplicates", "missing rows", "another's".
"""

RowFault = Callable[[str, int], str | None]
""""500": the row fails at its n-th attempt, unpaid; "lost": missing in all files; "expired": the batch expired;
"refused": a refusal, which is paid for. Other texts explain a status of 400."""


@dataclass
class BatchServer:
    """The server, with a record of its calls.

    Attributes:
        url: Base URL.
        reply: Reply of its model to the last message.
        steps: Step -> number of calls.
        paid: Message -> number of replies, which are paid for.
        created: Ids of all batches, in order.
        bodies: Bodies of all rows, in order.
        looks: Number of look-ups until a batch ends.
        status: Final status of batches.
        hold: Batches do not end while this is set.
        name: Id of the completion of a row, which is named by its batch and number.
    """

    reply: Callable[[str], str]
    fault: Fault
    row_fault: RowFault
    url: str = ""
    steps: Counter[str] = field(default_factory=Counter)
    paid: Counter[str] = field(default_factory=Counter)
    rows: Counter[str] = field(default_factory=Counter)
    created: list[str] = field(default_factory=list)
    looks: int = 2
    status: str = "completed"
    counts: bool = True
    bodies: list[dict[str, Any]] = field(default_factory=list)
    hold: bool = False
    name: Callable[[str], str] = "chatcmpl-{}".format
    silence: float = 0.6
    files: dict[str, bytes] = field(default_factory=dict)
    batches: dict[str, dict[str, Any]] = field(default_factory=dict)
    left: dict[str, int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def create(self, body: dict[str, Any]) -> dict[str, Any]:
        """Answer all rows immediately; the replies become available when the batch ends."""
        name = f"batch_{len(self.batches) + 1}"
        lines, errors = [], []
        for text in self.files[body["input_file_id"]].splitlines():
            row = json.loads(text)
            message = row["body"]["messages"][-1]["content"]
            self.rows[message] += 1
            self.bodies.append(row["body"])
            fault = self.row_fault(message, self.rows[message])
            if fault in {None, "refused"}:
                self.paid[message] += 1
                lines.append(self._line(row["custom_id"], message, f"{name}-{len(lines)}", refused=fault is not None))
            elif fault != "lost":
                errors.append(_failed(row["custom_id"], fault))
        batch = {
            "id": name,
            "object": "batch",
            "endpoint": body["endpoint"],
            "status": "in_progress",
            "input_file_id": body["input_file_id"],
            "completion_window": body["completion_window"],
            "created_at": 0,
            "metadata": body.get("metadata"),
        }
        self.files[f"{name}-out"] = "".join(f"{json.dumps(line)}\n" for line in lines).encode()
        self.files[f"{name}-err"] = "".join(f"{json.dumps(line)}\n" for line in errors).encode()
        self.batches[name], self.left[name] = batch, self.looks
        self.created.append(name)
        if self.counts:
            batch["request_counts"] = {
                "total": len(lines) + len(errors),
                "completed": len(lines),
                "failed": len(errors),
            }
        return batch

    def look_up(self, name: str) -> dict[str, Any]:
        """The batch, which ends after `looks` look-ups."""
        batch = self.batches[name]
        self.left[name] -= 1
        if self.left[name] <= 0 and not self.hold:
            batch["status"] = self.status
            for key, kind in (("output_file_id", "out"), ("error_file_id", "err")):
                if self.files[f"{name}-{kind}"]:
                    batch[key] = f"{name}-{kind}"
        return batch

    def _line(self, key: str, message: str, number: str, *, refused: bool) -> dict[str, Any]:
        text = self.reply(message)
        said = {"content": None, "refusal": text} if refused else {"content": text}
        usage = {"prompt_tokens": len(message.split()), "completion_tokens": len(text.split())}
        choice = {"index": 0, "message": {"role": "assistant", **said}, "finish_reason": "stop"}
        body = {"id": self.name(number), "object": "chat.completion", "choices": [choice], "usage": usage}
        return {"id": number, "custom_id": key, "response": {"status_code": 200, "body": body}, "error": None}


def _failed(key: str, fault: str) -> dict[str, Any]:
    if fault.isdigit():
        body = {"error": {"message": f"fault {fault}"}}
        return {"custom_id": key, "response": {"status_code": int(fault), "body": body}, "error": None}
    if " " in fault:
        return {
            "custom_id": key,
            "response": {"status_code": 400, "body": {"error": {"message": fault}}},
            "error": None,
        }
    return {"custom_id": key, "response": None, "error": {"code": f"batch_{fault}", "message": "too late"}}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Disable logging."""

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path.endswith("/files"):
            self._step("upload", lambda: self._upload(content))
        else:
            self._step("create", lambda: self._world.create(json.loads(content)))

    def do_GET(self) -> None:
        path, _, _ = self.path.partition("?")
        name = path.rstrip("/").split("/")[-1]
        if path.endswith("/content"):
            self._download(path.split("/")[-2])
        elif path.endswith("/batches"):
            self._step("list", lambda: {"object": "list", "data": list(self._world.batches.values())[::-1]})
        elif name in self._world.batches:
            self._step("look up", lambda: self._world.look_up(name))
        else:
            self._send(404, b'{"error": {"message": "no such batch"}}')

    @property
    def _world(self) -> BatchServer:
        world: BatchServer = self.server.world  # type: ignore[attr-defined]
        return world

    def _upload(self, content: bytes) -> dict[str, Any]:
        head = f"Content-Type: {self.headers['Content-Type']}\r\n\r\n".encode()
        for part in email.message_from_bytes(head + content).get_payload():
            if part.get_filename():  # type: ignore[union-attr]
                name = f"file-{len(self._world.files) + 1}"
                self._world.files[name] = part.get_payload(decode=True)  # type: ignore[union-attr, assignment]
                return {"id": name, "object": "file", "purpose": "batch", "bytes": 0, "created_at": 0, "filename": "b"}
        raise AssertionError("no file in the upload")

    def _step(self, step: str, do: Callable[[], dict[str, Any]]) -> None:
        world = self._world
        with world.lock:
            world.steps[step] += 1
            fault = world.fault(step, world.steps[step])
            done = do() if fault is None or fault.startswith(("done", "cut")) else {}
        try:
            if fault is None:
                self._send(200, json.dumps(done).encode())
            elif fault == "cut":
                whole = json.dumps(done).encode()
                self._send(200, whole[: len(whole) // 2])
            elif fault in {"timeout", "done, then silence"}:
                time.sleep(world.silence)
                self.close_connection = True
            else:
                self._send(int(fault.split()[-1]), b'{"error": {"message": "fault", "code": null}}')
        except OSError:
            self.close_connection = True

    def _download(self, name: str) -> None:
        world = self._world
        with world.lock:
            world.steps["download"] += 1
            fault = world.fault("download", world.steps["download"])
        lines = world.files[name].splitlines(keepends=True)
        if fault == "cut":
            lines[-1] = lines[-1][: len(lines[-1]) // 2]
        elif fault == "missing rows":
            lines = lines[1:]
        elif fault == "duplicates":
            lines = [line for line in lines for _ in range(2)]
        elif fault == "wrong ids":
            lines[0] = lines[0].replace(json.loads(lines[0])["custom_id"].encode(), b"nobody's")
        elif fault == "another's":
            first = json.loads(lines[0])["response"]
            lines[1] = json.dumps(json.loads(lines[1]) | {"response": first}).encode() + b"\n"
        elif fault is not None:
            self._send(int(fault), b'{"error": {"message": "fault", "code": null}}')
            return
        self._send(200, b"".join(lines))

    def _send(self, status: int, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Ignore broken connections, which are expected from clients that time out or are killed."""


@contextmanager
def batch_server(
    reply: Callable[[str], str] = str.upper,
    fault: Fault = lambda _, __: None,
    row_fault: RowFault = lambda _, __: None,
) -> Iterator[BatchServer]:
    """Serve on a free port of this machine until the context ends."""
    world = BatchServer(reply, fault, row_fault)
    server = _Server(("127.0.0.1", 0), _Handler)
    server.world = world  # type: ignore[attr-defined]
    world.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield world
    finally:
        server.shutdown()
        server.server_close()
