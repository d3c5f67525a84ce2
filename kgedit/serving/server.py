"""Runs the proxy until it is told to stop; requests that are being answered are answered first."""

from __future__ import annotations

import copy
import logging
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.config import LOGGING_CONFIG

from kgedit.errors import KgeditError
from kgedit.llm.embeddings import embedder_on_demand
from kgedit.memory.findings import Search
from kgedit.memory.gate import read_gate
from kgedit.serving.memories import ServedMemory
from kgedit.serving.metrics import Metrics
from kgedit.serving.proxy import BrokenAnswerError, ProxySettings, proxy_app

_SECONDS_TO_STOP = 30


def make_server(
    path: Path,
    settings: ProxySettings,
    *,
    host: str,
    port: int,
    search: Search,
    embedder: str,
    device: str,
) -> uvicorn.Server:
    """A server of a memory that is not running yet.

    Args:
        path: The memory's file.
        settings: How requests are passed on.
        host: Address to listen at.
        port: 0 for a free one.
        search: How questions are answered.
        embedder: As for kgedit.llm.embeddings.load_embedder.
        device: Where the embedder runs.

    Raises:
        KgeditError: if the upstream is no address, or the file holds no memory.
    """
    if not settings.upstream.startswith(("http://", "https://")):
        raise KgeditError(f"'{settings.upstream}' is no address of a server. Give one like http://127.0.0.1:8000/v1")
    metrics = Metrics()
    memory = ServedMemory(
        path,
        embedder_on_demand(embedder, device=device, reduced=True),
        gate=read_gate(embedder),
        search=search,
        metrics=metrics,
    )
    config = uvicorn.Config(
        proxy_app(memory, settings, metrics),
        host=host,
        port=port,
        access_log=False,
        log_level="info",
        log_config=_log_config(),
        timeout_graceful_shutdown=_SECONDS_TO_STOP,
        server_header=False,
        date_header=False,
    )
    return uvicorn.Server(config)


class _WithoutBrokenAnswers(logging.Filter):
    """Takes out the traceback of an answer that was broken off on purpose: one line of ours said so."""

    def filter(self, record: logging.LogRecord) -> bool:
        raised = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
        return not isinstance(raised, BrokenAnswerError)


def _log_config() -> dict[str, Any]:
    """uvicorn's own, on stderr, with the lines of kgedit.serving."""
    config = copy.deepcopy(LOGGING_CONFIG)
    config["filters"] = {"broken": {"()": _WithoutBrokenAnswers}}
    config["handlers"]["default"]["filters"] = ["broken"]
    config["loggers"]["kgedit.serving"] = {"handlers": ["default"], "level": "INFO", "propagate": False}
    return config
