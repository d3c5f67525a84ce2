"""Folders of model files that appear only when whole, so that a killed conversion leaves nothing half-written."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def save_whole(folder: Path, parts: Sequence[Any]) -> None:
    """Save a tokenizer, a model, or whatever has ``save_pretrained``, into one folder."""
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
