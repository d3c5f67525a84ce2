"""Overhead of the memory's proxy per request: the same questions sent directly and through it, alternating.

    OMP_NUM_THREADS=1 python benchmarks/memory_proxy.py --facts 10000 --requests 200 --at-once 1 8 50

A separate process acts as the model's server and answers immediately, so that the difference is the proxy's: reading
the request, finding the facts with MiniLM, forwarding. Other questions come first, because every path of relations is
embedded on its first use. All questions are worded differently, so that no vector is cached. In the last round the
memory is replaced by another file. At last the first questions come again, whose vectors are cached by then. Prints a
table of wall-clock seconds and the failures.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx2
import numpy as np
from made_up_facts import make_world

from kgedit.graph_memory.graph_memory import GraphMemory
from kgedit.graph_memory.memory_file import write_memory_file
from kgedit.llm.embeddings import load_embedder

REPLY = json.dumps({"choices": [{"message": {"role": "assistant", "content": "Yes."}}]}).encode()


class Model(BaseHTTPRequestHandler):
    """Answers every request immediately."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        """Read the request and answer."""
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(REPLY)))
        self.end_headers()
        self.wfile.write(REPLY)

    def log_message(self, *_: object) -> None:
        """Disable logging."""


class ModelServer(ThreadingHTTPServer):
    """Accepts any number of concurrent connections."""

    request_queue_size = 256


def serve_model() -> None:
    """Run the fake model; prints its port."""
    server = ModelServer(("127.0.0.1", 0), Model)
    print(server.server_port, flush=True)
    server.serve_forever()


def write_memory(path: Path, facts: int) -> list[str]:
    """Write a memory of a made-up world; returns questions about it."""
    memory = GraphMemory(load_embedder("character-ngrams", device="cpu"))
    questions: list[str] = []
    for table in make_world(facts, seed=1).tables():
        memory.learn_table(table)
        questions += table["question"].to_pylist()[:5000]
    write_memory_file(path, memory.tables(), {"sources": [], "counts": memory.counts()})
    return questions


def start(command: Sequence[str | Path], log: Path) -> subprocess.Popen[str]:
    """Start a process of this interpreter."""
    with log.open("w") as written:
        return subprocess.Popen(
            [sys.executable, *map(str, command)], stdout=subprocess.PIPE, stderr=written, text=True, env=os.environ
        )


def started_proxy(memory: Path, upstream: str, log: Path) -> tuple[subprocess.Popen[str], str]:
    """Start the proxy and wait until it answers; yields its address."""
    process = start(["-m", "kgedit", "memory", "serve", memory, "--upstream", upstream, "--port", "0"], log)
    while "running on " not in (said := log.read_text()):
        if process.poll() is not None:
            raise SystemExit(said)
        time.sleep(0.2)
    return process, said.partition("running on ")[2].split()[0]


def ask(client: httpx2.Client, address: str, question: str) -> tuple[float, bool, int]:
    """Seconds, whether the request was answered, and the number of facts."""
    started = time.perf_counter()
    try:
        body = {"model": "m", "messages": [{"role": "user", "content": question}]}
        answered = client.post(f"{address}/v1/chat/completions", json=body)
    except httpx2.HTTPError:
        return time.perf_counter() - started, False, 0
    facts = int(answered.headers.get("x-kgedit-facts", 0))
    return time.perf_counter() - started, answered.status_code == 200, facts


def measure(addresses: dict[str, str], questions: Sequence[str], at_once: int) -> dict[str, dict[str, float]]:
    """Send the same questions to both addresses in alternating blocks, so that both see the same machine."""
    found: dict[str, list[tuple[float, bool, int]]] = {name: [] for name in addresses}
    spent = dict.fromkeys(addresses, 0.0)
    block = max(at_once, 20)
    with httpx2.Client(trust_env=False, timeout=60) as client, ThreadPoolExecutor(at_once) as pool:
        for address in addresses.values():
            ask(client, address, questions[0])
        for first in range(0, len(questions), block):
            for name, address in addresses.items():
                started = time.perf_counter()
                found[name] += pool.map(lambda q, a=address: ask(client, a, q), questions[first : first + block])
                spent[name] += time.perf_counter() - started
    return {
        name: {
            "p50_ms": float(np.percentile([row[0] for row in rows], 50) * 1000),
            "p95_ms": float(np.percentile([row[0] for row in rows], 95) * 1000),
            "p99_ms": float(np.percentile([row[0] for row in rows], 99) * 1000),
            "a_second": len(rows) / spent[name],
            "failed": sum(not row[1] for row in rows),
            "with_facts": sum(row[2] > 0 for row in rows),
        }
        for name, rows in found.items()
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--facts", type=int, default=10_000)
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--warm", type=int, default=300, help="other questions asked first, which embed the paths")
    parser.add_argument("--at-once", type=int, nargs="+", default=[1, 8, 50])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        memory = Path(folder) / "facts.kgmemory"
        known = np.random.default_rng(0).permutation(write_memory(memory, options.facts)).tolist()
        drawn = [text.replace("?", f", dear reader {number}?") for number, text in enumerate(known)]
        model = start([__file__, "--model"], Path(folder) / "model.log")
        assert model.stdout is not None
        upstream = f"http://127.0.0.1:{int(model.stdout.readline())}"
        proxy, address = started_proxy(memory, upstream, Path(folder) / "proxy.log")
        try:
            first = measure({"proxy": address}, drawn[len(drawn) - options.warm :], 1)["proxy"]
            print(f"first {options.warm} questions: p50 {first['p50_ms']:.1f}, p95 {first['p95_ms']:.1f} ms\n")
            print("| at once | direct p50 / p95 / p99 ms | proxy p50 / p95 / p99 ms | a second | failed | with facts |")
            print("| --: | --: | --: | --: | --: | --: |")
            for turn, at_once in enumerate(options.at_once):
                if turn == len(options.at_once) - 1:
                    threading.Timer(0.5, os.utime, [memory]).start()
                asked = drawn[turn * options.requests : (turn + 1) * options.requests]
                rows = measure({"direct": upstream, "proxy": address}, asked, at_once)
                direct, through = rows["direct"], rows["proxy"]
                print(
                    f"| {at_once} | {direct['p50_ms']:.1f} / {direct['p95_ms']:.1f} / {direct['p99_ms']:.1f} "
                    f"| {through['p50_ms']:.1f} / {through['p95_ms']:.1f} / {through['p99_ms']:.1f} "
                    f"| {through['a_second']:.0f} "
                    f"| {through['failed']:.0f} | {through['with_facts']:.0f} of {len(asked)} |"
                )
            rows = measure({"direct": upstream, "proxy": address}, drawn[: options.requests], 1)
            added = rows["proxy"]["p50_ms"] - rows["direct"]["p50_ms"]
            print(f"\nthe same questions again, one at once, vectors cached: {added:.1f} ms added at the median")
            metrics = httpx2.get(f"{address}/metrics", trust_env=False).text.splitlines()
            print("\n".join(line for line in metrics if line.startswith(("kgedit_re", "kgedit_upstream"))))
        finally:
            proxy.terminate()
            model.terminate()
            proxy.wait(40)
            model.wait(10)


if __name__ == "__main__":
    serve_model() if sys.argv[1:] == ["--model"] else main()
