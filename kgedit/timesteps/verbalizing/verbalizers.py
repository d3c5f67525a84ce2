"""Verbalizers, which word questions: a model behind a server, a local model, or the templates alone.

All take the records of kgedit.timesteps.verbalizing and return a reply for each, or the reason why there is
none.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from kgedit.errors import ModelError
from kgedit.llm.remote.batches import BatchClient, BatchWork
from kgedit.llm.remote.client import ChatClient, ChatReplies, CostEstimate, Effort
from kgedit.llm.remote.prices import SHIPPED, ByCharacters, ByTokenizer, Price, TokenCounter, price_of, read_prices
from kgedit.llm.remote.requests import ChatReply, ChatRequest, FailedCall, ReplyCache, request_key
from kgedit.llm.remote.server import ChatServer
from kgedit.progress import Advance
from kgedit.resources import cache
from kgedit.timesteps.verbalizing import Wanted
from kgedit.timesteps.verbalizing.prompting import read_prompt, request_for

REFUSES_SCHEMA = frozenset({"400", "422", "501"})
"""HTTP status codes of servers that do not support response_format."""


@dataclass(frozen=True, slots=True)
class Replies:
    """Replies of a verbalizer, with their cost.

    Attributes:
        replies: One per record, in order.
        structured: Whether a JSON schema was sent with the requests.
        asked: Calls, tokens and dollars; None if no server was used.
    """

    replies: tuple[ChatReply | FailedCall, ...]
    structured: bool
    asked: ChatReplies | None = None


class Verbalizer(Protocol):
    """Words records as questions.

    Attributes:
        name: Name of the model.
        where: Address of its server, or "local".
    """

    @property
    def name(self) -> str: ...

    @property
    def where(self) -> str: ...

    def word(self, wanted: Sequence[Wanted], *, progress: Advance | None = None) -> Replies:
        """Return a reply to each record, in any form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteVerbalizer:
    """A model behind an OpenAI-compatible server.

    Attributes:
        model: Name of the model on the server.
        server: The server.
        structured: Whether a JSON schema is sent for replies; None tries it once and continues without it if the server
            does not support it.
        batch: Whether the Batch API is used.
        batch_work: Settings of the Batch API.
        effort: Parallel calls and attempts per request.
        prices: Table of prices.
        budget: Maximum cost in dollars; None means no limit.
        tokenizer: Local model whose tokenizer counts tokens for an estimate; None counts characters.
        prompts: Folder of prompt files; None means the shipped ones.
    """

    model: str
    server: ChatServer = field(default_factory=ChatServer)
    structured: bool | None = None
    batch: bool = False
    batch_work: BatchWork = field(default_factory=BatchWork)
    effort: Effort = field(default_factory=Effort)
    prices: Path = SHIPPED
    budget: float | None = None
    tokenizer: str | None = None
    prompts: Path | None = None

    @property
    def name(self) -> str:
        """Name of the model."""
        return self.model

    @property
    def where(self) -> str:
        """Address of the server."""
        return self.server.url

    def estimate(self, wanted: Sequence[Wanted]) -> CostEstimate:
        """Estimate the cost without calling the server. Replies are assumed as long as the templates' wordings."""
        counter: TokenCounter = ByTokenizer(self.tokenizer) if self.tokenizer else ByCharacters()
        structured = self._settled(wanted)
        likely = [likely_reply(one, self.prompts) for one in wanted]
        requests = self._requests(wanted, structured=structured is not False)
        client = self._client(self._batch_price if self.batch else self._price)
        return client.estimate(requests, counter, likely_reply=likely)

    def dry_run(self, wanted: Sequence[Wanted]) -> Iterator[str]:
        """Yield the requests that would be sent, including cached ones, each as a line of Batch API input."""
        for request in dict.fromkeys(self._requests(wanted, structured=self._settled(wanted) is not False)):
            row = {
                "custom_id": request_key(request, self.server.url),
                "method": "POST",
                "url": "/v1/chat/completions",
                "body": request.body(),
            }
            yield json.dumps(row, ensure_ascii=False)

    def word(self, wanted: Sequence[Wanted], *, progress: Advance | None = None) -> Replies:
        """Send the records to the server.

        Raises:
            ModelError: if the server refuses, or the budget does not cover all requests; replies so far stay in the
                cache.
        """
        client = self._client(self._price)
        structured, tried = self._settled(wanted), None
        if structured is None:
            structured, tried = self._offers_schema(client, wanted)
        requests = self._requests(wanted, structured=structured)
        # The trial's outcome is used even if it failed: asking again would pay for all attempts again.
        used = bool(tried and structured and tried.replies[0] is not None)
        is_trial = [used and request == requests[0] for request in requests]
        others = [request for request, own in zip(requests, is_trial, strict=True) if not own]
        if self.batch:
            client_of_batches = self._batches(spent=tried.dollars if tried and tried.dollars else 0.0)
            asked = client_of_batches.ask(others, progress=progress)
        else:
            asked = client.ask(others, progress=progress)
        if tried:
            asked = _with_trial(asked, tried, is_trial, own_purse=self.batch)
        if asked.not_asked:
            raise ModelError(
                f"The budget of ${self.budget} does not cover all: {asked.not_asked:,} of {len(wanted):,} wordings are "
                f"not asked for, ${asked.dollars or 0:.4f} are spent. What was worded is kept and costs nothing when "
                "the command is given again, with a larger --budget."
            )
        return Replies(tuple(reply for reply in asked.replies if reply is not None), structured, asked)

    def _requests(self, wanted: Sequence[Wanted], *, structured: bool) -> list[ChatRequest]:
        return _requests_for(wanted, self.prompts, model=self.model, structured=structured)

    def _settled(self, wanted: Sequence[Wanted]) -> bool | None:
        """Whether a schema is sent, if known without a request; a cached reply also shows it."""
        if self.structured is not None or not wanted:
            return bool(self.structured)
        for structured in (True, False):
            (request,) = self._requests(wanted[:1], structured=structured)
            if self._replies.get(request_key(request, self.server.url)) is not None:
                return structured
        return None

    def _offers_schema(self, client: ChatClient, wanted: Sequence[Wanted]) -> tuple[bool, ChatReplies]:
        """Send the first record with a schema; its reply is cached, so it costs nothing more."""
        asked = client.ask(self._requests(wanted[:1], structured=True))
        (reply,) = asked.replies
        return not (isinstance(reply, FailedCall) and reply.reason in REFUSES_SCHEMA), asked

    @property
    def _replies(self) -> ReplyCache:
        return ReplyCache(cache() / "replies")

    @property
    def _price(self) -> Price | None:
        return price_of(self.model, read_prices(self.prices))

    @property
    def _batch_price(self) -> Price | None:
        price = self._price
        return price and price.in_batches()

    def _client(self, price: Price | None) -> ChatClient:
        return ChatClient(
            self.server, self._replies, model=self.model, effort=self.effort, price=price, budget=self.budget
        )

    def _batches(self, *, spent: float) -> BatchClient:
        return BatchClient(
            self.server,
            self._replies,
            cache() / "batches",
            model=self.model,
            effort=self.effort,
            work=self.batch_work,
            price=self._batch_price,
            budget=None if self.budget is None else max(self.budget - spent, 0.0),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalVerbalizer:
    """A local model.

    Attributes:
        model: Built-in name, folder, or name on the hub.
        device: Device, by the same names as in run-edit.
        prompts: Folder of prompt files; None means the shipped ones.
    """

    model: str
    device: str = "auto"
    prompts: Path | None = None

    @property
    def name(self) -> str:
        """Name of the model; of a folder its own name, because timesteps record it, which are published."""
        path = Path(self.model)
        return path.resolve().name if path.is_dir() else self.model

    @property
    def where(self) -> str:
        """Always "local"."""
        return "local"

    def word(self, wanted: Sequence[Wanted], *, progress: Advance | None = None) -> Replies:
        """Generate replies with greedy decoding.

        Raises:
            ModelError: if it cannot be loaded, or has no chat template.
        """
        from kgedit.llm.devices import resolve_device, resolve_dtype
        from kgedit.llm.loading import load_model
        from kgedit.llm.local_chat import LocalChat

        device = resolve_device(self.device)
        chat = LocalChat(
            load_model(self.model, device=device, dtype=resolve_dtype("auto", device)), ReplyCache(cache() / "replies")
        )
        requests = _requests_for(wanted, self.prompts, model=self.model, structured=False)
        return Replies(tuple(chat.ask(requests, progress=progress)), structured=False)


def _requests_for(wanted: Sequence[Wanted], prompts: Path | None, *, model: str, structured: bool) -> list[ChatRequest]:
    return [
        request_for(
            read_prompt(one.prompt, prompts), one.record, model=model, structured=structured, persona=one.persona
        )
        for one in wanted
    ]


def _with_trial(asked: ChatReplies, tried: ChatReplies, is_trial: Sequence[bool], *, own_purse: bool) -> ChatReplies:
    """Add the one request that tested whether the server accepts a schema.

    Args:
        is_trial: For each request, in order, whether the trial's reply is its reply; `asked` has those of the others.
        own_purse: Whether the trial's cost is not included in that of the other requests.
    """
    paid = asked.dollars
    if own_purse and paid is not None:
        paid += tried.dollars or 0.0
    used = any(is_trial)
    replies, new = iter(asked.replies), iter(asked.new)
    return replace(
        asked,
        replies=tuple(tried.replies[0] if own else next(replies) for own in is_trial),
        requests=asked.requests + used,
        calls=asked.calls + tried.calls,
        retried=dict(sorted((Counter(asked.retried) + Counter(tried.retried)).items())),
        failed=dict(sorted((Counter(asked.failed) + Counter(tried.failed if used else {})).items())),
        prompt_tokens=asked.prompt_tokens + tried.prompt_tokens,
        new_tokens=asked.new_tokens + tried.new_tokens,
        dollars=paid,
        new=tuple(tried.new[0] if own else next(new) for own in is_trial),
        details={**tried.details, **asked.details},
    )


def likely_reply(wanted: Wanted, prompts: Path | None = None) -> str:
    """A reply with the templates' own wordings, for its length."""
    prompt = read_prompt(wanted.prompt, prompts)
    templates = wanted.templates or (str(wanted.record.get("question", "")),)
    texts = [templates[index % len(templates)] for index in range(prompt.texts)]
    return prompt.reply(texts, wanted.asking.answer)
