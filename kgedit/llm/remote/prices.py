"""Prices of tokens, from a table that the user can replace, and a budget that is never exceeded.

Token counts of requests are exact if the model's tokenizer is available locally, else estimated and marked so.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from threading import Condition
from typing import Any, Protocol

import msgspec
import yaml

from kgedit.errors import ModelError
from kgedit.llm.remote.requests import ChatReply, ChatRequest, ModelRequest
from kgedit.yaml_files import load_yaml

SHIPPED = Path(__file__).with_name("prices.yaml")


_DATE = re.compile(r"-\d{4}-\d{2}-\d{2}$")


class Price(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """US dollars per million tokens.

    Attributes:
        prompt: Price of input tokens.
        reply: Price of output tokens.
        batch: Factor on both prices for the Batch API.
    """

    prompt: float
    reply: float
    batch: float = 1.0

    def of(self, prompt_tokens: int, new_tokens: int) -> float:
        """Cost in dollars."""
        return (prompt_tokens * self.prompt + new_tokens * self.reply) / 1_000_000

    def in_batches(self) -> Price:
        """The price of the Batch API."""
        return Price(prompt=self.prompt * self.batch, reply=self.reply * self.batch)


@dataclass(frozen=True, slots=True)
class Spending:
    """Budget and prices for a server.

    Attributes:
        budget: Maximum dollars; None means no limit.
        prices: Price table.
    """

    budget: float | None = None
    prices: Path = SHIPPED


def read_prices(path: Path = SHIPPED) -> dict[str, Price]:
    """Read a price table: model -> price.

    Raises:
        ModelError: if the file cannot be read, or is not a price table.
    """
    try:
        prices = msgspec.convert(load_yaml(path.read_text(encoding="utf-8")), dict[str, Price])
    except (OSError, UnicodeDecodeError, yaml.YAMLError, msgspec.ValidationError) as error:
        raise ModelError(
            f"{path} is not a table of prices: {error}. Write lines like 'gpt-4o-mini: {{prompt: 0.15, reply: 0.6}}', "
            "in US dollars per million tokens."
        ) from error
    wrong = [
        model
        for model, price in prices.items()
        if not all(math.isfinite(number) and number >= 0 for number in (price.prompt, price.reply, price.batch))
    ]
    if wrong:
        raise ModelError(f"{path} has a price that is not a finite number of at least 0: {', '.join(wrong)}.")
    return prices


def price_of(model: str, prices: dict[str, Price]) -> Price | None:
    """Look up a model's price, ignoring a date at the end of its name if needed; None if it has none."""
    return prices.get(model) or prices.get(_DATE.sub("", model))


def most_tokens(request: ModelRequest) -> int:
    """Upper bound for the tokens of a prompt with any tokenizer: no token is shorter than a byte.

    Templates add tokens to each message, and a few models add a system message.
    """
    return sum(len(text.encode()) + 16 for text in request.texts) + 64


@dataclass(frozen=True, slots=True)
class Reserved:
    """Amount reserved for one call, its maximum cost."""

    dollars: float


