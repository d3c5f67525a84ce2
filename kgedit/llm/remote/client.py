"""Sends many requests to one server: each distinct one at most once, and never again once its reply is on disk.

The judge and all other callers of remote models use this module only: `estimate`, then `ask`.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import closing
from copy import copy
from dataclasses import dataclass, field
from threading import Lock

from kgedit.errors import ModelError
from kgedit.llm.remote.accepted_parameters import AcceptedParameters
from kgedit.llm.remote.owners import Completion, Owners
from kgedit.llm.remote.prices import Price, Purse, TokenCounter
from kgedit.llm.remote.requests import (
    ChatReply,
    ChatRequest,
    FailedCall,
    ModelRequest,
    ReplyCache,
    outcome_of,
    request_key,
)
from kgedit.llm.remote.server import (
    CallError,
    ChatServer,
    OtherParametersError,
    Pace,
    ServerConnection,
    StoppedError,
    backoff,
)
from kgedit.progress import Advance

_UNPAID = frozenset({"no connection"})
"""Failures, other than HTTP error states, that no server charges for."""

_UNREACHED = frozenset({"no connection", "timeout"})
"""Failures that a wrong address causes."""

_FAILED_IN_A_ROW = 20
"""Failed requests before any reply after which all others are dropped, because the server is down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """Concurrency and retries.

    Attributes:
        workers: Maximum number of concurrent calls.
        attempts: Attempts per request before it counts as failed.
        seed: Seed of the jitter between attempts.
    """

    # A guess: below the concurrency limits of hosted models; --workers raises it for a server of one's own.
    workers: int = 4
    # Five pauses of 0.5 to 8 seconds, 15.5 in total, bridge a restarted worker; a limit per minute comes with a
    # Retry-After, which replaces them.
    attempts: int = 6
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CostEstimate:
    """Estimated cost of asking.

    Attributes:
        requests: Number of distinct requests.
        cached: Number of these whose replies are on disk and cost nothing.
        prompt_tokens: Prompt tokens of the others.
        new_tokens: Tokens of their replies.
        dollars: Cost of the others; None if there is no price.
        exact: Whether prompts were counted with the model's own tokenizer.
    """

    requests: int
    cached: int
    prompt_tokens: int
    new_tokens: int
    dollars: float | None
    exact: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatReplies:
    """Replies, with token counts and cost.

    Attributes:
        replies: One for each request, in order; None for those beyond the budget.
        requests: Number of distinct requests.
        cached: Number of these whose replies were on disk.
        calls: Number of attempts, successful or not.
        retried: Reason -> number of failed attempts.
        failed: Reason -> number of distinct requests without a text after all attempts, including stored refusals.
        prompt_tokens: Prompt tokens of new replies, as counted by the server.
        new_tokens: Generated tokens of new replies, as counted by the server.
        dollars: Amount spent by this call; None if there is no price.
        new: For each request, in order, whether its reply is new rather than cached.
        details: Reason -> first explanation that the server gave for a failure with this reason.
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
    details: Mapping[str, str] = field(default_factory=dict)

    @property
    def not_asked(self) -> int:
        """Number of requests beyond the budget."""
        return sum(reply is None for reply in self.replies)


class ChatClient:
    """Client of one server.

    Args:
        server: The server.
        cache: Cache of replies.
        price: Price of the model; None if unknown.
        budget: Maximum dollars that all calls of `ask` together may spend; None means no limit.
        room: Whether a request whose tokens were all spent on reasoning is repeated with room for it.

    Raises:
        ModelError: if a budget but no price is given.
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
        room: bool = True,
    ) -> None:
        self._server = server
        self._cache = cache
        self._model = model
        self._effort = effort or Effort()
        self._price = price
        self._purse = Purse(model, price, budget)
        self._accepted = AcceptedParameters(room=room)

    def estimate(
        self, requests: Sequence[ChatRequest], counter: TokenCounter, *, likely_reply: str | Sequence[str]
    ) -> CostEstimate:
        """Estimate the cost of `ask` for these requests, without calling the server.

        Args:
            counter: Counter of the model's tokens.
            likely_reply: A typical reply, whose tokens plus one for its end are counted for every request; or one reply
                for each request.
        """
        likely = [likely_reply] * len(requests) if isinstance(likely_reply, str) else likely_reply
        likely_text = {
            request_key(request, self._server.url): text for request, text in zip(requests, likely, strict=True)
        }
        distinct = {request_key(request, self._server.url): request for request in requests}
        open_ones = {key: request for key, request in distinct.items() if self._cache.get(key) is None}
        prompt_tokens = sum(counter.prompt(request) for request in open_ones.values())
        new_tokens = sum(counter.text(likely_text[key]) + 1 for key in open_ones)
        return CostEstimate(
            requests=len(distinct),
            cached=len(distinct) - len(open_ones),
            prompt_tokens=prompt_tokens,
            new_tokens=new_tokens,
            dollars=None if self._price is None else self._price.of(prompt_tokens, new_tokens),
            exact=counter.exact,
        )

    def ask(self, requests: Sequence[ModelRequest], *, progress: Advance | None = None) -> ChatReplies:
        """Return replies to all requests.

        A kill loses no reply that had arrived; Ctrl-C waits for running calls and stores their replies.

        Raises:
            ModelError: if no request can succeed, or the server does not answer any.
        """
        distinct = self._distinct(requests)
        found = {key: self._cache.get(key) for key in distinct}
        replies = {key: outcome_of(reply) for key, reply in found.items() if reply is not None}
        cached = len(replies)
        work = _Work(
            open_ones=deque((key, request) for key, request in distinct.items() if key not in replies),
            replies=replies,
            total=len(distinct),
            progress=progress,
        )
        if work.open_ones:
            self._run(work)
        failed = Counter(reply.reason for reply in replies.values() if isinstance(reply, FailedCall))
        return ChatReplies(
            replies=tuple(replies.get(request_key(request, self._server.url)) for request in requests),
            requests=len(distinct),
            cached=cached,
            calls=work.calls,
            retried=dict(sorted(work.retried.items())),
            failed=dict(sorted(failed.items())),
            prompt_tokens=work.prompt_tokens,
            new_tokens=work.new_tokens,
            dollars=self._purse.spent,
            new=tuple(found[request_key(request, self._server.url)] is None for request in requests),
            details=work.details,
        )

    def _distinct(self, requests: Sequence[ModelRequest]) -> dict[str, ModelRequest]:
        return {request_key(request, self._server.url): request for request in requests}

    def _run(self, work: _Work) -> None:
        pace = Pace(self._effort.workers)
        threads = min(self._effort.workers, len(work.open_ones))
        with (
            closing(ServerConnection(self._server, self._accepted)) as connection,
            ThreadPoolExecutor(threads, thread_name_prefix="kgedit-ask") as pool,
        ):
            futures = [pool.submit(self._drain, work, pace, connection) for _ in range(threads)]
            try:
                wait(futures, return_when=FIRST_EXCEPTION)
            finally:
                # On Ctrl-C and on errors no new calls start; running calls finish, and their replies are stored.
                pace.stop()
        for future in futures:
            future.result()

    def _drain(self, work: _Work, pace: Pace, connection: ServerConnection) -> None:
        """Loop of each thread: process the next request until there is none, or the budget is exhausted."""
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
        """Ask for one reply, with retries; None if another attempt exceeds the budget."""
        # Seeded by request: the same pauses in every run, but different ones for requests that fail together.
        chance = random.Random(f"{self._effort.seed}:{key}")
        attempt = 0
        spent: ChatReply | None = None  # on reasoning
        while True:
            attempt += 1
            # A copy, because another thread may learn parameters before the call, for which nothing is reserved.
            sent = copy(self._accepted)
            if spent is not None and sent.most_new_tokens(request) == request.max_tokens:  # no room after all
                return self._stored(key, spent)
            reserved = self._purse.reserve(request, sent.most_new_tokens(request))
            if reserved is None:
                return None
            reply, error = None, None
            try:
                with pace.turn():
                    work.count_call()
                    reply = self._call(key, request, sent, work, connection)
            except OtherParametersError:
                attempt -= 1
                continue
            except CallError as caught:
                error = caught
            finally:
                # A failure with a status is not charged; a reply that was lost or cut on the way may be.
                perhaps_paid = error is not None and not error.reason.isdigit() and error.reason not in _UNPAID
                self._purse.settle(reserved, reply, perhaps_paid=perhaps_paid)
            if reply is not None:
                pace.succeeded()
                if self._accepted.learn_from(reply, request, sent):
                    work.count_tokens(reply)
                    attempt, spent = attempt - 1, reply
                    continue
                return self._stored(key, reply)
            assert error is not None
            work.count_failure(error)
            if not error.again or attempt == self._effort.attempts:
                return FailedCall(error.reason)
            pause = max(backoff(attempt, chance), error.after or 0.0)
            if error.slow_down:
                pace.slow_down(pause)
            pace.wait(pause)

    def _call(
        self, key: str, request: ModelRequest, sent: AcceptedParameters, work: _Work, connection: ServerConnection
    ) -> ChatReply:
        completion = connection.call(request, sent)
        if work.is_anothers(completion, key):
            raise CallError("the reply of another request", again=True)
        return completion.reply

    def _stored(self, key: str, reply: ChatReply) -> ChatReply:
        """Store a reply before it is counted, so that a kill loses none that was paid for."""
        self._cache.add(key, reply)
        return reply

    def _note(self, key: str, reply: ChatReply | FailedCall, work: _Work) -> None:
        work.finish(key, reply)
        if not work.replied and work.failed.total() >= _FAILED_IN_A_ROW:
            reasons = ", ".join(f"{reason} {count} times" for reason, count in work.retried.most_common())
            advice = " Is the server up, and is this its address, with /v1?" if _UNREACHED & work.failed.keys() else ""
            raise ModelError(
                f"{self._server.url} answered none of {work.failed.total()} requests ({reasons})"
                f"{first_detail(work.failed, work.details)}.{advice}"
            )


