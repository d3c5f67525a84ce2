"""Vectors of a fixed list of texts, kept on disk, so that a new process reads them instead of computing them.

A file is named by a hash of the texts and of everything that changes a vector: the model's files, the versions of the
packages that compute it, its precision and the processor's instructions. Files are therefore never updated, and the
folder can be deleted at any time.
"""

from __future__ import annotations

import hashlib
import json
import logging
import platform
from collections.abc import Callable, Sequence
from importlib.metadata import version
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kgedit.files import replace_file
from kgedit.resources import cache

LOG = logging.getLogger("kgedit.llm")

_PACKAGES = ("torch", "transformers", "sentence-transformers", "tokenizers")


def read_or_compute(
    texts: Sequence[str], compute: Callable[[Sequence[str]], NDArray[np.float32]], *, model: Path, reduced: bool
) -> NDArray[np.float32]:
    """Vectors of texts from the cache folder; computed and written there if it has none, or only a damaged file.

    Args:
        texts: The texts.
        compute: Embedder on the CPU: texts -> (texts, dimensions).
        model: Folder of the embedder's files.
        reduced: Whether it computes in bfloat16 where the processor can.
    """
    path = cache() / "vectors" / f"{_key(texts, model, reduced=reduced)}.npy"
    stored = _read(path, len(texts))
    if stored is not None:
        return stored
    vectors = compute(texts)
    _write(path, vectors)
    return vectors


def _key(texts: Sequence[str], model: Path, *, reduced: bool) -> str:
    import torch

    files = sorted(path for path in model.rglob("*") if path.is_file())
    identity = {
        "texts": hashlib.sha256(json.dumps(list(texts)).encode()).hexdigest(),
        # Size and time instead of a hash: hashing the weights takes longer than reading the vectors.
        "model": [[path.relative_to(model).as_posix(), path.stat().st_size, path.stat().st_mtime_ns] for path in files],
        "packages": {name: version(name) for name in _PACKAGES},
        "reduced": reduced,
        "processor": [platform.machine(), torch.backends.cpu.get_cpu_capability()],
    }
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()


def _read(path: Path, texts: int) -> NDArray[np.float32] | None:
    """The vectors of a file; None if it is missing or damaged."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    digest, body = content[:32], content[32:]
    if hashlib.sha256(body).digest() != digest:
        LOG.warning("%s is damaged; it is written again.", path)
        return None
    vectors: NDArray[np.float32] = np.load(BytesIO(body), allow_pickle=False)
    return vectors if len(vectors) == texts else None


def _write(path: Path, vectors: NDArray[np.float32]) -> None:
    body = BytesIO()
    np.save(body, vectors, allow_pickle=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, hashlib.sha256(body.getvalue()).digest() + body.getvalue(), durable=False)
    except OSError as error:
        LOG.info("Vectors were not stored in %s: %s", path.parent, error)
