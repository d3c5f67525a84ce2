"""Code shared by training methods: seeds, examples from cases, and resuming within a call.

Seeds are derived from the cases being edited, so that a resumed run draws the same numbers as an uninterrupted one. A
training state has weights, optimizer and random state at the end of an epoch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from kgedit.editing.editor import EditorState
from kgedit.llm.contexts import Context
from kgedit.records.cases import Case


def seed_for(seed: int, cases: Sequence[Case]) -> int:
    """Derive a seed for one call of ``apply`` from the run's seed and the cases."""
    names = "\n".join(f"{case.timestep} {case.case_id}" for case in cases)
    return int.from_bytes(hashlib.sha256(f"{seed}\n{names}".encode()).digest()[:6], "big")


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Context in which torch is seeded; the caller's random state is restored afterwards."""
    # A model may be distributed over all GPUs.
    devices = list(range(torch.cuda.device_count())) if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        yield


def examples(cases: Sequence[Case], contexts: Sequence[Context]) -> list[tuple[str, str]]:
    """Build (prompt, answer) pairs for every case in every context, case by case."""
    return [(context.prompt(case.question), case.answer) for case in cases for context in contexts]


def smaller_batch(batch: int, *, count: int, epochs: int, least_steps: int) -> int:
    """Number of examples per step: `batch`, or fewer so that all epochs over `count` examples have `least_steps`."""
    return min(batch, max(1, count * epochs // least_steps)) if least_steps else batch


def training_state(
    optimizer: torch.optim.Optimizer, *, epochs: int, scaler: torch.amp.GradScaler | None = None
) -> EditorState:
    """Copy the trained parameters, the optimizer's state and torch's random state after a number of epochs.

    Args:
        scaler: Loss scaler; its state is included if it is enabled.
    """
    own = _parameters(optimizer)
    tensors = {f"weight.{index}": parameter.detach().clone() for index, parameter in enumerate(own)}
    for index, values in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{name}": value.detach().clone() for name, value in values.items()}
    tensors["random.cpu"] = torch.get_rng_state()
    tensors |= {f"random.{device}": torch.cuda.get_rng_state(device) for device in _gpus(own)}
    scale = {"scale": scaler.state_dict()} if scaler and scaler.is_enabled() else {}
    return EditorState(tensors, {"epochs": epochs, **scale})


def resume_training(
    optimizer: torch.optim.Optimizer, state: EditorState, *, scaler: torch.amp.GradScaler | None = None
) -> int:
    """Load a saved state into a new optimizer of the same parameters; returns the number of finished epochs."""
    own = _parameters(optimizer)
    with torch.no_grad():
        for index, parameter in enumerate(own):
            parameter.copy_(state.tensors[f"weight.{index}"])
    values: dict[int, dict[str, torch.Tensor]] = {}
    for key, tensor in state.tensors.items():
        kind, _, rest = key.partition(".")
        if kind == "optimizer":
            number, _, name = rest.partition(".")
            values.setdefault(int(number), {})[name] = tensor
    optimizer.load_state_dict({**optimizer.state_dict(), "state": values})
    torch.set_rng_state(state.tensors["random.cpu"])
    for device in _gpus(own):
        torch.cuda.set_rng_state(state.tensors[f"random.{device}"], device)
    if scaler is not None and "scale" in state.record:
        scaler.load_state_dict(state.record["scale"])
    epochs: int = state.record["epochs"]
    return epochs


def _parameters(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _gpus(parameters: list[torch.Tensor]) -> list[torch.device]:
    return sorted({parameter.device for parameter in parameters if parameter.is_cuda}, key=str)