def first_detail(failed: Mapping[str, int], details: Mapping[str, str]) -> str:
    """The server's explanation of the most frequent failure that has one, to be appended to a message; "" without any.

    Args:
        failed: Reason -> number of failures.
        details: Reason -> explanation.
    """
    explained = [reason for reason in failed if reason in details]
    most = max(explained, key=lambda reason: failed[reason], default=None)
    return "" if most is None else f"; the server says: {details[most].rstrip('.')}"


@dataclass
class _Work:
    """State shared by the threads."""

    open_ones: deque[tuple[str, ModelRequest]]
    replies: dict[str, ChatReply | FailedCall]
    total: int
    progress: Advance | None
    calls: int = 0
    prompt_tokens: int = 0
    new_tokens: int = 0
    replied: bool = False
    retried: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    details: dict[str, str] = field(default_factory=dict)
    _ids: set[str] = field(default_factory=set)
    _owners: Owners = field(default_factory=Owners)
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

    def count_failure(self, error: CallError) -> None:
        with self._lock:
            self.retried[error.reason] += 1
            if error.detail:
                self.details.setdefault(error.reason, error.detail)

    def count_tokens(self, reply: ChatReply) -> None:
        """Count the tokens of a reply that is not kept."""
        with self._lock:
            self._add_tokens(reply)

    def _add_tokens(self, reply: ChatReply) -> None:
        self.prompt_tokens += reply.prompt_tokens or 0
        self.new_tokens += reply.new_tokens or 0

    def is_anothers(self, completion: Completion, key: str) -> bool:
        """Whether a completion was delivered for another request.

        If two requests get the same completion, the first is considered its owner. If a server gives every completion
        the same id, the id carries no information.
        """
        with self._lock:
            if not completion.id:
                return False
            self._ids.add(completion.id)
            return self._owners.is_anothers(completion, key) and len(self._ids) > 1

    def finish(self, key: str, reply: ChatReply | FailedCall) -> None:
        with self._lock:
            if isinstance(reply, FailedCall):
                self.replies[key] = reply
                self.failed[reply.reason] += 1
            else:
                self.replies[key] = outcome_of(reply)
                self.replied = True
                self._add_tokens(reply)
            if self.progress:
                self.progress(len(self.replies), self.total)
