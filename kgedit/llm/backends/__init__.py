"""What answers questions for a model: transformers in this process, vLLM in this process, or a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kgedit.registry import Registry

if TYPE_CHECKING:
    from kgedit.llm.backends.contract import Backend

BACKENDS: Registry[type[Backend]] = Registry(
    "backend",
    {
        "transformers": "kgedit.llm.backends.transformers:TransformersBackend",
        "vllm": "kgedit.llm.backends.vllm:VllmBackend",
        "openai": "kgedit.llm.backends.openai:OpenAIBackend",
    },
    group="kgedit.backends",
)
"""Every backend by name; other packages add theirs through the entry-point group."""
