"""Answers chat requests with a local model, using the same records as the client of a server.

Replies are cached by content like those of servers: the key contains the model's fingerprint instead of an address.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from kgedit.errors import ModelError
from kgedit.llm.chat import written_chat
from kgedit.llm.decoding import Decoding, decode
from kgedit.llm.devices import enough_memory
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.remote.reply_cache import ReplyCache
from kgedit.llm.remote.requests import ChatReply, ChatRequest, request_key
from kgedit.llm.surgery.frozen_products import frozen_products

_AT_ONCE = 16
"""Number of requests between two writes to the cache."""

_BATCH_TOKENS = 16_384


class LocalChat:
    """Answers requests by greedy decoding.

    Args:
        model: A model with a chat template.
        cache: Cache of replies.
    """

    def __init__(self, model: LanguageModel, cache: ReplyCache) -> None:
        self._model = model
        self._cache = cache

    @property
    def where(self) -> str:
        """Identifier of the model, used in cache keys instead of a server's address."""
        return f"local:{self._model.fingerprint}"

    def ask(
        self, requests: Sequence[ChatRequest], *, progress: Callable[[int, int], None] | None = None
    ) -> list[ChatReply]:
        """Return a reply to each request, in order; equal requests are answered once.

        Raises:
            ModelError: if a request is longer than the model's context.
        """
        distinct = {request_key(request, self.where): request for request in requests}
        replies = {key: reply for key in distinct if (reply := self._cache.get(key)) is not None}
        open_ones = [key for key in distinct if key not in replies]
        for start in range(0, len(open_ones), _AT_ONCE):
            keys = open_ones[start : start + _AT_ONCE]
            for key, reply in zip(keys, self._answer([distinct[key] for key in keys]), strict=True):
                self._cache.add(key, reply)
                replies[key] = reply
            if progress:
                progress(len(replies), len(distinct))
        return [replies[request_key(request, self.where)] for request in requests]

    def _answer(self, requests: Sequence[ChatRequest]) -> list[ChatReply]:
        rows = [self._row(request) for request in requests]
        with torch.inference_mode(), frozen_products(self._model), enough_memory(f"{len(rows)} requests"):
            written = decode(self._model, rows, most_tokens=_BATCH_TOKENS)
        replies = []
        for row, ids in zip(rows, written, strict=True):
            ended = ids[-1] in self._model.end_ids
            text = self._model.decode(ids[:-1] if ended else ids).strip()
            replies.append(ChatReply(text=text, finished=ended, prompt_tokens=len(row.prompt), new_tokens=len(ids)))
        return replies

    def _row(self, request: ChatRequest) -> Decoding:
        turns = [{"role": message.role, "content": message.content} for message in request.messages]
        prompt = self._model.encode(written_chat(self._model.tokenizer, turns))
        room = self._model.positions
        if room is not None and len(prompt) + request.max_tokens > room:
            raise ModelError(
                f"A request of {len(prompt)} tokens with {request.max_tokens} for its reply is longer than the context "
                f"of '{self._model.name}', {room} tokens. Choose another model."
            )
        return Decoding(prompt, self._model.end_ids, request.max_tokens)
