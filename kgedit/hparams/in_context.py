"""Settings of retrieval, demonstrations and stated facts."""

from __future__ import annotations

from typing import Literal

from kgedit.hparams.settings import Settings, setting

_EMBEDDER = "all-minilm-l6-v2, character-ngrams, or a sentence-transformers model (folder or hub name)"

EmbedOn = Literal["device", "cpu"]
"""Where an embedder runs."""

_EMBED_ON = "where the embedder runs: with the model, or on the CPU, where the GPU's memory is short"


class PromptSettings(Settings):
    """Hyperparameters of prompting."""

    most: int = setting("facts put ahead of a prompt; of more, the last ones", default=50, ge=1)


class IkeSettings(Settings):
    """Hyperparameters of in-context editing."""

    k: int = setting("demonstrations ahead of an edit", default=16, ge=0)
    embedder: str = setting(_EMBEDDER, default="all-minilm-l6-v2")
    embed_on: EmbedOn = setting(_EMBED_ON, default="device")


class RagSettings(Settings):
    """Hyperparameters of retrieval."""

    k: int = setting("remembered pairs put ahead of a question", default=2, ge=1)
    embedder: str = setting(_EMBEDDER, default="all-minilm-l6-v2")
    embed_on: EmbedOn = setting(_EMBED_ON, default="device")
    wording: Literal["as_asked", "question_answer"] = setting(
        "how pairs are worded: as the context words its own question, or as Q: and A: ahead of every prompt",
        default="as_asked",
    )
    index: Literal["exact", "hnsw"] = setting(
        "how pairs are looked for: exact, or hnsw, approximate, for hundreds of thousands", default="exact"
    )


class GraphRagSettings(Settings):
    """Hyperparameters of the graph memory."""

    k: int = setting("remembered facts put ahead of a question, at most", default=8, ge=1)
    hops: int = setting("relations of the longest path that is walked", default=2, ge=1)
    gate: float = setting(
        "least probability that a path is what is asked for; below it nothing is put ahead", default=0.5, ge=0, le=1
    )
    near: float = setting("paths are taken that score at most this much less than the best one", default=0.05, ge=0)
    misspelt: bool = setting("whether names with one wrong letter are found where no other is", default=True)
    bridged: bool = setting("whether a second hop says in brackets how the first one led to its subject", default=True)
    embedder: str = setting(_EMBEDDER, default="all-minilm-l6-v2")
    embed_on: EmbedOn = setting(_EMBED_ON, default="device")