class Purse:
    """Budget for calls: the maximum cost of a call is reserved before it starts.

    Args:
        price: Price of the model; None if unknown, in which case nothing is counted.
        budget: Maximum dollars; None means no limit.

    Raises:
        ModelError: if a budget but no price is given.
    """

    def __init__(self, model: str, price: Price | None, budget: float | None) -> None:
        if budget is not None and price is None:
            raise ModelError(
                f"The price of '{model}' is unknown, so a budget cannot be enforced. Give a table of prices: "
                f"--prices FILE, with a line such as '{model}: {{prompt: 0.15, reply: 0.6}}'."
            )
        self._price = price
        self._budget = budget
        self._spent = 0.0
        self._reserved = 0.0
        self._changed = Condition()

    @property
    def spent(self) -> float | None:
        """Dollars spent; None if there is no price. Calls without reported token counts count at their maximum."""
        return None if self._price is None else self._spent

    def reserve(self, request: ModelRequest, new_tokens: int) -> Reserved | None:
        """Reserve the maximum cost of a call; None if it exceeds the budget.

        Waits for running calls, which usually release most of their reservation.

        Args:
            request: The request.
            new_tokens: Maximum number of tokens of its reply.
        """
        price = self._price or Price(prompt=0.0, reply=0.0)
        most = price.of(most_tokens(request), new_tokens)
        with self._changed:
            while self._budget is not None and self._spent + self._reserved + most > self._budget:
                if not self._reserved:
                    return None
                self._changed.wait()
            self._reserved += most
        return Reserved(most)

    def settle(self, reserved: Reserved, reply: ChatReply | None, *, perhaps_paid: bool = False) -> None:
        """Replace a reservation with the actual cost of the call.

        Args:
            reply: The reply; None if none arrived.
            perhaps_paid: Whether the server may charge for the failed call.
        """
        price = self._price or Price(prompt=0.0, reply=0.0)
        if reply is not None and reply.prompt_tokens is not None:
            cost = price.of(reply.prompt_tokens, reply.new_tokens or 0)
        else:
            cost = reserved.dollars if reply is not None or perhaps_paid else 0.0
        with self._changed:
            self._reserved -= reserved.dollars
            if abs(self._reserved) < 1e-12:  # what is left of sums of fractions of a cent
                self._reserved = 0.0
            self._spent += cost
            self._changed.notify_all()


_CHARACTERS = 4
"""Characters of English text per token; other languages have fewer."""


_PER_MESSAGE = 4
"""Tokens around a message (role and separators) in OpenAI's chat format; no less, because a budget must hold."""


class TokenCounter(Protocol):
    """Counts tokens.

    Attributes:
        exact: Whether counts are those of the model's tokenizer.
    """

    exact: bool

    def prompt(self, request: ChatRequest) -> int:
        """Number of tokens of the request as model input."""

    def text(self, text: str) -> int:
        """Number of tokens of a text alone."""


class ByCharacters:
    """Four characters per token, for models whose tokenizer is not available locally."""

    exact = False

    def prompt(self, request: ChatRequest) -> int:
        """Number of tokens of all messages, with an allowance for the text between them."""
        return sum(_PER_MESSAGE + self.text(message.content) for message in request.messages)

    def text(self, text: str) -> int:
        """Number of tokens, rounded up."""
        return -(-len(text) // _CHARACTERS)


class ByTokenizer:
    """The tokenizer of a model, with its chat template.

    Args:
        name: A built-in model, a folder, or a name in the hub's local cache.

    Raises:
        ModelError: if there is no such tokenizer, or it has no chat template.
    """

    exact = True

    def __init__(self, name: str) -> None:
        self._tokenizer = _tokenizer(name)
        if not getattr(self._tokenizer, "chat_template", None):
            raise ModelError(
                f"The tokenizer of '{name}' has no chat template, so that requests cannot be counted by it."
            )

    def prompt(self, request: ChatRequest) -> int:
        """Number of tokens of the filled-in chat template."""
        turns = [{"role": message.role, "content": message.content} for message in request.messages]
        text = self._tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
        return len(self._tokenizer.encode(text, add_special_tokens=False))

    def text(self, text: str) -> int:
        """Number of tokens without special ones."""
        return len(self._tokenizer.encode(text, add_special_tokens=False))


def _tokenizer(name: str) -> Any:
    from transformers import AutoTokenizer

    from kgedit.llm.loading import BUILT_IN

    path = BUILT_IN[name](None, None).path_or_name if name in BUILT_IN else name
    try:
        return AutoTokenizer.from_pretrained(path, local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        raise ModelError(
            f"There is no tokenizer of '{name}' on this machine: give a model's folder, or smollm2-135m."
        ) from error
