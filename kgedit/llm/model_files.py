"""Files of a model: written atomically, so that a kill leaves no incomplete files, and identified by digests.

A digest covers everything that determines a model's answers: all bytes of its weights, its configuration, its
tokenizer. xxh3 runs at memory speed (14 GB/s on one core of an EPYC; SHA-256 0.9), so weights are hashed completely:
the 651 MB of SmolLM2-135M's state dict take 0.03 s of processor time.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import xxhash
from safetensors.torch import save_file

from kgedit.files import give_usual_modes, put_in_place, replace_file
from kgedit.llm.load_options import hide_progress_bars
from kgedit.llm.surgery.matrices import named_values
from kgedit.resources import cache


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

    Its files get the user's default permissions; safetensors would make them readable by the user only. A symbolic link
    stays, and the folder that it leads to is written.
    """
    hide_progress_bars()
    folder = Path(os.path.realpath(folder))
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


_UNRELATED = frozenset({"architectures", "dtype", "torch_dtype", "transformers_version", "use_cache"})
"""Configuration entries that affect no answer or are properties of the weights; so are all that begin with "_"."""

_STATE = frozenset({"padding", "truncation"})
"""Entries of a tokenizer that are set by calls and therefore are not part of its identity."""

_WEIGHT_FILES = ("*.safetensors", "*.bin", "*.gguf", "*.pt", "*.pth")


def tensor_digest(tensor: torch.Tensor) -> bytes:
    """xxh3-128 of all bytes of a tensor on any device, without its shape and number format."""
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return xxhash.xxh3_128_digest(flat.view(torch.uint8).numpy().data)


def weights_digest(module: torch.nn.Module) -> str:
    """Digest of the name, shape, number format and bytes of every parameter and saved buffer."""
    digest = hashlib.sha256()
    for name, tensor in named_values(module):
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype} ".encode() + tensor_digest(tensor))
    return digest.hexdigest()


def configuration_digest(config: Any) -> str:
    """Digest of a transformers configuration, without its origin."""
    return _json_digest(_related(json.loads(config.to_json_string(use_diff=False))))


def tokenizer_digest(tokenizer: Any) -> str:
    """Digest of a tokenizer: vocabulary, merges, normalisation, post-processing; for slow ones only the vocabulary."""
    fast = getattr(tokenizer, "backend_tokenizer", None)
    whole = tokenizer.get_vocab() if fast is None else json.loads(fast.to_str())
    return _json_digest({key: value for key, value in whole.items() if key not in _STATE})


def folder_digest(folder: Path) -> str:
    """Digest of the weight files and the configuration in a folder.

    A file is read once per machine: the digest is cached by path, size, modification time and inode.
    """
    paths = {path for pattern in (*_WEIGHT_FILES, "config.json") for path in folder.glob(pattern)}
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(f"{path.name} {_file_digest(path)}\n".encode())
    return digest.hexdigest()


def _file_digest(path: Path) -> str:
    found = path.resolve().stat()
    key = f"{path.resolve()} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns} {found.st_ino}"
    kept = cache() / "file-digests" / hashlib.sha256(key.encode()).hexdigest()[:32]
    try:
        return kept.read_text(encoding="ascii")
    except (FileNotFoundError, UnicodeDecodeError):
        pass
    digest = xxhash.xxh3_128()
    with path.open("rb") as file:
        while portion := file.read(2**24):
            digest.update(portion)
    kept.parent.mkdir(parents=True, exist_ok=True)
    replace_file(kept, digest.hexdigest())
    return digest.hexdigest()


def joined_digest(parts: Iterable[str]) -> str:
    """Combined digest for file names: 32 hexadecimal digits."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def _json_digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _related(value: Any) -> Any:
    if isinstance(value, list):
        return [_related(part) for part in value]
    if not isinstance(value, dict):
        return value
    return {key: _related(part) for key, part in value.items() if key not in _UNRELATED and not key.startswith("_")}
