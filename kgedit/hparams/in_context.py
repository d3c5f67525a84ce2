"""Settings of retrieval, demonstrations and stated facts."""

from __future__ import annotations

from typing import Literal

from kgedit.hparams.settings import Settings, setting

_EMBEDDER = "embedder: all-minilm-l6-v2, character-ngrams, or a sentence-transformers model (folder or hub name)"

EmbedOn = Literal["device", "cpu"]
"""Device of an embedder: that of the model, or the CPU."""

_EMBED_ON = "device of the embedder: that of the model, or the CPU if GPU memory is short"


class PromptSettings(Settings):
    """Hyperparameters of prompting."""

    most: int = setting("maximum facts prepended to a prompt; the last ones if there are more", default=50, ge=1)


class IkeSettings(Settings):
    """Hyperparameters of in-context editing."""

    k: int = setting("demonstrations before an edit", default=16, ge=0)
    embedder: str = setting(_EMBEDDER, default="all-minilm-l6-v2")
    embed_on: EmbedOn = setting(_EMBED_ON, default="device")


class RagSettings(Settings):
    """Hyperparameters of retrieval."""

    k: int = setting("stored pairs prepended to a question", default=2, ge=1)
    embedder: str = setting(_EMBEDDER, default="all-minilm-l6-v2")
    embed_on: EmbedOn = setting(_EMBED_ON, default="device")
    wording: Literal["as_asked", "question_answer"] = setting(
        "wording of pairs: like the question of the context, or as Q: and A: before every prompt",
        default="as_asked",
    )
    index: Literal["exact", "hnsw"] = setting(
        "search for pairs: exact, or hnsw (approximate, for hundreds of thousands of pairs)", default="exact"
    )


class GraphRagSettings(Settings):
    """Hyperparameters of the graph memory."""

    k: int = setting("maximum facts prepended to a question", default=8, ge=1)
    hops: int = setting("maximum number of relations in a path", default=2, ge=1)
    gate: float = setting(
        "minimum probability that a path matches the question; below it nothing is prepended", default=0.5, ge=0, le=1
    )
    near: float = setting("maximum difference of a path's score from the best one", default=0.05, ge=0)
    misspelt: bool = setting("whether names with one wrong letter match if no exact name does", default=True)
    bridged: bool = setting("whether a second hop names in brackets how the first led to its subject", default=True)
    embedder: str = setting(_EMBEDDER, default="all-minilm-l6-v2")
    embed_on: EmbedOn = setting(_EMBED_ON, default="device")
