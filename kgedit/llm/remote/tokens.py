"""Token counts of requests: exact if the model's tokenizer is available locally, else estimated and marked so."""

from __future__ import annotations

from typing import Any, Protocol

from kgedit.errors import ModelError
from kgedit.llm.remote.requests import ChatRequest

_CHARACTERS = 4
"""Characters of English text per token; other languages have fewer."""

_PER_MESSAGE = 4


class TokenCounter(Protocol):
    """Counts tokens.

    Attributes:
        exact: Whether counts are those of the model's tokenizer.
    """

    exact: bool

    def prompt(self, request: ChatRequest) -> int:
        """Number of tokens of the request as model input."""

    def text(self, text: str) -> int:
        """Number of tokens of a text alone."""


class ByCharacters:
    """Four characters per token, for models whose tokenizer is not available locally."""

    exact = False

    def prompt(self, request: ChatRequest) -> int:
        """Number of tokens of all messages, with an allowance for the text between them."""
        return sum(_PER_MESSAGE + self.text(message.content) for message in request.messages)

    def text(self, text: str) -> int:
        """Number of tokens, rounded up."""
        return -(-len(text) // _CHARACTERS)


class ByTokenizer:
    """The tokenizer of a model, with its chat template.

    Args:
        name: A built-in model, a folder, or a name in the hub's local cache.

    Raises:
        ModelError: if there is no such tokenizer, or it has no chat template.
    """

    exact = True

    def __init__(self, name: str) -> None:
        self._tokenizer = _tokenizer(name)
        if not getattr(self._tokenizer, "chat_template", None):
            raise ModelError(
                f"The tokenizer of '{name}' has no chat template, so that requests cannot be counted by it."
            )

    def prompt(self, request: ChatRequest) -> int:
        """Number of tokens of the filled-in chat template."""
        turns = [{"role": message.role, "content": message.content} for message in request.messages]
        text = self._tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
        return len(self._tokenizer.encode(text, add_special_tokens=False))

    def text(self, text: str) -> int:
        """Number of tokens without special ones."""
        return len(self._tokenizer.encode(text, add_special_tokens=False))


def _tokenizer(name: str) -> Any:
    from transformers import AutoTokenizer

    from kgedit.llm.loading import BUILT_IN

    path = BUILT_IN[name](None, None).path_or_name if name in BUILT_IN else name
    try:
        return AutoTokenizer.from_pretrained(path, local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        raise ModelError(
            f"There is no tokenizer of '{name}' on this machine: give a model's folder, or smollm2-135m."
        ) from error
