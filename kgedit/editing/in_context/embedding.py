"""Embedder of retrieval methods, and its device."""

from __future__ import annotations

from kgedit.hparams.in_context import EmbedOn
from kgedit.llm.embeddings import Embedder, embedder_on_demand
from kgedit.llm.language_model import LanguageModel


def embedder_beside(model: LanguageModel, name: str, *, on: EmbedOn) -> Embedder:
    """Create an embedder that is loaded on its first call.

    Args:
        model: With "device", the embedder is on the model's input device, also after the model is moved.
        name: See `kgedit.llm.embeddings.load_embedder`.
        on: "device" or "cpu".
    """
    return embedder_on_demand(name, device="cpu" if on == "cpu" else lambda: str(model.device))
