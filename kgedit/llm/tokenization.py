"""Text that a chat template adds around a user turn and an answer, and the characters that each token covers.

The template is Jinja that only transformers renders. Rendered once with a marker, it gives plain text to insert prompts
into. Spans are also found for tokenizers that do not report them (without tokenizer.json).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kgedit.errors import ModelError
from kgedit.llm.replies import Thinking, find_thinking, is_open

_ASKED, _ANSWERED = "ASKED", "ANSWERED"
_OPTIONS: dict[str, Any] = {"date_string": "26 Jul 2024"}
"""Some templates insert today's date, which would change prompts from day to day (this is the default of Llama 3.1
without a clock)."""


@dataclass(frozen=True, slots=True)
class ChatFormat:
    """A chat template as text.

    Attributes:
        before: Text before the user's turn, without what the tokenizer itself prepends to every text.
        after: Text between the user's turn and the answer; with an empty passage of reasoning if the template has one.
        joint: Separator between `after` and the first word of the answer: "" or a space.
        end: Token that ends an answer; None if the template ends it with plain text or not at all.
        thinking: How the model reasons before it answers; None if it does not.
    """

    before: str
    after: str
    joint: str
    end: int | None
    thinking: Thinking | None = None


def chat_format(tokenizer: Any) -> ChatFormat | None:
    """Return the chat format of a tokenizer; None if it has no chat template.

    Raises:
        ModelError: if the template cannot be rendered, or omits the user's text.
    """
    if not getattr(tokenizer, "chat_template", None):
        return None
    turns = [{"role": "user", "content": _ASKED}]
    asked = _rendered(tokenizer, turns, add_generation_prompt=True)
    answered = _rendered(tokenizer, [*turns, {"role": "assistant", "content": _ANSWERED}], add_generation_prompt=False)
    reasoning = _rendered(tokenizer, turns, add_generation_prompt=True, thinking=True)
    if _ASKED not in asked:
        raise ModelError("The tokenizer's chat template leaves out what the user says. Ask in the preset wild.")
    thinking = find_thinking(
        tokenizer,
        without=_without_beginning(tokenizer, asked),
        reasoning=_without_beginning(tokenizer, reasoning),
        asked=_ASKED,
    )
    asked = _closed(asked, thinking)
    before, _, after = asked.partition(_ASKED)
    up_to_answer, _, closing = answered.partition(_ANSWERED)
    joint = up_to_answer.removeprefix(asked) if up_to_answer.startswith(asked) else ""
    return ChatFormat(_without_beginning(tokenizer, before), after, joint, _end(tokenizer, closing), thinking)


def written_chat(tokenizer: Any, turns: list[dict[str, str]]) -> str:
    """Render a chat of several turns as model input, up to the start of the reply.

    Args:
        turns: Objects with role and content.

    Raises:
        ModelError: if the tokenizer has no chat template, or its template cannot be rendered.
    """
    if not getattr(tokenizer, "chat_template", None):
        raise ModelError("The model's tokenizer has no chat template. Choose a chat model.")
    chat = chat_format(tokenizer)
    rendered = _rendered(tokenizer, turns, add_generation_prompt=True)
    return _without_beginning(tokenizer, _closed(rendered, chat.thinking if chat else None))


def _closed(text: str, thinking: Thinking | None) -> str:
    """A rendered chat whose passage of reasoning is closed; some templates open one whatever `enable_thinking` is."""
    if thinking is None or not is_open(text, (thinking.opens, thinking.closes)):
        return text
    return f"{text}\n{thinking.closing}"


def usable_chat_format(tokenizer: Any) -> ChatFormat | None:
    """Return the chat format of a tokenizer; None if its chat template is missing or unusable."""
    try:
        return chat_format(tokenizer)
    except ModelError:
        return None


def _rendered(
    tokenizer: Any, turns: list[dict[str, str]], *, add_generation_prompt: bool, thinking: bool = False
) -> str:
    from jinja2 import TemplateError

    try:
        return str(
            tokenizer.apply_chat_template(
                turns,
                tokenize=False,
                add_generation_prompt=add_generation_prompt,
                enable_thinking=thinking,
                **_OPTIONS,
            )
        )
    except (TemplateError, ValueError, TypeError) as error:
        raise ModelError(f"The tokenizer's chat template cannot be used: {error}. Ask in the preset wild.") from error


def _without_beginning(tokenizer: Any, text: str) -> str:
    """Remove a beginning-of-text token that the tokenizer adds itself: models are not trained with two."""
    beginning = tokenizer.bos_token
    writes_it = beginning and tokenizer.encode("a")[:1] == [tokenizer.bos_token_id]
    return text.removeprefix(beginning) if writes_it else text


def _end(tokenizer: Any, closing: str) -> int | None:
    ids = tokenizer.encode(closing.strip(), add_special_tokens=False)
    return ids[0] if ids and ids[0] in tokenizer.added_tokens_decoder else None


_PROBES = (
    "The mayor of São Paulo is J. O'Neil-Ng (born 1990).",
    "Q: Who is Łódź's head of state?\nA:",
    "Tōkyō, 東京, is a city.",
)


def token_spans(tokenizer: Any, text: str) -> tuple[list[int], list[tuple[int, int]]]:
    """Tokenize a text without special tokens; returns ids and half-open character spans.

    For a tokenizer that does not report spans, prefixes of increasing length are decoded.

    Raises:
        ModelError: if the decoded prefixes do not add up to the text.
    """
    if getattr(tokenizer, "is_fast", False):
        encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        return list(encoded["input_ids"]), list(encoded["offset_mapping"])
    ids = list(tokenizer.encode(text, add_special_tokens=False))
    beginnings = [_decoded(tokenizer, ids[: count + 1]) for count in range(len(ids))]
    # A character of several tokens decodes to a replacement character until its last token.
    whole = [beginning.rstrip("\N{REPLACEMENT CHARACTER}") for beginning in beginnings]
    skipped = len(text) - len(text.lstrip()) if not (whole and whole[-1] == text) else 0
    if not whole or whole[-1] != text[skipped:] or not all(text.startswith(one, skipped) for one in whole):
        raise ModelError(f"The tokenizer does not reproduce the text {text!r}, so token positions in it are unknown.")
    stops = [skipped + len(one) for one in whole]
    return ids, list(zip([0, *stops], stops, strict=False))


def check_places_are_known(tokenizer: Any, name: str) -> None:
    """Raise if the character spans of a tokenizer's tokens cannot be determined.

    Raises:
        ModelError: if they cannot; the message states what to do.
    """
    try:
        for probe in _PROBES:
            token_spans(tokenizer, probe)
    except ModelError as error:
        raise ModelError(
            f"The tokenizer of '{name}' is a slow one that does not report the positions of its tokens; kgedit "
            f"needs tokenizer.json beside the weights. ({error})"
        ) from error


def _decoded(tokenizer: Any, ids: list[int]) -> str:
    return str(tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))
