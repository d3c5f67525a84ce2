"""Requests to a model on this machine: replies do not depend on the batch; equal requests are answered once."""

from __future__ import annotations

from pathlib import Path

import pytest
from world.small_models import small_model

from kgedit.errors import ModelError
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.local_chat import LocalChat
from kgedit.llm.remote.requests import ChatRequest, Message, ReplyCache

_TEMPLATE = (
    "{% for message in messages %}<end>{{ message.role }}\n{{ message.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<end>assistant\n{% endif %}"
)


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> LanguageModel:
    found = small_model(seed=3)
    monkeypatch.setattr(found.tokenizer, "chat_template", _TEMPLATE)
    monkeypatch.setattr(found.module.config, "max_position_embeddings", 4096)
    return found


def request(text: str, *, most: int = 6) -> ChatRequest:
    turns = (Message("system", "Be brief."), Message("user", text))
    return ChatRequest(model="small", messages=turns, max_tokens=most)


REQUESTS = [request(text) for text in ("one", "two and three", "a long one " * 20, "one")]


def test_replies_do_not_depend_on_what_stands_beside_them(model: LanguageModel, tmp_path: Path) -> None:
    together = LocalChat(model, ReplyCache(tmp_path / "a")).ask(REQUESTS)
    alone = [LocalChat(model, ReplyCache(tmp_path / str(index))).ask([one])[0] for index, one in enumerate(REQUESTS)]
    assert together == alone
    assert together[0] == together[3]
    assert [reply.finished for reply in together] == [False] * 4
    assert [reply.new_tokens for reply in together] == [6] * 4
    assert len({reply.prompt_tokens for reply in together}) == 3


def test_a_reply_is_written_once_and_another_model_writes_its_own(
    model: LanguageModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[tuple[int, int]] = []
    chat = LocalChat(model, ReplyCache(tmp_path))
    first = chat.ask(REQUESTS, progress=lambda *counts: done.append(counts))
    assert done == [(3, 3)]
    files = {path: path.read_bytes() for path in tmp_path.rglob("*.json")}
    monkeypatch.setattr("kgedit.llm.local_chat.decode", None)
    assert chat.ask(REQUESTS) == first
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.json")} == files
    assert chat.where != LocalChat(small_model(seed=4), ReplyCache(tmp_path)).where


def test_what_cannot_be_asked_is_told(model: LanguageModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chat = LocalChat(model, ReplyCache(tmp_path))
    with pytest.raises(ModelError, match="longer than the context"):
        chat.ask([request("one", most=5000)])
    monkeypatch.setattr(model.tokenizer, "chat_template", None)
    with pytest.raises(ModelError, match="no chat template"):
        chat.ask([request("another")])
