"""Settings of retrieval, demonstrations and stated facts."""

from __future__ import annotations

from typing import Literal

from kgedit.hparams.settings import Settings, setting

_EMBEDDER = "all-minilm-l6-v2, character-ngrams, or a sentence-transformers model (folder or hub name)"


class PromptSettings(Settings):
    """Hyperparameters of prompting."""

    most: int = setting("facts put ahead of a prompt; of more, the last ones", default=50, ge=1)


class IkeSettings(Settings):
    """Hyperparameters of in-context editing."""

    k: int = setting("demonstrations ahead of an edit", default=16, ge=0)
    embedder: str = setting(_EMBEDDER, default="all-minilm-l6-v2")


class RagSettings(Settings):
    """Hyperparameters of retrieval."""

    k: int = setting("remembered pairs put ahead of a question", default=2, ge=1)
    embedder: str = setting(_EMBEDDER, default="all-minilm-l6-v2")
    index: Literal["exact", "hnsw"] = setting(
        "how pairs are looked for: exact, or hnsw, approximate, for hundreds of thousands", default="exact"
    )
