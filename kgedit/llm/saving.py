"""Writes model files atomically, so that a kill leaves no incomplete files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import save_file

from kgedit.files import give_usual_modes, put_in_place
from kgedit.llm.load_options import hide_progress_bars

if TYPE_CHECKING:
    from kgedit.llm.language_model import LanguageModel


def save_tensors(path: Path, tensors: Mapping[str, torch.Tensor], metadata: dict[str, str] | None = None) -> None:
    """Write a safetensors file, creating its folder if needed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.partial-{os.getpid()}")
    save_file({name: tensor.contiguous().cpu() for name, tensor in tensors.items()}, partial, metadata=metadata)
    put_in_place(partial, path)


def save_whole(folder: Path, parts: Sequence[Any]) -> None:
    """Save objects with ``save_pretrained``, such as a tokenizer and a model, into one folder."""
    with whole_folder(folder) as partial:
        for part in parts:
            part.save_pretrained(partial)


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder that is renamed to `folder` when the context ends without an error.

    Its files get the user's default permissions; safetensors would make them readable by the user only.
    """
    hide_progress_bars()
    partial = folder.with_name(f"{folder.name}.partial-{os.getpid()}")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        yield partial
    except BaseException:
        shutil.rmtree(partial)
        raise
    give_usual_modes(partial)
    try:
        put_in_place(partial, folder)
    except OSError:
        if not folder.is_dir():
            raise
        # Another process was faster; both wrote the same content.
        shutil.rmtree(partial)


def save_pretrained(model: LanguageModel, folder: Path) -> None:
    """Save a model and its tokenizer in the format of transformers."""
    for part in (model.tokenizer, model.module):
        part.save_pretrained(folder)
