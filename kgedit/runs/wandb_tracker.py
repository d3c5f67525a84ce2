"""Metrics into Weights & Biases; without an account WANDB_MODE=offline keeps them in a local folder.

It prints to stdout, which is for results: what it says goes to stderr.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from typing import Any

import wandb


class WandbRun:
    """A run of wandb; satisfies kgedit.runs.tracking.Tracker.

    Args:
        run: As wandb.init gives it.
    """

    def __init__(self, run: Any) -> None:
        self._run = run

    def log(self, metrics: Mapping[str, float], *, step: int) -> None:
        """Take metrics."""
        with redirect_stdout(sys.stderr):
            self._run.log(dict(metrics), step=step)

    def finish(self) -> None:
        """Write what is not written yet."""
        with redirect_stdout(sys.stderr):
            self._run.finish()


def open_run(project: str, name: str, config: Mapping[str, Any]) -> WandbRun:
    """Open a run, or continue the one of this name."""
    with redirect_stdout(sys.stderr):
        return WandbRun(wandb.init(project=project, name=name, id=name, resume="allow", config=dict(config)))
