"""The proxy started as by a user, in front of a real server: transformers serves smollm2-135m on this machine."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from openai import OpenAI
from world.small_memory import NORWAY, write_small_memory

from kgedit.llm.loading import BUILT_IN

pytestmark = [pytest.mark.models, pytest.mark.slow]


@contextmanager
def _proxy(memory: Path, upstream: str, log: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    command = [sys.executable, "-m", "kgedit", "memory", "serve", memory, "--upstream", upstream, "--port", "0"]
    with log.open("wb") as written:
        process = subprocess.Popen(
            [*map(str, command), "--embedder", "character-ngrams", "--gate", "0"],
            stderr=written,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
    try:
        yield _until(log, r"running on (http://\S+)"), process
    finally:
        process.terminate()
        process.wait(40)


def _until(log: Path, pattern: str, seconds: int = 60) -> str:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := re.search(pattern, log.read_text(errors="replace")):
            return found[1]
        time.sleep(0.1)
    pytest.fail(f"the proxy did not say {pattern}:\n{log.read_text(errors='replace')[-3000:]}")


def _answer(client: OpenAI, model: str, **options: Any) -> str:
    asked = [{"role": "user", "content": f"Answer with a name only.\n\n{NORWAY}"}]
    with client.chat.completions.create(
        model=model,
        messages=asked,  # type: ignore[arg-type]
        max_tokens=24,
        temperature=0,
        stream=True,
        **options,
    ) as pieces:
        return "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices)


def test_a_real_model_tells_the_facts_of_the_memory_and_of_the_next_one(
    tmp_path: Path, transformers_address: str
) -> None:
    model = BUILT_IN["smollm2-135m"](None, None).path_or_name
    memory, log = tmp_path / "facts.kgmemory", tmp_path / "proxy.log"
    write_small_memory(memory, leader="Zedrik Mollberg")
    with _proxy(memory, transformers_address, log) as (address, process):
        direct, proxied = (
            OpenAI(base_url=f"{url}/v1", api_key="s3cret", timeout=300) for url in (transformers_address, address)
        )
        assert "Mollberg" not in _answer(direct, model)
        assert "Mollberg" in _answer(proxied, model)

        write_small_memory(memory, leader="Ottilie Quist")
        process.send_signal(signal.SIGHUP)
        _until(log, r"(Reloaded)")
        assert "Quist" in _answer(proxied, model)
        assert httpx2.get(f"{address}/health", trust_env=False).json()["memory"]["facts"] == 3
        process.send_signal(signal.SIGTERM)
        assert process.wait(40) in (0, -signal.SIGTERM)
    assert "s3cret" not in log.read_text()
    assert "Traceback" not in log.read_text()
