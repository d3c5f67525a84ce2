"""Local servers that respond and fail like real ones; faults are configured in advance."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

Answer = tuple[int, dict[str, str], bytes]
"""Status, headers, body."""


class Recorded:
    """Requests to a server, in order: paths and headers."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.address = ""


@contextmanager
def serving(answer: Callable[[str, dict[str, str], bytes], Answer]) -> Iterator[Recorded]:
    """A server on a free local port. A body shorter than its Content-Length breaks the connection."""
    recorded = Recorded()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            asked = self.rfile.read(size)
            recorded.paths.append(self.path)
            recorded.headers.append({name.lower(): value for name, value in self.headers.items()})
            status, headers, body = answer(self.path, recorded.headers[-1], asked)
            self.send_response(status)
            for name, value in ({"Content-Length": str(len(body))} | headers).items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_POST = do_HEAD = do_GET  # noqa: N815 - the names that http.server calls

        def log_message(self, format: str, *args: object) -> None:
            """Disable logging; the tests check the recorded requests."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    recorded.address = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield recorded
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def query_in(body: bytes) -> str:
    """Query of a SPARQL POST request."""
    return parse_qs(body.decode())["query"][0]
