"""Stage of a question, by model state and timestep of the question."""

from __future__ import annotations

from collections.abc import Sequence

from kgedit.records.runs import ModelState
from kgedit.records.scores import EvaluationStage


def stage_of(model_state: ModelState, timestep: str, timesteps: Sequence[str]) -> EvaluationStage:
    """Return the stage of a question.

    Args:
        timestep: Timestep of the question.
        timesteps: All timesteps of the run, in the order of editing, followed by evaluated timesteps without edits.
    """
    if model_state.timestep is None:
        return "before"
    if model_state.edits is not None:
        return "partial"
    later = timesteps.index(model_state.timestep) - timesteps.index(timestep)
    return "own" if later == 0 else "retained" if later > 0 else "ahead"
