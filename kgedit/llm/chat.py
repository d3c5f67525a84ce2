"""What a tokenizer's chat template puts around a user's turn and around an answer, found by rendering it.

The template is Jinja that only transformers runs; rendered once with a marker, it gives plain text to put prompts in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kgedit.errors import ModelError

_ASKED, _ANSWERED = "ASKED", "ANSWERED"
_OPTIONS: dict[str, Any] = {"date_string": "26 Jul 2024", "enable_thinking": False}
"""Some templates write today's date, which would change prompts from day to day (this is the one that Llama 3.1 writes
where there is no clock), and some open a passage of reasoning, which no metric reads."""


@dataclass(frozen=True, slots=True)
class ChatFormat:
    """A chat template as text.

    Attributes:
        before: What stands ahead of the user's turn, without what the tokenizer puts ahead of every text by itself.
        after: What stands between the user's turn and the answer.
        joint: What stands between that and the answer's first word: "" or a space.
        end: Token that ends an answer; None where the template ends it by plain text or not at all.
    """

    before: str
    after: str
    joint: str
    end: int | None


def chat_format(tokenizer: Any) -> ChatFormat | None:
    """The chat format of a tokenizer; None where it has no chat template.

    Raises:
        ModelError: if its template cannot be rendered, or leaves the user's text out.
    """
    if not getattr(tokenizer, "chat_template", None):
        return None
    turns = [{"role": "user", "content": _ASKED}]
    asked = _rendered(tokenizer, turns, add_generation_prompt=True)
    told = _rendered(tokenizer, [*turns, {"role": "assistant", "content": _ANSWERED}], add_generation_prompt=False)
    before, found, after = asked.partition(_ASKED)
    if not found:
        raise ModelError("The tokenizer's chat template leaves out what the user says. Ask in the preset wild.")
    up_to_answer, _, closing = told.partition(_ANSWERED)
    joint = up_to_answer.removeprefix(asked) if up_to_answer.startswith(asked) else ""
    return ChatFormat(_without_beginning(tokenizer, before), after, joint, _end(tokenizer, closing))


def written_chat(tokenizer: Any, turns: list[dict[str, str]]) -> str:
    """A chat of several turns as the model reads it, up to where it replies.

    Args:
        turns: Objects with role and content.

    Raises:
        ModelError: if the tokenizer has no chat template, or its template cannot be rendered.
    """
    if not getattr(tokenizer, "chat_template", None):
        raise ModelError("The model's tokenizer has no chat template. Choose a model that was taught to chat.")
    return _without_beginning(tokenizer, _rendered(tokenizer, turns, add_generation_prompt=True))


def usable_chat_format(tokenizer: Any) -> ChatFormat | None:
    """The chat format of a tokenizer; None also where its chat template cannot be used."""
    try:
        return chat_format(tokenizer)
    except ModelError:
        return None


def _rendered(tokenizer: Any, turns: list[dict[str, str]], *, add_generation_prompt: bool) -> str:
    from jinja2 import TemplateError

    try:
        return str(
            tokenizer.apply_chat_template(
                turns, tokenize=False, add_generation_prompt=add_generation_prompt, **_OPTIONS
            )
        )
    except (TemplateError, ValueError, TypeError) as error:
        raise ModelError(f"The tokenizer's chat template cannot be used: {error}. Ask in the preset wild.") from error


def _without_beginning(tokenizer: Any, text: str) -> str:
    """The text without a beginning-of-text token that the tokenizer writes itself: twice is not what models know."""
    beginning = tokenizer.bos_token
    writes_it = beginning and tokenizer.encode("a")[:1] == [tokenizer.bos_token_id]
    return text.removeprefix(beginning) if writes_it else text


def _end(tokenizer: Any, closing: str) -> int | None:
    ids = tokenizer.encode(closing.strip(), add_special_tokens=False)
    return ids[0] if ids and ids[0] in tokenizer.added_tokens_decoder else None
