"""Search for values in stages, each in the model changed by the previous one, resumable in any of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from kgedit.editing.editor import EditorState, RunContext
from kgedit.editing.locate_then_edit.value_search import FoundValues


def search_stage(
    search: Callable[[RunContext], FoundValues],
    earlier: Sequence[FoundValues],
    *,
    stages: int,
    run: RunContext,
    device: torch.device,
) -> FoundValues:
    """Search one stage, or load its values from a checkpoint written in a later one.

    Args:
        search: Search of the stage, itself resumable.
        earlier: Results of earlier stages; included in checkpoints so that they need not be searched again.
        stages: Number of stages.
        device: Device of the values.
    """
    stage, done = len(earlier), len(run.resume.record.get("earlier", ())) if run.resume else 0
    if run.resume is not None and stage < done:
        before, added = (run.resume.tensors[f"{stage}.{name}"].to(device) for name in ("before", "added"))
        return FoundValues(before, added, tuple(run.resume.record["earlier"][stage]))

    def with_earlier(state: EditorState) -> EditorState:
        tensors = dict(state.tensors)
        for index, found in enumerate(earlier):
            tensors |= {f"{index}.before": found.before.clone(), f"{index}.added": found.added.clone()}
        return EditorState(tensors, {**state.record, "earlier": [list(found.losses) for found in earlier]})

    return search(
        replace(
            run,
            progress=lambda share: run.progress((stage + share) / stages),
            checkpoint=lambda state: run.checkpoint(lambda: with_earlier(state())),
            resume=run.resume if stage == done else None,
        )
    )
