"""Tokens counted before anything is sent, against what a server counts then."""

from __future__ import annotations

from pathlib import Path

import pytest
from world.fault_server import fault_server
from world.small_models import tokenizer

from kgedit.errors import ModelError
from kgedit.llm.remote.client import ChatClient
from kgedit.llm.remote.prices import ByCharacters, ByTokenizer, Price, most_tokens, price_of, read_prices
from kgedit.llm.remote.requests import ChatRequest, Message, ReplyCache
from kgedit.llm.remote.server import ChatServer

_TEMPLATE = (
    "{% for message in messages %}<end>{{ message.role }}\n{{ message.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<end>assistant\n{% endif %}"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tokenizer with a chat template, and nothing else of a model."""
    saved = tokenizer().__class__(tokenizer_object=tokenizer().backend_tokenizer, eos_token="<end>")
    saved.chat_template = _TEMPLATE
    saved.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def requests() -> list[ChatRequest]:
    texts = [f"Who is the mayor of Arvika? Attempt {number}. Çà et là: 漢字" for number in range(6)]
    return [ChatRequest(model="m", messages=(Message("user", text),), max_tokens=8) for text in texts]


def test_an_estimate_by_the_models_tokenizer_is_within_5_percent_of_what_the_server_counts(
    folder: Path, tmp_path: Path
) -> None:
    loaded = tokenizer()
    # The server's own count: special tokens and text encoded piece by piece, not by the template.
    with fault_server(lambda _: "INCORRECT") as server:
        plain = server.completion

        def counted(message: str, body: dict[str, object]) -> dict[str, object]:
            pieces = [f"user\n{message}\n", "assistant\n"]
            asked = sum(1 + len(loaded.encode(piece, add_special_tokens=False)) for piece in pieces)
            new = len(loaded.encode("INCORRECT", add_special_tokens=False)) + 1
            return plain(message, body) | {"usage": {"prompt_tokens": asked, "completion_tokens": new}}

        server.completion = counted  # type: ignore[method-assign]
        price = Price(prompt=2.0, reply=8.0)
        client = ChatClient(ChatServer(url=server.url), ReplyCache(tmp_path / "cache"), model="m", price=price)
        estimate = client.estimate(requests(), ByTokenizer(str(folder)), likely_reply="INCORRECT")
        asked = client.ask(requests())
    assert estimate.exact
    assert estimate.prompt_tokens == pytest.approx(asked.prompt_tokens, rel=0.05)
    assert estimate.new_tokens == pytest.approx(asked.new_tokens, rel=0.05)
    assert estimate.dollars == pytest.approx(asked.dollars, rel=0.05)


def test_no_prompt_has_more_tokens_than_the_bound_that_a_budget_reckons_with(folder: Path) -> None:
    exact = ByTokenizer(str(folder))
    assert all(exact.prompt(request) <= most_tokens(request) for request in requests())


def test_without_a_tokenizer_characters_are_counted_and_it_is_said() -> None:
    counter = ByCharacters()
    assert not counter.exact
    assert counter.text("12345678") == 2
    assert counter.text("123456789") == 3


def test_a_tokenizer_that_is_not_here_is_named() -> None:
    with pytest.raises(ModelError, match="no tokenizer of 'absent/folder'"):
        ByTokenizer("absent/folder")


def test_a_price_is_found_by_the_name_with_and_without_its_date(tmp_path: Path) -> None:
    prices = read_prices()
    assert price_of("gpt-4o-mini-2024-07-18", prices) == price_of("gpt-4o-mini", prices) is not None
    assert price_of("gpt-4o-mini-audio", prices) is None
    assert Price(prompt=2.0, reply=8.0).of(1_000_000, 500_000) == 6.0
    wrong = tmp_path / "prices.yaml"
    for text in ("a: {prompt: 1}", "a: {prompt: 1, reply: 1, per: 1000}", "- a"):
        wrong.write_text(text, encoding="utf-8")
        with pytest.raises(ModelError, match="price"):
            read_prices(wrong)


@pytest.mark.parametrize("number", ["-1", ".nan", ".inf", "-.inf"])
@pytest.mark.parametrize("name", ["prompt", "reply", "batch"])
def test_a_price_is_a_finite_number_of_at_least_0(tmp_path: Path, name: str, number: str) -> None:
    table = tmp_path / "prices.yaml"
    prices = {"prompt": "1", "reply": "1", name: number}
    wrong = ", ".join(f"{key}: {text}" for key, text in prices.items())
    table.write_text(f"a: {{prompt: 1, reply: 1}}\nb: {{{wrong}}}\n", encoding="utf-8")
    with pytest.raises(ModelError, match="has a price that is not a finite number of at least 0: b"):
        read_prices(table)
