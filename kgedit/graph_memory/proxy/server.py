"""Runs the proxy until it is stopped; requests in progress are completed first."""

from __future__ import annotations

import copy
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.config import LOGGING_CONFIG

from kgedit.graph_memory.findings import Search
from kgedit.graph_memory.gate import read_gate
from kgedit.graph_memory.matching import read_matcher
from kgedit.graph_memory.proxy.http import TimedProtocol
from kgedit.graph_memory.proxy.memories import ServedMemory
from kgedit.graph_memory.proxy.metrics import Metrics
from kgedit.graph_memory.proxy.proxy import BrokenAnswerError, ProxySettings, proxy_app
from kgedit.llm.embeddings import embedder_on_demand

_SECONDS_TO_STOP = 30
_MOST_CLIENTS = 1000
"""Connections at once; further ones get 503, because each may hold a body of `ProxySettings.most_bytes` in memory."""


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
    """Create a server for a memory file, without starting it.

    Args:
        path: Path of the memory file.
        settings: Settings of the proxy.
        host: Address to listen on.
        port: Port to listen on; 0 means any free port.
        search: Search options.
        embedder: See kgedit.llm.embeddings.load_embedder.
        device: Device of the embedder.

    Raises:
        KgeditError: if the upstream is not a valid address, or the file is not a memory.
    """
    metrics = Metrics()
    memory = ServedMemory(
        path,
        embedder_on_demand(embedder, device=device, reduced=True),
        gate=read_gate(embedder),
        search=search,
        metrics=metrics,
        matcher=read_matcher(embedder),
    )
    # The address to listen on is an allowed host name too; 0.0.0.0 and :: are not names.
    settings = replace(settings, hosts=(*settings.hosts, host))
    config = uvicorn.Config(
        proxy_app(memory, settings, metrics),
        host=host,
        port=port,
        http=TimedProtocol,
        ws="none",
        limit_concurrency=_MOST_CLIENTS,
        access_log=False,
        log_level="info",
        log_config=_log_config(),
        timeout_graceful_shutdown=_SECONDS_TO_STOP,
        server_header=False,
        date_header=False,
    )
    return uvicorn.Server(config)


class _WithoutBrokenAnswers(logging.Filter):
    """Removes the traceback of a response that was broken off on purpose; the proxy has logged one line."""

    def filter(self, record: logging.LogRecord) -> bool:
        raised = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
        return not isinstance(raised, BrokenAnswerError)


def _log_config() -> dict[str, Any]:
    """uvicorn's logging configuration, on stderr, extended by the logger kgedit.graph_memory.proxy."""
    config = copy.deepcopy(LOGGING_CONFIG)
    config["filters"] = {"broken": {"()": _WithoutBrokenAnswers}}
    config["handlers"]["default"]["filters"] = ["broken"]
    config["loggers"]["kgedit.graph_memory.proxy"] = {"handlers": ["default"], "level": "INFO", "propagate": False}
    return config
