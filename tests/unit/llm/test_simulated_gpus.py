"""The simulated GPUs refuse what CUDA refuses, and runs on them go as on a GPU."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from world.other_devices import gpus
from world.small_models import save, small_model
from world.small_timestep import write_timestep

from kgedit.llm.generation import Question, ask
from kgedit.llm.load_options import LoadOptions
from kgedit.llm.loading import load_model
from kgedit.llm.presets import PRESETS

ROOT = Path(__file__).parents[3]
CHECK: Any = runpy.run_path(str(ROOT / "docs" / "gpu_check.py"))
BRIEF = replace(PRESETS["wild_line"], max_new_tokens=4)

REFUSED: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "sum of two devices": lambda here, there: here + there,
    "product of two devices": lambda here, there: there @ here,
    "rows of two devices": lambda here, there: torch.cat([there, here]),
    "a list with a number of the CPU": lambda here, there: torch.stack([there.sum(), here.sum()]),
    "tensor of the CPU with indices of a GPU": lambda here, there: here[there.long()],
    "rows of the CPU written to a GPU": lambda here, there: there.index_put_((torch.tensor([0]),), here[:1]),
    "number of the CPU changed by one of a GPU": lambda here, there: here.sum().add_(there.sum()),
    "product of integers": lambda _, there: there.long() @ there.long(),
    "generator of the CPU": lambda _, there: torch.rand(2, device=there.device, generator=torch.Generator()),
    "draws with a generator of the CPU": lambda _, there: there.abs().multinomial(1, generator=torch.Generator()),
    "numpy": lambda _, there: there.numpy(),
    "a second GPU": lambda _, there: there + there.to("cuda:1"),
}

ACCEPTED: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "sum with a number of the CPU": lambda here, there: there + here.sum(),
    "indices of the CPU": lambda _, there: there[torch.tensor([0])],
    "number of the CPU written to a GPU": lambda _, there: there.index_put_((torch.tensor([0]),), torch.tensor(1.0)),
    "another device by its name": lambda here, there: here.to("cuda") + there,
    "a new tensor by the GPU's index": lambda _, there: torch.zeros(2, 2, device=0) + there,
    "gradients": lambda _, there: torch.autograd.grad((there.requires_grad_() ** 2).sum(), there)[0],
    "random numbers": lambda _, there: torch.rand(2, 2, device=there.device) + there,
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cuda_refuses_is_refused(what: str) -> None:
    with gpus() as (first, _):
        here = torch.ones(2, 2)
        with pytest.raises((RuntimeError, TypeError)):
            REFUSED[what](here, here.to(first))


@pytest.mark.parametrize("what", ACCEPTED)
def test_what_cuda_accepts_is_computed(what: str) -> None:
    with gpus() as (first, _):
        here = torch.ones(2, 2)
        found = ACCEPTED[what](here, here.to(first))
        assert found.device == first
        assert found.is_cuda
        assert bool(found.cpu().isfinite().all())


@pytest.mark.skipif(not torch.backends.cuda.is_built(), reason="this torch does not know which kernels CUDA has")
def test_an_operation_without_a_cuda_kernel_is_refused() -> None:
    with gpus() as (first, _), pytest.raises(NotImplementedError, match="no CUDA kernel"):
        torch.histogram(torch.ones(4).to(first), bins=2)


def test_outside_of_the_simulation_there_is_no_gpu() -> None:
    before = torch.cuda.is_available()
    with gpus() as (first, _):
        assert torch.cuda.is_available()
        left = torch.ones(2).to(first)
    assert torch.cuda.is_available() == before
    assert left.device.type != "cuda"


@pytest.mark.slow
def test_the_check_runs_on_a_gpu_and_finds_the_same_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `make gpu-check` does for one method: two whole runs, with checkpoints, seeds and measured memory."""
    monkeypatch.setenv("KGEDIT_HOME", str(tmp_path / "home"))
    write_timestep(tmp_path / "timestep", towns=range(4))
    model = str(save(small_model(), tmp_path / "model"))
    with gpus():
        found = CHECK["run_both"](tmp_path / "timestep", model, "ft_m", tmp_path / "out", devices=("cpu", "cuda"))
        section = CHECK["table"]([found], device=CHECK["device_name"]("cuda"))
    assert found.agrees
    assert found.answers > 10
    assert "On simulated GPU" in section


@pytest.mark.parametrize(
    ("max_memory", "expected"),
    [
        ("", {"cuda:0", "cuda:1"}),
        ("0=120KB,cpu=1GB", {"cuda:0", "meta"}),
        ("0=100KB,1=60KB,cpu=1GB", {"cuda:0", "cuda:1", "meta"}),
    ],
)
def test_a_model_is_spread_over_gpus_and_main_memory(max_memory: str, expected: set[str], tmp_path: Path) -> None:
    questions = [Question("Who is the mayor of Mora?", "Asta Wik")]
    answers = [reply.text for reply in ask(small_model(), questions, BRIEF)]
    folder = save(small_model(), tmp_path / "model")
    with gpus() as devices:
        model = load_model(str(folder), device="cuda:all", dtype="float32", options=LoadOptions(max_memory=max_memory))
        assert {str(parameter.device) for parameter in model.module.parameters()} == expected
        assert model.device in devices
        assert [reply.text for reply in ask(model, questions, BRIEF)] == answers
