"""Device and number format of a model, and its limits: the batch size that fits, and the error if nothing fits.

After out of memory in a long run, the batch size is halved and kept for the rest of the process; only an item that does
not fit alone is an error. Smaller batches change results in the last bits, so a warning is logged.
"""

from __future__ import annotations

import ctypes
import platform
import resource
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import torch

from kgedit.errors import ModelError

ALL_GPUS = "cuda:all"
"""Device name for all GPUs of a machine: a model's blocks are distributed over them."""


_WITHOUT_FLOAT64 = {"mps"}
"""Device types without float64 tensors."""


DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def resolve_device(device: str) -> str:
    """Resolve "auto" to "cuda" with an NVIDIA or AMD GPU, "mps" with an Apple GPU, else "cpu".

    Raises:
        ModelError: if the device is unknown or not available.
    """
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "mps" if _has_mps() else "cpu"
    kind, _, index = device.partition(":")
    if device == ALL_GPUS:
        index = "0"
    if kind not in ("cpu", "cuda", "mps") or (index and not index.isdigit()):
        raise ModelError(f"There is no device '{device}'. Use auto, cpu, cuda, cuda:N, {ALL_GPUS} or mps.")
    if kind == "mps" and not _has_mps():
        raise ModelError("The device 'mps' needs a Mac with a GPU that torch supports. Use --device cpu or auto.")
    count = torch.cuda.device_count() if kind == "cuda" else 1
    if int(index or 0) >= count:
        raise ModelError(f"The device '{device}' is not there: torch sees {count} GPUs. Use --device cpu or auto.")
    return device


def resolve_dtype(dtype: str, device: str) -> str:
    """Resolve "auto" to bfloat16 on a GPU that computes in it, float16 on an older one, float32 elsewhere.

    Apple's GPUs also get float32: they share the main memory, macOS lacks some products in bfloat16, and float16
    overflows in some models. Choose float16 to halve memory use.

    Raises:
        ModelError: if the name is unknown.
    """
    if dtype == "auto":
        if not device.startswith("cuda"):
            return "float32"
        return "bfloat16" if _computes_bfloat16(device) else "float16"
    if dtype not in DTYPES:
        raise ModelError(f"There is no dtype '{dtype}'. Use auto, {', '.join(DTYPES)}.")
    return dtype


def _has_mps() -> bool:
    return torch.backends.mps.is_available()


def _computes_bfloat16(device: str) -> bool:
    """Whether every GPU of a device has instructions for bfloat16: T4 and V100 only emulate them, many times slower."""
    index = device.partition(":")[2]
    chosen = range(torch.cuda.device_count()) if device == ALL_GPUS else [int(index or torch.cuda.current_device())]
    for gpu in chosen:
        with torch.cuda.device(gpu):  # torch reports on the current one
            if not torch.cuda.is_bf16_supported(including_emulation=False):
                return False
    return True


def float64_device(device: torch.device) -> torch.device:
    """Device on which numbers are converted to float64: the CPU for Apple's GPUs, which have none."""
    return torch.device("cpu") if device.type in _WITHOUT_FLOAT64 else device


def device_for(dtype: torch.dtype, device: torch.device) -> torch.device:
    """Device on which tensors of a number format are kept: the CPU if the given one lacks the format."""
    return float64_device(device) if dtype == torch.float64 else device


def in_float64(tensor: torch.Tensor) -> torch.Tensor:
    """Convert a tensor to float64, on its device or on that of `float64_device`."""
    return tensor.to(float64_device(tensor.device)).double()


@contextmanager
def enough_memory(doing: str) -> Iterator[None]:
    """Turn "out of memory" into an error that names the options that help."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise ModelError(
            f"The GPU's memory is too small for {doing}. Try --device {ALL_GPUS} where there are several, "
            f"--dtype bfloat16, a smaller --batch-tokens, a smaller --batch-size or --set batch=N, a smaller model, "
            f"or --device cpu. ({str(error).splitlines()[0]})"
        ) from error


@contextmanager
def half_of_the_threads() -> Iterator[int]:
    """Compute with half of PyTorch's threads inside the context, beside another process; the value is their number."""
    before = torch.get_num_threads()
    torch.set_num_threads(half := max(1, before // 2))
    try:
        yield half
    finally:
        torch.set_num_threads(before)


def device_name(device: str) -> str:
    """The product name of the device."""
    if device == ALL_GPUS:
        return ", ".join(torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count()))
    if device.startswith("mps"):
        return f"Apple GPU ({platform.processor() or platform.machine()})"
    return torch.cuda.get_device_name(device) if device.startswith("cuda") else platform.processor() or "cpu"


def avoid_slow_attention() -> None:
    """Leave attention on GPUs to torch's own kernels, in the whole process.

    cuDNN builds an execution plan for every new shape, and each decoded token has a new one. That takes 46 ms on an
    H100, almost half of a decoding step.
    """
    torch.backends.cuda.enable_cudnn_sdp(False)


def wait_for(device: str) -> None:
    """Wait for the GPUs to finish; otherwise a timing covers only the launch of their work."""
    if device == ALL_GPUS:
        for index in range(torch.cuda.device_count()):
            torch.cuda.synchronize(index)
    elif device.startswith("cuda"):
        torch.cuda.synchronize(device)
    elif device.startswith("mps"):
        torch.mps.synchronize()


def peak_memory_bytes(device: str) -> int:
    """Peak memory so far: torch's on one GPU or summed over all, else the process's (Apple's GPUs share it)."""
    if device == ALL_GPUS:
        return sum(torch.cuda.max_memory_allocated(index) for index in range(torch.cuda.device_count()))
    if device.startswith("cuda"):
        return torch.cuda.max_memory_allocated(device)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # getrusage counts bytes on macOS and kilobytes elsewhere.
    return peak if sys.platform == "darwin" else peak * 1024


def forget_peak_memory(device: str) -> None:
    """Reset `peak_memory_bytes`, for another run in the same process.

    On the CPU this needs Linux; elsewhere, and if its proc file is not writable, the peak remains that of the whole
    process. Freed memory is first returned to the system: glibc keeps much of it, which would count towards the next
    run.
    """
    if device.startswith("cuda"):
        # Before the first use of a GPU there is no peak, and torch refuses the device ("Invalid device argument").
        used = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
        for index in range(torch.cuda.device_count() if used else 0):
            torch.cuda.reset_peak_memory_stats(index)
    else:
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
        with suppress(OSError):
            # 5 resets the peak of the resident memory (proc_pid_clear_refs(5)).
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


Result = TypeVar("Result")


@dataclass(slots=True)
class BatchLimit:
    """Largest batch size known to fit.

    Attributes:
        what: Description of the unit: "tokens of questions".
        most: The limit; None as long as everything has fitted.
    """

    what: str
    most: int | None = None

    def run(self, at_once: int, work: Callable[[int], Result], *, least: int = 1) -> Result:
        """Call `work` with a batch size, and again with a smaller one if memory runs out.

        Args:
            at_once: Initial batch size, unless a smaller limit is known.
            work: Called again from the beginning after running out of memory.
            least: Smallest possible batch size.

        Raises:
            torch.OutOfMemoryError: if `least` does not fit.
        """
        size = max(least, at_once if self.most is None else min(at_once, self.most))
        while True:
            try:
                return work(size)
            except torch.OutOfMemoryError:
                if size <= least:
                    raise
            # Outside of `except`, because the error's traceback references the tensors of the attempt.
            size = self.most = max(least, size // 2)
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
            warnings.warn(
                f"The GPU's memory was too small: from now on at most {size} {self.what} at once", stacklevel=2
            )
