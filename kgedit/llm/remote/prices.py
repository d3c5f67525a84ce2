"""What tokens cost, by a table that the user can replace, and a purse that is never overdrawn."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from threading import Condition

import msgspec
import yaml

from kgedit.errors import ModelError
from kgedit.llm.remote.requests import ChatReply, ModelRequest

SHIPPED = Path(__file__).with_name("prices.yaml")

_DATE = re.compile(r"-\d{4}-\d{2}-\d{2}$")


class Price(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """US dollars per million tokens.

    Attributes:
        prompt: Of what is sent.
        reply: Of what is written.
        batch: Share of both that the Batch API costs.
    """

    prompt: float
    reply: float
    batch: float = 1.0

    def of(self, prompt_tokens: int, new_tokens: int) -> float:
        """Dollars."""
        return (prompt_tokens * self.prompt + new_tokens * self.reply) / 1_000_000

    def in_batches(self) -> Price:
        """The price of the Batch API."""
        return Price(prompt=self.prompt * self.batch, reply=self.reply * self.batch)


@dataclass(frozen=True, slots=True)
class Spending:
    """What may be spent on a server.

    Attributes:
        budget: Most dollars; None for no limit.
        prices: Table of prices.
    """

    budget: float | None = None
    prices: Path = SHIPPED


def read_prices(path: Path = SHIPPED) -> dict[str, Price]:
    """Model -> price.

    Raises:
        ModelError: if the file cannot be read, or is no table of prices.
    """
    try:
        prices = msgspec.convert(yaml.safe_load(path.read_text(encoding="utf-8")), dict[str, Price])
    except (OSError, UnicodeDecodeError, yaml.YAMLError, msgspec.ValidationError) as error:
        raise ModelError(
            f"{path} is no table of prices: {error}. It needs lines like 'gpt-4o-mini: {{prompt: 0.15, reply: 0.6}}' "
            "in US dollars per million tokens."
        ) from error
    wrong = [model for model, price in prices.items() if min(price.prompt, price.reply, price.batch) < 0]
    if wrong:
        raise ModelError(f"{path} has a price below 0: {', '.join(wrong)}.")
    return prices


def price_of(model: str, prices: dict[str, Price]) -> Price | None:
    """A model's price, also where its name ends in a date that the table leaves out; None where it has none."""
    return prices.get(model) or prices.get(_DATE.sub("", model))


def most_tokens(request: ModelRequest) -> int:
    """An upper bound for the tokens of a prompt, whatever the tokenizer: no token is shorter than a byte.

    Templates add some to each message, and a few models a system message of their own.
    """
    return sum(len(text.encode()) + 16 for text in request.texts) + 64


@dataclass(frozen=True, slots=True)
class Reserved:
    """Money set aside for one call, the most that it can cost."""

    dollars: float


class Purse:
    """Money for calls: what a call may cost at most is set aside before it starts.

    Args:
        price: None where nobody knows it; then nothing is counted.
        budget: Most dollars; None for no limit.

    Raises:
        ModelError: if there is a budget and no price.
    """

    def __init__(self, model: str, price: Price | None, budget: float | None) -> None:
        if budget is not None and price is None:
            raise ModelError(
                f"Nobody knows the price of '{model}', so that a budget cannot be kept. Give a table of prices: "
                f"--prices FILE, with a line such as '{model}: {{prompt: 0.15, reply: 0.6}}'."
            )
        self._price = price
        self._budget = budget
        self._spent = 0.0
        self._reserved = 0.0
        self._changed = Condition()

    @property
    def spent(self) -> float | None:
        """Dollars; None where there is no price. Where a server does not say, the most that a call can have cost."""
        return None if self._price is None else self._spent

    def reserve(self, request: ModelRequest) -> Reserved | None:
        """Set aside what a call may cost at most; None if the budget does not hold it.

        Waits for calls under way, which as a rule give back most of what was set aside for them.
        """
        price = self._price or Price(prompt=0.0, reply=0.0)
        most = price.of(most_tokens(request), request.max_tokens)
        with self._changed:
            while self._budget is not None and self._spent + self._reserved + most > self._budget:
                if not self._reserved:
                    return None
                self._changed.wait()
            self._reserved += most
        return Reserved(most)

    def settle(self, reserved: Reserved, reply: ChatReply | None, *, perhaps_paid: bool = False) -> None:
        """Pay for a call.

        Args:
            reply: None where none came.
            perhaps_paid: Whether a server may charge for what came instead.
        """
        price = self._price or Price(prompt=0.0, reply=0.0)
        if reply is not None and reply.prompt_tokens is not None:
            cost = price.of(reply.prompt_tokens, reply.new_tokens or 0)
        else:
            cost = reserved.dollars if reply is not None or perhaps_paid else 0.0
        with self._changed:
            self._reserved -= reserved.dollars
            if abs(self._reserved) < 1e-12:
                self._reserved = 0.0
            self._spent += cost
            self._changed.notify_all()
