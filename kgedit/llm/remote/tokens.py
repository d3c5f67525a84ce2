"""How many tokens a request has: by the model's own tokenizer where it is here, else by rule of thumb, and said so."""

from __future__ import annotations

from typing import Any, Protocol

from kgedit.errors import ModelError
from kgedit.llm.remote.requests import ChatRequest

_CHARACTERS = 4
"""Of English text in a token; other languages have fewer."""

_PER_MESSAGE = 4


class TokenCounter(Protocol):
    """Counts tokens.

    Attributes:
        exact: Whether it counts as the model does.
    """

    exact: bool

    def prompt(self, request: ChatRequest) -> int:
        """Tokens of the request as the model reads it."""

    def text(self, text: str) -> int:
        """Tokens of a text alone."""


class ByCharacters:
    """Four characters a token: for models whose tokenizer nobody has here."""

    exact = False

    def prompt(self, request: ChatRequest) -> int:
        """Tokens of all messages, with some for what stands between them."""
        return sum(_PER_MESSAGE + self.text(message.content) for message in request.messages)

    def text(self, text: str) -> int:
        """Tokens, rounded up."""
        return -(-len(text) // _CHARACTERS)


class ByTokenizer:
    """The tokenizer of a model, with its chat template.

    Args:
        name: A built-in model, a folder, or a name in the hub's local cache.

    Raises:
        ModelError: if there is none, or it has no chat template.
    """

    exact = True

    def __init__(self, name: str) -> None:
        self._tokenizer = _tokenizer(name)
        if not getattr(self._tokenizer, "chat_template", None):
            raise ModelError(
                f"The tokenizer of '{name}' has no chat template, so that requests cannot be counted by it."
            )

    def prompt(self, request: ChatRequest) -> int:
        """Tokens of the filled-in chat template."""
        turns = [{"role": message.role, "content": message.content} for message in request.messages]
        text = self._tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
        return len(self._tokenizer.encode(text, add_special_tokens=False))

    def text(self, text: str) -> int:
        """Tokens without special ones."""
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
