"""Requests to a server and its replies as plain records, and the disk cache of replies.

Each reply is a small file named by the hash of its request: it is paid for once. A file is complete or absent, so that
a kill at any moment loses no stored reply, and processes can share a folder.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import msgspec

from kgedit.errors import ModelError
from kgedit.files import replace_file


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a chat.

    Attributes:
        role: "system", "user" or "assistant".
        content: Text of the message.
    """

    role: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """One request, in the fields of the chat completions API.

    Attributes:
        model: Name of the model on the server.
        messages: Messages, in order.
        max_tokens: Maximum number of tokens of the reply.
        temperature: Sampling temperature; 0 means greedy decoding.
        schema: JSON schema that the reply must follow, as JSON text, for servers with structured output; None means
            free text.
        stop: Texts that end the reply and are not part of it.
        thinking: Whether the model reasons before it answers, for servers that format chats with the model's template
            (vLLM, SGLang, llama.cpp); None sends nothing about it.
    """

    model: str
    messages: tuple[Message, ...]
    max_tokens: int
    temperature: float = 0.0
    schema: str | None = None
    stop: tuple[str, ...] = ()
    thinking: bool | None = None

    endpoint: ClassVar[Literal["chat"]] = "chat"

    @property
    def texts(self) -> tuple[str, ...]:
        """All texts that are sent and may be charged for."""
        contents = tuple(message.content for message in self.messages)
        return (*contents, self.schema) if self.schema else contents

    def body(self) -> dict[str, Any]:
        """JSON object that is sent."""
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [{"role": message.role, "content": message.content} for message in self.messages],
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
        }
        if self.schema is not None:
            form = {"name": "reply", "strict": True, "schema": json.loads(self.schema)}
            body["response_format"] = {"type": "json_schema", "json_schema": form}
        # These only if set, so that replies to requests from before the fields existed are still found.
        if self.thinking is not None:
            body["extra_body"] = {"chat_template_kwargs": {"enable_thinking": self.thinking}}
        return {**body, "stop": list(self.stop)} if self.stop else body


@dataclass(frozen=True, slots=True, kw_only=True)
class TextRequest:
    """One request, in the fields of the completions API: a text to be continued.

    Attributes:
        model: Name of the model on the server.
        prompt: The text.
        max_tokens: Maximum number of tokens of the reply.
        temperature: Sampling temperature; 0 means greedy decoding.
        stop: Texts that end the reply and are not part of it.
    """

    model: str
    prompt: str
    max_tokens: int
    temperature: float = 0.0
    stop: tuple[str, ...] = ()

    endpoint: ClassVar[Literal["text"]] = "text"

    @property
    def texts(self) -> tuple[str, ...]:
        """All texts that are sent and may be charged for."""
        return (self.prompt,)

    def body(self) -> dict[str, Any]:
        """JSON object that is sent."""
        body: dict[str, Any] = {
            "model": self.model,
            "prompt": self.prompt,
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
        }
        return {**body, "stop": list(self.stop)} if self.stop else body


ModelRequest = ChatRequest | TextRequest


def request_key(request: ModelRequest, url: str) -> str:
    """SHA-256 of the server's address and the request body: equal requests have equal keys in every run."""
    content = json.dumps({"url": url, "body": request.body()}, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(content.encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatReply:
    """One reply.

    Attributes:
        text: Generated text, without the reasoning before it.
        finished: Whether it ended by itself; False if it was truncated at `max_tokens` or by a filter.
        prompt_tokens: Prompt tokens as counted by the server; None if not reported.
        new_tokens: Reply tokens as counted by the server; None if not reported.
        thoughts: Reasoning before the text, sent by the server in a separate field or marked in the text.
        missing: Reason why a complete reply has no text, such as "refused"; "" if it has one. It is stored, because it
            was paid for, and returned to the caller as a FailedCall.
    """

    text: str
    finished: bool
    prompt_tokens: int | None
    new_tokens: int | None
    thoughts: str = ""
    missing: str = ""


@dataclass(frozen=True, slots=True)
class FailedCall:
    """A request without a reply.

    Attributes:
        reason: Outcome of the last attempt: "429", "timeout", "refused", "cut or invalid JSON" and the like.
    """

    reason: str


def outcome_of(reply: ChatReply) -> ChatReply | FailedCall:
    """The reply, or a FailedCall if it has no text."""
    return FailedCall(reply.missing) if reply.missing else reply


_REPLIES = msgspec.json.Decoder(ChatReply)
"""Made here, because msgspec 0.22 crashes if several threads decode the first object of a type at the same time."""


class ReplyCache:
    """Replies by key.

    Args:
        folder: Folder of the cache, created when the first reply is stored.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get(self, key: str) -> ChatReply | None:
        """Return the stored reply, or None.

        Raises:
            ModelError: if the file does not contain a reply.
        """
        path = self._path(key)
        try:
            return _REPLIES.decode(path.read_bytes())
        except FileNotFoundError:
            return None
        except msgspec.DecodeError as error:
            raise ModelError(f"{path} does not contain a model's reply: {error}. Delete it to ask again.") from error

    def add(self, key: str, reply: ChatReply) -> None:
        """Store a reply durably: once this returns, a kill cannot lose it."""
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, msgspec.json.encode(reply) + b"\n")

    def _path(self, key: str) -> Path:
        # 256 subfolders, so that none contains hundreds of thousands of files.
        return self.folder / key[:2] / f"{key}.json"
