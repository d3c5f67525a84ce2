"""Requests of one word, for tests of clients of remote models."""

from __future__ import annotations

from pathlib import Path

from kgedit.llm.remote.prices import Price
from kgedit.llm.remote.requests import ChatReply, ChatRequest, FailedCall, Message

ROOT = Path(__file__).resolve().parents[2]
ONE_DOLLAR_A_TOKEN = Price(prompt=1e6, reply=1e6)

REASONING_MODEL = {
    "max_tokens": "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' "
    "instead.",
    "temperature": "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value "
    "is supported.",
}
"""Errors of OpenAI's reasoning models by the parameter that they do not accept."""


def request(text: str) -> ChatRequest:
    return ChatRequest(model="m", messages=(Message("user", text),), max_tokens=5)


def words(count: int) -> list[ChatRequest]:
    return [request(f"word {number}") for number in range(count)]


def texts(replies: tuple[ChatReply | FailedCall | None, ...]) -> list[str]:
    return [reply.text if isinstance(reply, ChatReply) else str(reply) for reply in replies]
