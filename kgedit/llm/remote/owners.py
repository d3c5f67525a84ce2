"""Completions and the requests that they were delivered for, to detect a reply that belongs to another request."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from kgedit.llm.remote.requests import ChatReply


class Completion(NamedTuple):
    """A reply as it arrived.

    Attributes:
        id: The server's id; None if it gives none.
        created: The server's time of it, as text.
        reply: The reply.
    """

    id: str | None
    created: str
    reply: ChatReply


@dataclass(slots=True)
class Owners:
    """The first request that each completion was delivered for.

    An equal id is no evidence, because Ollama draws ids from 999 values: all of the completion must be equal.
    """

    _keys: dict[Completion, str] = field(default_factory=dict)
    _doubted: dict[str, Completion] = field(default_factory=dict)

    def is_anothers(self, completion: Completion, key: str) -> bool:
        """Whether a completion was delivered for another request.

        Not if two attempts got different completions with the same reply: then the server's replies are equal by
        chance, and are not repeated.
        """
        if self._keys.setdefault(completion, key) == key:
            return False
        doubted = self._doubted.setdefault(key, completion)
        return doubted == completion or doubted.reply != completion.reply

    def copy(self) -> Owners:
        """A copy that can be discarded."""
        return Owners(dict(self._keys), dict(self._doubted))
