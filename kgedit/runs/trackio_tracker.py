"""Metrics into trackio, which keeps them in a local folder ($TRACKIO_DIR, else its own): `trackio show` draws them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import trackio


class TrackioRun:
    """A run of trackio; satisfies kgedit.runs.tracking.Tracker.

    Args:
        run: As trackio.init gives it.
    """

    def __init__(self, run: Any) -> None:
        self._run = run

    def log(self, metrics: Mapping[str, float], *, step: int) -> None:
        """Take metrics."""
        self._run.log(dict(metrics), step=step)

    def finish(self) -> None:
        """Write what is not written yet."""
        # The run's own method leaves it to be finished at exit, aloud.
        trackio.finish()  # type: ignore[no-untyped-call]


def open_run(project: str, name: str, config: Mapping[str, Any]) -> TrackioRun:
    """Open a run, or continue the one of this name."""
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
