"""Settings of retrieval, demonstrations and stated facts."""

from __future__ import annotations

from dataclasses import dataclass

from kgedit.hparams.settings import Bounds, setting

EMBEDDER_MEANING = "all-minilm-l6-v2, character-ngrams, or a sentence-transformers model (folder or hub name)"
VECTOR_INDEXES = ("exact", "hnsw")


@dataclass(frozen=True, slots=True)
class PromptSettings:
    """Hyperparameters of prompting."""

    most: int = setting(50, "facts put ahead of a prompt; of more, the last ones", bounds=Bounds(least=1))


@dataclass(frozen=True, slots=True)
class IkeSettings:
    """Hyperparameters of in-context editing."""

    k: int = setting(16, "demonstrations ahead of an edit", bounds=Bounds(least=0))
    embedder: str = setting("all-minilm-l6-v2", EMBEDDER_MEANING)


@dataclass(frozen=True, slots=True)
class RagSettings:
    """Hyperparameters of retrieval."""

    k: int = setting(2, "remembered pairs put ahead of a question", bounds=Bounds(least=1))
    embedder: str = setting("all-minilm-l6-v2", EMBEDDER_MEANING)
    index: str = setting(
        "exact",
        "how pairs are looked for: exact, or hnsw, approximate, for hundreds of thousands",
        choices=VECTOR_INDEXES,
    )
