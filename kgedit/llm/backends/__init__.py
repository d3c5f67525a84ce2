"""Backends that answer questions for a model: transformers or vLLM in this process, or a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kgedit.registry import Registry

if TYPE_CHECKING:
    from kgedit.llm.backends.contract import Backend

BACKENDS: Registry[type[Backend]] = Registry(
    "backend",
    {
        "transformers": "kgedit.llm.backends.contract:TransformersBackend",
        "vllm": "kgedit.llm.backends.vllm:VllmBackend",
        "openai": "kgedit.llm.backends.openai:OpenAIBackend",
    },
    group="kgedit.backends",
)
"""All backends by name; other packages register theirs through the entry-point group."""
