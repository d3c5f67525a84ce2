"""Many requests to one server: each distinct one is asked once, at most, and never again once its reply is on disk.

The judge and whatever else asks models over the network use this and nothing below it: `estimate`, then `ask`.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass, field
from threading import Lock

from kgedit.errors import ModelError
from kgedit.llm.remote.pacing import Pace, StoppedError, backoff
from kgedit.llm.remote.prices import Price, Purse
from kgedit.llm.remote.reply_cache import ReplyCache
from kgedit.llm.remote.requests import ChatReply, ChatRequest, FailedCall, ModelRequest, request_key
from kgedit.llm.remote.server import CallError, ChatServer, ServerConnection
from kgedit.llm.remote.tokens import TokenCounter

Progress = Callable[[int, int], None]
"""Called with requests that are done and all requests; from any thread, one call at a time."""

_UNPAID = frozenset({"no connection"})
"""Failures, besides error states, that no server charges for."""

_FAILED_IN_A_ROW = 20
"""So many requests given up before any reply came: the server is down, and the rest would only wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How hard to try.

    Attributes:
        workers: Most calls under way at once.
        attempts: Tries of one request before it counts as failed.
        seed: Of the jitter between tries.
    """

    workers: int = 4
    attempts: int = 6
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CostEstimate:
    """What asking would take.

    Attributes:
        requests: Distinct requests.
        cached: Of these, those whose replies are on disk and cost nothing.
        prompt_tokens: Of the others.
        new_tokens: Of their replies.
        dollars: Of the others; None where there is no price.
        exact: Whether prompts were counted by the model's own tokenizer.
    """

    requests: int
    cached: int
    prompt_tokens: int
    new_tokens: int
    dollars: float | None
    exact: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatReplies:
    """What asking brought.

    Attributes:
        replies: One for each request, in order; None for those that the budget did not hold.
        requests: Distinct requests.
        cached: Of these, those whose replies were on disk.
        calls: Tries, successful or not.
        retried: Reason -> tries that failed so.
        failed: Reason -> distinct requests given up.
        prompt_tokens: Of new replies, as the server counts.
        new_tokens: The same of what it wrote.
        dollars: Spent now; None where there is no price.
        new: Whether a reply came now, for each request, in order.
    """

    replies: tuple[ChatReply | FailedCall | None, ...]
    requests: int
    cached: int
    calls: int
    retried: Mapping[str, int]
    failed: Mapping[str, int]
    prompt_tokens: int
    new_tokens: int
    dollars: float | None
    new: tuple[bool, ...]

    @property
    def not_asked(self) -> int:
        """Requests that the budget did not hold."""
        return sum(reply is None for reply in self.replies)


class ChatClient:
    """Asks one server.

    Args:
        server: Which.
        cache: Where replies are kept.
        price: Of the model asked; None where nobody knows it.
        budget: Most dollars that `ask` may spend, all calls of it together; None for no limit.

    Raises:
        ModelError: if there is a budget and no price.
    """

    def __init__(
        self,
        server: ChatServer,
        cache: ReplyCache,
        *,
        model: str,
        effort: Effort | None = None,
        price: Price | None = None,
        budget: float | None = None,
    ) -> None:
        self._server = server
        self._cache = cache
        self._model = model
        self._effort = effort or Effort()
        self._price = price
        self._purse = Purse(model, price, budget)

    def estimate(
        self, requests: Sequence[ChatRequest], counter: TokenCounter, *, likely_reply: str | Sequence[str]
    ) -> CostEstimate:
        """What `ask` would take for these requests; no server is asked.

        Args:
            counter: Of the model's tokens.
            likely_reply: A typical reply, whose tokens count for every request, with one for its end; or one for each.
        """
        likely = [likely_reply] * len(requests) if isinstance(likely_reply, str) else likely_reply
        said = {request_key(request, self._server.url): text for request, text in zip(requests, likely, strict=True)}
        distinct = {request_key(request, self._server.url): request for request in requests}
        open_ones = {key: request for key, request in distinct.items() if self._cache.get(key) is None}
        prompt_tokens = sum(counter.prompt(request) for request in open_ones.values())
        new_tokens = sum(counter.text(said[key]) + 1 for key in open_ones)
        return CostEstimate(
            requests=len(distinct),
            cached=len(distinct) - len(open_ones),
            prompt_tokens=prompt_tokens,
            new_tokens=new_tokens,
            dollars=None if self._price is None else self._price.of(prompt_tokens, new_tokens),
            exact=counter.exact,
        )

    def ask(self, requests: Sequence[ModelRequest], *, progress: Progress | None = None) -> ChatReplies:
        """Replies to all requests.

        A kill loses no reply that had arrived; Ctrl-C waits for calls under way and keeps their replies.

        Raises:
            ModelError: if no request can succeed, or the server answers none.
        """
        distinct = self._distinct(requests)
        found = {key: self._cache.get(key) for key in distinct}
        replies: dict[str, ChatReply | FailedCall] = {key: reply for key, reply in found.items() if reply is not None}
        cached = len(replies)
        work = _Work(
            open_ones=deque((key, request) for key, request in distinct.items() if key not in replies),
            replies=replies,
            total=len(distinct),
            progress=progress,
        )
        if work.open_ones:
            self._run(work)
        return ChatReplies(
            replies=tuple(replies.get(request_key(request, self._server.url)) for request in requests),
            requests=len(distinct),
            cached=cached,
            calls=work.calls,
            retried=dict(sorted(work.retried.items())),
            failed=dict(sorted(work.failed.items())),
            prompt_tokens=work.prompt_tokens,
            new_tokens=work.new_tokens,
            dollars=self._purse.spent,
            new=tuple(found[request_key(request, self._server.url)] is None for request in requests),
        )

    def _distinct(self, requests: Sequence[ModelRequest]) -> dict[str, ModelRequest]:
        return {request_key(request, self._server.url): request for request in requests}

    def _run(self, work: _Work) -> None:
        pace = Pace(self._effort.workers)
        threads = min(self._effort.workers, len(work.open_ones))
        with (
            closing(ServerConnection(self._server)) as connection,
            ThreadPoolExecutor(threads, thread_name_prefix="kgedit-ask") as pool,
        ):
            futures = [pool.submit(self._drain, work, pace, connection) for _ in range(threads)]
            try:
                wait(futures, return_when=FIRST_EXCEPTION)
            finally:
                # On Ctrl-C and on errors: nothing new starts, calls under way end, their replies are kept.
                pace.stop()
        for future in futures:
            future.result()

    def _drain(self, work: _Work, pace: Pace, connection: ServerConnection) -> None:
        """What each thread does: take the next request until there is none, or no money for it."""
        try:
            while (one := work.take()) is not None:
                key, request = one
                reply = self._ask_one(key, request, work=work, pace=pace, connection=connection)
                if reply is None:
                    work.drop_rest()
                    return
                self._note(key, reply, work)
        except StoppedError:
            return

    def _ask_one(
        self, key: str, request: ModelRequest, *, work: _Work, pace: Pace, connection: ServerConnection
    ) -> ChatReply | FailedCall | None:
        """A reply, after as many tries as it takes; None if the budget does not hold another try."""
        chance = random.Random(f"{self._effort.seed}:{key}")
        attempt = 0
        while True:
            attempt += 1
            reserved = self._purse.reserve(request)
            if reserved is None:
                return None
            reply, error = None, None
            try:
                with pace.turn():
                    work.count_call()
                    reply = self._call(key, request, work=work, connection=connection)
            except CallError as caught:
                error = caught
            finally:
                perhaps_paid = error is not None and not error.reason.isdigit() and error.reason not in _UNPAID
                self._purse.settle(reserved, reply, perhaps_paid=perhaps_paid)
            if reply is not None:
                pace.succeeded()
                return reply
            assert error is not None
            work.count_failure(error.reason)
            if not error.again or attempt == self._effort.attempts:
                return FailedCall(error.reason)
            pause = max(backoff(attempt, chance), error.after or 0.0)
            if error.slow_down:
                pace.slow_down(pause)
            pace.wait(pause)

    def _call(self, key: str, request: ModelRequest, *, work: _Work, connection: ServerConnection) -> ChatReply:
        completion_id, reply = connection.call(request)
        if not work.is_new(completion_id, key):
            raise CallError("the reply of another request", again=True)
        self._cache.add(key, reply)
        return reply

    def _note(self, key: str, reply: ChatReply | FailedCall, work: _Work) -> None:
        work.finish(key, reply)
        if not work.replied and work.failed.total() >= _FAILED_IN_A_ROW:
            reasons = ", ".join(f"{reason} {count} times" for reason, count in work.retried.most_common())
            raise ModelError(
                f"{self._server.url} answered none of {work.failed.total()} requests ({reasons}). Is the server up, "
                "and is this its address, with /v1?"
            )


@dataclass
class _Work:
    """What the threads share."""

    open_ones: deque[tuple[str, ModelRequest]]
    replies: dict[str, ChatReply | FailedCall]
    total: int
    progress: Progress | None
    calls: int = 0
    prompt_tokens: int = 0
    new_tokens: int = 0
    replied: bool = False
    retried: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    _ids: dict[str, str] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def take(self) -> tuple[str, ModelRequest] | None:
        with self._lock:
            return self.open_ones.popleft() if self.open_ones else None

    def drop_rest(self) -> None:
        with self._lock:
            self.open_ones.clear()

    def count_call(self) -> None:
        with self._lock:
            self.calls += 1

    def count_failure(self, reason: str) -> None:
        with self._lock:
            self.retried[reason] += 1

    def is_new(self, completion_id: str | None, key: str) -> bool:
        """Whether a completion belongs to this request, and was not delivered for another one before.

        Of two requests that get the same completion, the first is taken for its owner. A server that gives every
        completion the same id says nothing by it.
        """
        with self._lock:
            if not completion_id:
                return True
            owner = self._ids.setdefault(completion_id, key)
            return owner == key or len(self._ids) == 1

    def finish(self, key: str, reply: ChatReply | FailedCall) -> None:
        with self._lock:
            self.replies[key] = reply
            if isinstance(reply, FailedCall):
                self.failed[reply.reason] += 1
            else:
                self.replied = True
                self.prompt_tokens += reply.prompt_tokens or 0
                self.new_tokens += reply.new_tokens or 0
            if self.progress:
                self.progress(len(self.replies), self.total)
