"""Sends many requests through the Batch API: in files, answered within a day, at a lower price.

A note of each batch is on disk from before its creation until its replies are cached: a restarted command finds the
batch by id or by a mark in its metadata, waits for it, and pays for nothing twice.
"""

from __future__ import annotations

import random
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec

from kgedit.errors import ModelError
from kgedit.files import exclusive_lock, replace_file
from kgedit.llm.remote.accepted_parameters import AcceptedParameters
from kgedit.llm.remote.batch_server import CUT, Batch, BatchCalls, Results, batch_lines
from kgedit.llm.remote.client import ChatReplies, Effort
from kgedit.llm.remote.owners import Owners
from kgedit.llm.remote.prices import Price, Purse, most_tokens
from kgedit.llm.remote.requests import ChatReply, ChatRequest, FailedCall, ReplyCache, outcome_of, request_key
from kgedit.llm.remote.server import CallError, ChatServer, RefusedError, ServerConnection, backoff
from kgedit.progress import Advance

_Reply = TypeVar("_Reply")

_LOST = "the server counts a reply that it does not deliver"

_FINAL = frozenset({"400", "404", "413", "422", _LOST})
"""Failures that another attempt would repeat, or pay for again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchWork:
    """Limits and intervals for the Batch API.

    Attributes:
        most_requests: Maximum number of requests of one batch.
        most_bytes: Maximum size of one batch's file.
        poll: Seconds between two polls of a batch.
        settle: Seconds after which a batch must be listed if it was created although the call got no response.
    """

    # OpenAI's limits are 50,000 requests and 200 MB.
    most_requests: int = 50_000
    most_bytes: int = 150_000_000
    poll: float = 30.0
    settle: float = 5.0


class _Note(msgspec.Struct):
    """A batch that was created, or may have been."""

    mark: str
    url: str
    keys: list[str]
    batch_id: str | None = None


class BatchClient:
    """Client for the Batch API of one server, with the `ask` of `ChatClient`.

    Args:
        server: The server.
        cache: Cache of replies.
        notes: Folder of notes on pending batches; used by one process at a time.
        price: Batch price of the model; None if unknown.
        budget: Maximum dollars that one `ask` may spend; None means no limit.

    Raises:
        ModelError: if a budget but no price is given.
    """

    def __init__(
        self,
        server: ChatServer,
        cache: ReplyCache,
        notes: Path,
        *,
        model: str,
        effort: Effort | None = None,
        work: BatchWork | None = None,
        price: Price | None = None,
        budget: float | None = None,
    ) -> None:
        Purse(model, price, budget)  # for its check
        self._server = server
        self._cache = cache
        self._notes = notes
        self._effort = effort or Effort()
        self._work = work or BatchWork()
        self._price = price
        self._budget = budget
        self._accepted = AcceptedParameters()
        self._chance = random.Random(self._effort.seed)

    def ask(self, requests: Sequence[ChatRequest], *, progress: Advance | None = None) -> ChatReplies:
        """Return replies to all requests when all batches are finished.

        Pending batches of an earlier command with some of these requests are awaited first.

        Raises:
            ModelError: if the server rejects the batch, a batch fails as a whole or is cancelled, its note is damaged,
                or another process is waiting for batches.
        """
        distinct = {request_key(request, self._server.url): request for request in requests}
        run = _Run(distinct, progress)
        for key in distinct:
            reply = self._cache.get(key)
            if reply is not None:
                run.replies[key] = reply
        run.before = frozenset(run.replies)
        if len(run.before) < len(distinct):
            with (
                exclusive_lock(self._notes / "lock", when_taken=self._is_taken),
                closing(ServerConnection(self._server)) as connection,
            ):
                self._rounds(run, BatchCalls(connection))
        return run.asked(requests, self._server.url, None if self._price is None else run.dollars)

    def _is_taken(self) -> None:
        raise ModelError(f"Another kgedit waits for batches (its notes are in {self._notes}). Wait until it ends.")

    def _rounds(self, run: _Run, calls: BatchCalls) -> None:
        for note in self._noted(run):
            self._finish(note, run, calls, AcceptedParameters())
        while chunk := self._chunk(run):
            note = _Note(secrets.token_hex(8), self._server.url, list(chunk))
            # The note is written before the batch is created: a killed command then finds a batch that it may have
            # started.
            run.tries.update(note.keys)
            self._write(note)
            run.calls += len(chunk)
            sent = copy(self._accepted)
            self._create(note, chunk, calls, run)
            self._finish(note, run, calls, sent)
        run.failed.update(
            {
                key: reason
                for key, reason in run.trouble.items()
                if key in run.distinct and key not in run.replies and (run.tries[key] or reason in _FINAL)
            }
        )

    def _chunk(self, run: _Run) -> dict[str, ChatRequest]:
        """Next requests that fit into one batch and, at their maximum cost, into the budget."""
        chunk: dict[str, ChatRequest] = {}
        size, dollars = 0, run.dollars
        price = self._price or Price(prompt=0.0, reply=0.0)
        for key, request in run.distinct.items():
            if key in run.replies or run.trouble.get(key) in _FINAL or run.tries[key] >= self._effort.attempts:
                continue
            dollars += price.of(most_tokens(request), self._accepted.most_new_tokens(request))
            size += len(batch_lines({key: request}, self._accepted)[0])
            full = len(chunk) == self._work.most_requests or size > self._work.most_bytes
            if (self._budget is not None and dollars > self._budget) or (chunk and full):
                break
            chunk[key] = request
        return chunk

    def _create(self, note: _Note, chunk: dict[str, ChatRequest], calls: BatchCalls, run: _Run) -> None:
        """Start a batch exactly once, whatever the server's response: further attempts first look for the batch."""
        file_id = self._tried(lambda: calls.upload(b"".join(batch_lines(chunk, self._accepted))), run)
        attempt = 0
        while note.batch_id is None:
            attempt += 1
            try:
                note.batch_id = calls.create(file_id, note.mark).id
            except CallError as error:
                run.retried[error.reason] += 1
                if not error.again or attempt == self._effort.attempts:
                    self._forget_or_keep(note, error)
                time.sleep(max(backoff(attempt, self._chance), error.after or 0.0, self._settle_time(error)))
                found = self._tried(lambda: calls.find(note.mark), run)
                note.batch_id = found.id if found else None
        self._write(note)

    def _settle_time(self, error: CallError) -> float:
        # A 4xx status means that nothing was created. After a 5xx, or a broken connection, the batch may exist.
        return 0.0 if error.reason.isdigit() and int(error.reason) < 500 else self._work.settle

    def _forget_or_keep(self, note: _Note, error: CallError) -> None:
        if error.reason.isdigit() and int(error.reason) < 500:
            self._path(note).unlink()
        raise ModelError(
            f"{self._server.url} created no batch ({error}). Give the same command again: it looks for the "
            "batch before it creates another."
        ) from error

    def _finish(self, note: _Note, run: _Run, calls: BatchCalls, sent: AcceptedParameters) -> None:
        """Wait for a batch, store its results, and delete its note.

        Args:
            note: Note of the batch.
            run: State, to which the results are added.
            calls: Calls of the Batch API.
            sent: Differences from the requests' parameters with which the batch was sent.
        """
        if note.batch_id is None:
            found = self._tried(lambda: calls.find(note.mark), run)
            if found is None:  # it was never created
                self._path(note).unlink()
                return
            note.batch_id = found.id
            self._write(note)
        try:
            batch = self._wait(note.batch_id, run, calls)
            results = self._collect(batch, note, run, calls)
        except RefusedError as error:
            if error.status != 404:
                raise
            raise ModelError(
                f"{error} If the batch is gone, delete its note {self._path(note)}: its requests are then asked again, "
                "and may be charged again."
            ) from error
        for key, reply in results.replies.items():
            self._cache.add(key, reply)
        self._path(note).unlink()
        run.take(results, note.keys, self._price)
        self._learn(results, run, sent)
        if batch.status == "failed" and not results.replies:
            raise ModelError(f"The batch {batch.id} failed at {self._server.url}: {_state_of(batch)}.")
        if batch.status == "cancelled" and len(results.replies) < len(note.keys):
            raise ModelError(
                f"The batch {batch.id} was cancelled at {self._server.url}. The replies that arrived are stored: the "
                "same command asks for the rest."
            )

    def _learn(self, results: Results, run: _Run, sent: AcceptedParameters) -> None:
        """Ask rejected requests again, and count no attempt, if the server accepts them with other parameters."""
        rejected = {key: run.distinct[key] for key in results.rejected if key in run.distinct}
        for key, request in rejected.items():
            self._accepted.learn(results.rejected[key], request.model)
        for key, request in rejected.items():
            if key in run.trouble and self._accepted.body(request) != sent.body(request):
                del run.trouble[key]
                run.tries[key] = max(run.tries[key] - 1, 0)

    def _wait(self, batch_id: str, run: _Run, calls: BatchCalls) -> Batch:
        while True:
            batch = self._tried(lambda: calls.look_up(batch_id), run)
            if batch.is_over:
                return batch
            if run.progress:
                done = (batch.request_counts or {}).get("completed", 0)
                run.progress(min(len(run.replies) + done, len(run.distinct)), len(run.distinct))
            time.sleep(self._work.poll)

    def _collect(self, batch: Batch, note: _Note, run: _Run, calls: BatchCalls) -> Results:
        """Lines of a batch's files, downloaded again if some are truncated or fewer than the server reports."""
        keys = frozenset(note.keys)
        expected = (batch.request_counts or {}).get("completed")
        best = Results(owners=run.owners)
        for attempt in range(1, self._effort.attempts + 1):
            results = Results(owners=run.owners.copy())
            for file_id in (batch.output_file_id, batch.error_file_id):
                if file_id:
                    results.add(self._tried(partial(calls.download, file_id), run), keys)
            if len(results.replies) >= len(best.replies):
                best = results
            if not results.strange[CUT] and len(results.replies) >= min(expected or 0, len(keys)):
                break
            if attempt == self._effort.attempts:
                # May have been charged: the user decides whether to ask again.
                best.failed = dict.fromkeys(keys - best.replies.keys() - best.failed.keys(), _LOST) | best.failed
                break
            run.retried["cut or short file of replies"] += 1
            time.sleep(backoff(attempt, self._chance))
        return best

    def _tried(self, call: Callable[[], _Reply], run: _Run) -> _Reply:
        """Make a free call, with retries."""
        for attempt in range(1, self._effort.attempts + 1):
            try:
                return call()
            except CallError as error:
                run.retried[error.reason] += 1
                if not error.again or attempt == self._effort.attempts:
                    raise ModelError(
                        f"{self._server.url} did not answer for the Batch API ({error}). Batches under way are "
                        f"noted in {self._notes}: the same command resumes."
                    ) from error
                time.sleep(max(backoff(attempt, self._chance), error.after or 0.0))
        raise AssertionError("attempts is at least 1")

    def _noted(self, run: _Run) -> Iterator[_Note]:
        for path in sorted(self._notes.glob("*.json")):
            try:
                note = msgspec.json.decode(path.read_bytes(), type=_Note)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise ModelError(
                    f"{path} does not contain a note of a batch: {error}. Delete it to ask again; requests of a batch "
                    "under way may be charged again."
                ) from error
            wanted = any(key in run.distinct and key not in run.replies for key in note.keys)
            if note.url == self._server.url and wanted:
                yield note

    def _write(self, note: _Note) -> None:
        replace_file(self._path(note), msgspec.json.encode(note) + b"\n")

    def _path(self, note: _Note) -> Path:
        return self._notes / f"{note.mark}.json"


