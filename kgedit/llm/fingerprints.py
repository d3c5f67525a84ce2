"""Digests of everything that determines a model's answers: all bytes of its weights, its configuration, its tokenizer.

xxh3 runs at memory speed (14 GB/s on one core of an EPYC; SHA-256 0.9), so weights are hashed completely: the 651 MB of
SmolLM2-135M's state dict take 0.03 s of processor time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
import xxhash

from kgedit.files import replace_file
from kgedit.llm.surgery.matrices import named_values
from kgedit.resources import cache

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
