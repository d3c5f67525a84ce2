"""Sentence embeddings that are normalized means of a transformer's token vectors, such as those of all-MiniLM-L6-v2.

Computes what sentence-transformers does for such a folder, without importing it: the import brings scikit-learn, SciPy
and peft, and takes half of the time until the first vector of a process.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
