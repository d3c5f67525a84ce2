"""Logs metrics to trackio, which stores them locally ($TRACKIO_DIR, else its own folder): `trackio show` plots them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import trackio


class TrackioRun:
    """A run of trackio; satisfies kgedit.runs.tracking.Tracker.

    Args:
        run: Result of trackio.init.
    """

    def __init__(self, run: Any) -> None:
        self._run = run

    def log(self, metrics: Mapping[str, float], *, step: int) -> None:
        """Log metrics."""
        self._run.log(dict(metrics), step=step)

    def finish(self) -> None:
        """Write all pending metrics."""
        # The run's own method defers finishing to exit, and prints.
        trackio.finish()  # type: ignore[no-untyped-call]


def open_run(project: str, name: str, config: Mapping[str, Any]) -> TrackioRun:
    """Open a run, or continue an existing one of this name."""
    return TrackioRun(
        trackio.init(
            project=project,
            name=name,
            config=dict(config),
            resume="allow",
            embed=False,
            auto_log_gpu=False,
            auto_log_cpu=False,
        )
    )