@dataclass
class _Run:
    """State of one call of `ask`."""

    distinct: dict[str, ChatRequest]
    progress: Advance | None
    before: frozenset[str] = frozenset()  # keys with cached replies
    calls: int = 0
    prompt_tokens: int = 0
    new_tokens: int = 0
    dollars: float = 0.0
    replies: dict[str, ChatReply] = field(default_factory=dict)
    tries: Counter[str] = field(default_factory=Counter)  # attempts by key
    trouble: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    retried: Counter[str] = field(default_factory=Counter)
    owners: Owners = field(default_factory=Owners)
    details: dict[str, str] = field(default_factory=dict)

    def take(self, results: Results, keys: Sequence[str], price: Price | None) -> None:
        """Count the results of a batch."""
        self.owners = results.owners
        self.details = results.details | self.details
        self.retried.update(results.strange)
        for key in keys:
            reply = results.replies.get(key)
            if reply is None:
                self.trouble[key] = results.failed.get(key, "no line of the request")
                self.retried[self.trouble[key]] += 1
                continue
            self.replies[key] = reply
            self.prompt_tokens += reply.prompt_tokens or 0
            self.new_tokens += reply.new_tokens or 0
            if price is not None:
                self.dollars += self._cost(key, reply, price)
        if self.progress:
            self.progress(min(len(self.replies), len(self.distinct)), len(self.distinct))

    def _cost(self, key: str, reply: ChatReply, price: Price) -> float:
        """Cost of a reply; an upper bound if the server reports no token counts."""
        if reply.prompt_tokens is not None:
            return price.of(reply.prompt_tokens, reply.new_tokens or 0)
        request = self.distinct.get(key)
        return price.of(most_tokens(request), request.max_tokens) if request else 0.0

    def asked(self, requests: Sequence[ChatRequest], url: str, dollars: float | None) -> ChatReplies:
        """Combine all replies, in the order of the requests."""
        outcomes = {key: FailedCall(reason) for key, reason in self.failed.items()} | {
            key: outcome_of(reply) for key, reply in self.replies.items()
        }
        wanted = [outcomes.get(key) for key in self.distinct]
        failed = Counter(outcome.reason for outcome in wanted if isinstance(outcome, FailedCall))
        return ChatReplies(
            replies=tuple(outcomes.get(request_key(request, url)) for request in requests),
            requests=len(self.distinct),
            cached=len(self.before),
            calls=self.calls,
            retried=dict(sorted(self.retried.items())),
            failed=dict(sorted(failed.items())),
            prompt_tokens=self.prompt_tokens,
            new_tokens=self.new_tokens,
            dollars=dollars,
            new=tuple(request_key(request, url) not in self.before for request in requests),
            details=self.details,
        )


def _state_of(batch: Batch) -> str:
    return " ".join(msgspec.json.encode(batch.errors).decode()[:300].split()) if batch.errors else batch.status
