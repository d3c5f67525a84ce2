"""The embedder of methods that retrieve: where it runs."""

from __future__ import annotations

from kgedit.hparams.in_context import EmbedOn
from kgedit.llm.embeddings import Embedder, embedder_on_demand
from kgedit.llm.language_model import LanguageModel


def embedder_beside(model: LanguageModel, name: str, *, on: EmbedOn) -> Embedder:
    """An embedder that is loaded on its first call.

    Args:
        model: Under "device" the embedder is wherever the model reads its tokens, also after the model was moved.
        name: As for kgedit.llm.embeddings.load_embedder.
        on: "device" or "cpu".
    """
    return embedder_on_demand(name, device="cpu" if on == "cpu" else lambda: str(model.device))
