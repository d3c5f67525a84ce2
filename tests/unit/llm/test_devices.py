"""Peak memory of one run among several in a process, and the device of each number format."""

from __future__ import annotations

import platform
import sys

import pytest
import torch

from kgedit.llm.devices import device_for, forget_peak_memory, peak_memory_bytes


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the peak is that of the whole process")
def test_a_peak_that_is_forgotten_does_not_count_for_the_next_run() -> None:
    forget_peak_memory("cpu")
    before = peak_memory_bytes("cpu")
    large = torch.ones(100_000_000)
    during = peak_memory_bytes("cpu")
    del large
    forget_peak_memory("cpu")
    after = peak_memory_bytes("cpu")

    assert during - before > 300e6
    assert during - after > 300e6


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc keeps what was freed")
def test_what_an_earlier_run_freed_does_not_count_for_the_next() -> None:
    forget_peak_memory("cpu")
    before = peak_memory_bytes("cpu")
    blocks = [torch.ones(16_000) for _ in range(3_000)]  # small ones, 183 MiB, which do not go back by themselves
    del blocks[:-1]
    forget_peak_memory("cpu")
    assert peak_memory_bytes("cpu") - before < 90 * 2**20


def test_a_gpu_that_was_not_used_yet_has_no_peak_to_forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch refuses to reset the peak of a device before CUDA is initialised, as in the first run of a sweep."""

    def refuse(index: int) -> None:
        raise RuntimeError("Invalid device argument")

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", refuse)
    forget_peak_memory("cuda")

    reset: list[int] = []
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", reset.append)
    forget_peak_memory("cuda")
    assert reset == [0]


@pytest.mark.parametrize(
    ("dtype", "device", "kept_on"),
    [
        (torch.float32, "mps", "mps"),
        (torch.bfloat16, "mps", "mps"),
        (torch.float64, "mps", "cpu"),
        (torch.float64, "cuda:1", "cuda:1"),
        (torch.float32, "cuda:1", "cuda:1"),
    ],
)
def test_only_formats_that_a_device_lacks_are_kept_on_the_cpu(dtype: torch.dtype, device: str, kept_on: str) -> None:
    assert device_for(dtype, torch.device(device)) == torch.device(kept_on)
