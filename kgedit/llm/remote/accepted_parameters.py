"""Parameters under other names, or without effect, at some servers: known from the errors of requests.

Models that reason on OpenAI's servers take max_completion_tokens, which includes the reasoning, in place of max_tokens,
and no temperature.
"""

from __future__ import annotations

import logging
import re
from typing import Any

from kgedit.llm.remote.requests import ModelRequest

LOG = logging.getLogger("kgedit.llm")

_RENAMED = re.compile(r"(?=.*\bmax_tokens\b)(?=.*\bmax_completion_tokens\b)(?=.*(not supported|unsupported))", re.I)
_NO_TEMPERATURE = re.compile(r"(?=.*\btemperature\b)(?=.*(not support|unsupported))", re.I)
"""Errors of OpenAI's reasoning models about the two parameters, also as gateways pass them on."""


_REASONING_TOKENS = 4096
"""Room for reasoning in max_completion_tokens: with the 8 tokens of a verdict alone, every reply would be empty. Only
tokens that are generated are paid for."""


class AcceptedParameters:
    """Differences of a server from the parameters of a request, as its errors reported them.

    Replies are stored under the request as it was before they are applied.
    """

    def __init__(self) -> None:
        self._renamed = False
        self._no_temperature = False

    def learn(self, detail: str, model: str) -> None:
        """Read the server's explanation of a rejected request."""
        self._renamed = self._renamed or bool(_RENAMED.match(detail))
        if not self._no_temperature and _NO_TEMPERATURE.match(detail):
            self._no_temperature = True
            LOG.warning("%s accepts no temperature: its replies are sampled at its default temperature.", model)

    def most_new_tokens(self, request: ModelRequest) -> int:
        """Maximum number of tokens that the server generates for a request, including reasoning."""
        room = _REASONING_TOKENS if self._renamed and request.endpoint == "chat" else 0
        return request.max_tokens + room

    def body(self, request: ModelRequest) -> dict[str, Any]:
        """JSON object that is sent."""
        body = request.body()
        if self._renamed and request.endpoint == "chat":
            del body["max_tokens"]
            body["max_completion_tokens"] = self.most_new_tokens(request)
        if self._no_temperature:
            del body["temperature"]
        return body
