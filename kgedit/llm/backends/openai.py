"""`openai`: any server with OpenAI's API: vLLM, llama.cpp, transformers serve, or a paid one.

Prompts of a chat preset are sent to `/chat/completions` as a user turn, which the server formats with the model's
template; all others are sent to `/completions` unchanged. Requests use the same client as judges (kgedit.llm.remote):
replies are stored on disk as they arrive, requests to an overloaded server back off, and spending stays within a
budget. There is no common way to obtain the probability of a given text from a server, so presets that use teacher
forcing are not supported.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from kgedit.errors import ModelError
from kgedit.llm.backends.contract import Backend
from kgedit.llm.generation import PresetQuestion
from kgedit.llm.presets import STOPS
from kgedit.llm.remote import client as remote
from kgedit.llm.remote.prices import price_of, read_prices
from kgedit.llm.remote.requests import (
    ChatReply,
    ChatRequest,
    FailedCall,
    Message,
    ModelRequest,
    ReplyCache,
    TextRequest,
)
from kgedit.llm.remote.server import ChatServer
from kgedit.llm.replies import Reply, match_of, truncate
from kgedit.resources import cache
from kgedit.untrusted import without_credentials

_AT_ONCE = 256
"""Number of questions between two writes of a run."""

_EFFORT = remote.Effort(workers=8)


class OpenAIBackend(Backend):
    """Greedy decoding by a server; the key is read from OPENAI_API_KEY."""

    needs_weights = False
    needs_url = True
    feeds_answers = False
    package = ("openai", "openai")

    def plan(self, asked: Sequence[PresetQuestion]) -> list[list[int]]:
        """Batches in the order of the questions."""
        return [list(range(start, min(start + _AT_ONCE, len(asked)))) for start in range(0, len(asked), _AT_ONCE)]

    def ask(self, asked: Sequence[PresetQuestion]) -> list[Reply]:
        """Send the questions that the server has not answered before, several at a time."""
        started = time.perf_counter()
        found = self._client.ask([self._request(one) for one in asked])
        seconds = time.perf_counter() - started
        if found.not_asked:
            raise ModelError(
                f"The budget of ${self._spending.budget} does not cover all questions; ${found.dollars or 0:.4f} are "
                "spent. What was answered is kept: give the same command again, with a larger --backend-budget."
            )
        self._check(found)
        replies = [
            self._reply(one, chat_reply)
            for one, chat_reply in zip(asked, found.replies, strict=True)
            if isinstance(chat_reply, ChatReply)
        ]
        return _timed(replies, found.new, seconds)

    @cached_property
    def _client(self) -> remote.ChatClient:
        price = price_of(self._model.name, read_prices(self._spending.prices))
        return remote.ChatClient(
            ChatServer(url=str(self._url).rstrip("/")),
            ReplyCache(cache() / "replies"),
            model=self._model.name,
            effort=_EFFORT,
            price=price,
            budget=self._spending.budget,
            room=False,  # a preset sets the room for reasoning (thinking_tokens), as with the other backends
        )

    def _request(self, asked: PresetQuestion) -> ModelRequest:
        preset, question, name = asked.preset, asked.question, self._model.name
        exact = preset.truncation == "gold_length"
        limit = len(self._gold(asked)) if exact else preset.max_new_tokens
        stop = tuple(STOPS[preset.truncation])
        turn = self._turn(asked)
        if turn is None:
            return TextRequest(model=name, prompt=question.prompt, max_tokens=limit, stop=stop)
        chat = self._model.chat
        thinks = preset.thinking_tokens > 0
        return ChatRequest(
            model=name,
            messages=(Message("user", turn),),
            max_tokens=preset.thinking_tokens + limit,
            stop=() if thinks else stop,  # they would end the reasoning, too; the reply is truncated below
            thinking=thinks if chat and chat.thinking and chat.thinking.has_switch else None,
        )

    def _reply(self, asked: PresetQuestion, chat_reply: ChatReply) -> Reply:
        model, question = self._model, asked.question
        text = truncate(chat_reply.text, asked.preset.truncation)
        ids = model.encode_target(text, after=question.prompt)
        return Reply(
            text=text,
            token_match=match_of(ids, self._gold(asked)) if question.gold else None,
            prompt_tokens=chat_reply.prompt_tokens or len(model.encode(question.prompt)),
            new_tokens=chat_reply.new_tokens or len(ids),
            seconds=0.0,
            thoughts=chat_reply.thoughts,
            thoughts_cut=bool(chat_reply.thoughts) and not text and not chat_reply.finished,
        )

    def _gold(self, asked: PresetQuestion) -> list[int]:
        return self._model.encode_target(asked.question.gold, after=asked.question.prompt)

    def _check(self, found: remote.ChatReplies) -> None:
        failed = Counter(reply.reason for reply in found.replies if isinstance(reply, FailedCall))
        if failed:
            reasons = ", ".join(f"{reason}: {count:,}" for reason, count in failed.most_common())
            detail = remote.first_detail(failed, found.details)
            raise ModelError(
                f"The server at {without_credentials(str(self._url))} did not answer {failed.total():,} of "
                f"{len(found.replies):,} questions ({reasons}){detail}. "
                "The other answers are kept: give the same command again."
            )

    def _turn(self, asked: PresetQuestion) -> str | None:
        """The user's turn without the template around it; None if the prompt is plain text."""
        chat, prompt = self._model.chat, asked.question.prompt
        if chat is None or not asked.preset.context.startswith("chat"):
            return None
        format_ = chat.thinking if asked.preset.thinking_tokens and chat.thinking else chat
        return prompt.removeprefix(format_.before).removesuffix(format_.after)


def _timed(replies: Sequence[Reply], new: Sequence[bool], seconds: float) -> list[Reply]:
    """Assign each new reply its share of the time, by tokens; cached replies get none."""
    tokens = [reply.prompt_tokens + reply.new_tokens if fresh else 0 for reply, fresh in zip(replies, new, strict=True)]
    total = sum(tokens) or 1
    return [replace(reply, seconds=round(seconds * own / total, 6)) for reply, own in zip(replies, tokens, strict=True)]
