"""Seeds derived from the cases being edited, so that a resumed run draws the same numbers as an uninterrupted one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

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
