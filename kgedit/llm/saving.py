"""Model files that appear only when whole, so that a kill leaves nothing half-written."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file


def save_tensors(path: Path, tensors: Mapping[str, torch.Tensor], metadata: dict[str, str] | None = None) -> None:
    """Write a safetensors file, with its folder where that is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.partial-{os.getpid()}")
    save_file({name: tensor.contiguous().cpu() for name, tensor in tensors.items()}, partial, metadata=metadata)
    partial.replace(path)


def save_whole(folder: Path, parts: Sequence[Any]) -> None:
    """Save a tokenizer, a model, or anything with ``save_pretrained``, into one folder."""
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()  # type: ignore[no-untyped-call]
    partial = folder.with_name(f"{folder.name}.partial-{os.getpid()}")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    for part in parts:
        part.save_pretrained(partial)
    try:
        partial.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise
        # Another process was quicker; both wrote the same.
        shutil.rmtree(partial)
