"""Logs metrics to Weights & Biases; without an account WANDB_MODE=offline stores them in a local folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import wandb

if TYPE_CHECKING:
    from kgedit.runs.tracking import Tracker


def open_run(project: str, name: str, config: Mapping[str, Any]) -> Tracker:
    """Open a run, or continue an existing one of this name."""
    run: Tracker = wandb.init(project=project, name=name, id=name, resume="allow", config=dict(config))
    return run
