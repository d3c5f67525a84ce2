"""What is asked of a server and what it answers: plain records, and the key under which a reply is kept."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any, ClassVar, Literal


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a chat.

    Attributes:
        role: "system", "user" or "assistant".
        content: Its text.
    """

    role: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """One request, in the fields of the chat completions API.

    Attributes:
        model: As the server names it.
        messages: In order.
        max_tokens: Most tokens of the reply.
        temperature: 0 for the likeliest reply.
        schema: JSON schema that the reply has to keep to, as JSON text, for servers that offer structured output; None
            for free text.
        stop: Texts that end the reply and are no part of it.
    """

    model: str
    messages: tuple[Message, ...]
    max_tokens: int
    temperature: float = 0.0
    schema: str | None = None
    stop: tuple[str, ...] = ()

    endpoint: ClassVar[Literal["chat"]] = "chat"

    @property
    def texts(self) -> tuple[str, ...]:
        """All that is sent and may be charged for."""
        contents = tuple(message.content for message in self.messages)
        return (*contents, self.schema) if self.schema else contents

    def body(self) -> dict[str, Any]:
        """The JSON object that is sent."""
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [{"role": message.role, "content": message.content} for message in self.messages],
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
        }
        if self.schema is not None:
            form = {"name": "reply", "strict": True, "schema": json.loads(self.schema)}
            body["response_format"] = {"type": "json_schema", "json_schema": form}
        # Only where there is one: replies to requests of before there were any are still found.
        return {**body, "stop": list(self.stop)} if self.stop else body


@dataclass(frozen=True, slots=True, kw_only=True)
class TextRequest:
    """One request, in the fields of the completions API: a text that goes on.

    Attributes:
        model: As the server names it.
        prompt: The text.
        max_tokens: Most tokens of the reply.
        temperature: 0 for the likeliest reply.
        stop: Texts that end the reply and are no part of it.
    """

    model: str
    prompt: str
    max_tokens: int
    temperature: float = 0.0
    stop: tuple[str, ...] = ()

    endpoint: ClassVar[Literal["text"]] = "text"

    @property
    def texts(self) -> tuple[str, ...]:
        """All that is sent and may be charged for."""
        return (self.prompt,)

    def body(self) -> dict[str, Any]:
        """The JSON object that is sent."""
        body: dict[str, Any] = {
            "model": self.model,
            "prompt": self.prompt,
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
        }
        return {**body, "stop": list(self.stop)} if self.stop else body


ModelRequest = ChatRequest | TextRequest


def request_key(request: ModelRequest, url: str) -> str:
    """SHA-256 of the server's address and of all that is sent: the same request has the same key in every run."""
    content = json.dumps({"url": url, "body": request.body()}, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(content.encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatReply:
    """One reply.

    Attributes:
        text: What the model wrote.
        finished: Whether it ended by itself; False where it was cut at the most tokens or by a filter.
        prompt_tokens: As the server counts them; None where it does not say.
        new_tokens: The same of the reply.
    """

    text: str
    finished: bool
    prompt_tokens: int | None
    new_tokens: int | None


@dataclass(frozen=True, slots=True)
class FailedCall:
    """A request that got no reply.

    Attributes:
        reason: What came instead at the last try: "429", "timeout", "cut or invalid JSON" and the like.
    """

    reason: str
