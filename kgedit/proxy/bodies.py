"""Where the question is in the requests of each API, and where facts are inserted.

OpenAI's chat completions, responses and completions, which vLLM and llama.cpp serve too, and Ollama's chat and
generate. Everything else in a request, such as tools and images, is kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

MESSAGES = frozenset(("/v1/chat/completions", "/api/chat"))
ITEMS = frozenset(("/v1/responses",))
PROMPTS = frozenset(("/v1/completions", "/api/generate"))
ASKING = (*sorted(MESSAGES), *sorted(ITEMS), *sorted(PROMPTS))
"""Paths of requests that facts are added to."""

_Q_LINE = re.compile(r"^[ \t]*Q:[ \t]*(.*)$", re.MULTILINE)
_MOST_ASKED = 4000
_MOST_TURNS = 6
_TEXT_PARTS = ("text", "input_text", "output_text")


def turns_in(path: str, body: Mapping[str, Any]) -> tuple[str, ...]:
    """Last turns of a request, user and assistant in turn, the question last; empty without a question.

    Only the last `Q:` line of a few-shot prompt is the question.
    """
    if path in PROMPTS:
        asked = _asked(_prompt(body))
        return (asked,) if asked else ()
    messages = _messages(path, body)
    place = _last_user(messages)
    asked = _asked(_text(messages[place].get("content"))) if place >= 0 else ""
    if not asked:
        return ()
    earlier: list[tuple[str, str]] = []
    for message in messages[:place]:
        role, text = message.get("role"), _text(message.get("content")).strip()
        if role not in ("user", "assistant") or not text:
            continue
        if earlier and earlier[-1][0] == role:
            earlier[-1] = (str(role), f"{earlier[-1][1]}\n{text}")
        else:
            earlier.append((str(role), text))
    if earlier and earlier[-1][0] == "user":
        # A user who writes twice was not answered: both texts are one question's context.
        earlier.append(("assistant", ""))
    return (*(text[-_MOST_ASKED:] for _, text in earlier[1 - _MOST_TURNS :]), asked)


def with_facts(path: str, body: Mapping[str, Any], text: str) -> dict[str, Any]:
    """Copy of a request with facts inserted before its question."""
    if path in PROMPTS:
        prompt = body["prompt"]
        return {**body, "prompt": [_placed(prompt[0], text)] if isinstance(prompt, list) else _placed(prompt, text)}
    field = "input" if path in ITEMS else "messages"
    if isinstance(body[field], str):
        return {**body, field: _placed(body[field], text)}
    messages = list(body[field])
    place = _last_user(messages)
    messages[place] = {**messages[place], "content": _content_with(messages[place]["content"], text)}
    return {**body, field: messages}


def _asked(text: str) -> str:
    found = _Q_LINE.findall(text)
    return str(found[-1] if found else text)[-_MOST_ASKED:].strip()


def _placed(prompt: str, text: str) -> str:
    """Insert text before the first `Q:` line, which may belong to a demonstration, else before the last paragraph."""
    first = _Q_LINE.search(prompt)
    if first is not None:
        return prompt[: first.start()] + text + prompt[first.start() :]
    end = len(prompt.rstrip())
    start = max(prompt.rfind("\n\n", 0, end) + 2, 0) if "\n\n" in prompt[:end] else 0
    return prompt[:start] + text + prompt[start:]


def _content_with(content: Any, text: str) -> Any:
    if isinstance(content, str):
        return _placed(content, text)
    parts = list(content)
    place = max(number for number, part in enumerate(parts) if _is_text(part))
    parts[place] = {**parts[place], "text": _placed(parts[place]["text"], text)}
    return parts


def _messages(path: str, body: Mapping[str, Any]) -> Sequence[Any]:
    given = body.get("input" if path in ITEMS else "messages")
    if path in ITEMS and isinstance(given, str):
        return [{"role": "user", "content": given}]
    return [one for one in given if isinstance(one, dict)] if isinstance(given, list) else []


def _last_user(messages: Sequence[Any]) -> int:
    """Index of the last user message; -1 if there is none."""
    users = [place for place, one in enumerate(messages) if isinstance(one, dict) and one.get("role") == "user"]
    return users[-1] if users else -1


def _text(content: Any) -> str:
    """Text of a message: its content, or the last text part, which is the question in requests with images."""
    if isinstance(content, list):
        texts = [part["text"] for part in content if _is_text(part)]
        return texts[-1] if texts else ""
    return content if isinstance(content, str) else ""


def _prompt(body: Mapping[str, Any]) -> str:
    """The prompt if it is a single text, else "": several prompts or token ids are forwarded unchanged."""
    prompt = body.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1:
        [prompt] = prompt
    return prompt if isinstance(prompt, str) else ""


def _is_text(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") in _TEXT_PARTS and isinstance(part.get("text"), str)
