"""Parameters that differ between servers: known from the errors of requests and from their replies.

Models that reason on OpenAI's servers take max_completion_tokens, which includes the reasoning, in place of max_tokens,
and no temperature. Those on other servers (vLLM, SGLang) take max_tokens, and reason within it.
"""

from __future__ import annotations

import logging
import re
from typing import Any

from kgedit.llm.remote.requests import ChatReply, ModelRequest

LOG = logging.getLogger("kgedit.llm")

_RENAMED = re.compile(r"(?=.*\bmax_tokens\b)(?=.*\bmax_completion_tokens\b)(?=.*(not supported|unsupported))", re.I)
_NO_TEMPERATURE = re.compile(r"(?=.*\btemperature\b)(?=.*(not support|unsupported))", re.I)
"""Errors of OpenAI's reasoning models about the two parameters, also as gateways pass them on."""

_TOO_MANY_TOKENS = re.compile(r"max\w*[ _]tokens|context", re.I)
"""Errors of servers about a maximum of tokens beyond the model's context length."""


_REASONING_TOKENS = 4096
"""Room for reasoning in the maximum of tokens: with the 8 tokens of a verdict alone, every reply would be empty. Only
tokens that are generated are paid for."""


class AcceptedParameters:
    """Differences of a server from the parameters of a request.

    Replies are stored under the request as it was before they are applied.

    Args:
        room: Whether a model that reasons gets room for it, unless its server demands that in any case.
    """

    def __init__(self, *, room: bool = True) -> None:
        self._room = room
        self._reasons = False
        self._renamed = False
        self._no_temperature = False

    def learn(self, detail: str, model: str) -> None:
        """Read the server's explanation of a rejected request."""
        if _RENAMED.match(detail):
            self._renamed = True
        elif self._reasons and _TOO_MANY_TOKENS.search(detail):
            self._reasons = self._room = False
        if not self._no_temperature and _NO_TEMPERATURE.match(detail):
            self._no_temperature = True
            LOG.warning("%s accepts no temperature: its replies are sampled at its default temperature.", model)

    def learn_from(self, reply: ChatReply, request: ModelRequest, sent: AcceptedParameters) -> bool:
        """Note from a reply whether the model reasons.

        Args:
            sent: Parameters of the request that was sent.

        Returns:
            Whether reasoning took all tokens of the reply, and the next attempt has room for it.
        """
        spent = bool(reply.thoughts) and not reply.text and not reply.finished
        self._reasons = self._reasons or (spent and self._room)
        return spent and self.most_new_tokens(request) > sent.most_new_tokens(request)

    def most_new_tokens(self, request: ModelRequest) -> int:
        """Maximum number of tokens that the server generates for a request, including reasoning."""
        has_room = (self._renamed or self._reasons) and request.endpoint == "chat"
        return request.max_tokens + (_REASONING_TOKENS if has_room else 0)

    def body(self, request: ModelRequest) -> dict[str, Any]:
        """JSON object that is sent."""
        body = request.body()
        if request.endpoint == "chat":
            del body["max_tokens"]
            body["max_completion_tokens" if self._renamed else "max_tokens"] = self.most_new_tokens(request)
        if self._no_temperature:
            del body["temperature"]
        return body
