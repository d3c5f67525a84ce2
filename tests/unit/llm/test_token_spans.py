"""Places of tokens in texts, by tokenizers that tell them and by others."""

from __future__ import annotations

from typing import Any

import pytest
from transformers import PreTrainedTokenizer
from world.small_models import TEXTS, small_model, tokenizer

from kgedit.errors import ModelError
from kgedit.llm.loading import wrap_model
from kgedit.llm.token_spans import token_spans


class _Slow:
    """A tokenizer that gives ids and texts and says no more."""

    is_fast = False

    def __init__(self, *, loses: str = "") -> None:
        self._own, self._loses = tokenizer(), loses

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        return list(self._own.encode(text.replace(self._loses, "") if self._loses else text, add_special_tokens=False))

    def decode(self, ids: list[int], **_: Any) -> str:
        return str(self._own.decode(ids))


class _Letters(PreTrainedTokenizer):  # type: ignore[misc]
    """transformers' own class without a fast form: a token is a character."""

    @property
    def vocab_size(self) -> int:
        return 360

    def get_vocab(self) -> dict[str, int]:
        return {chr(number): number for number in range(360)}

    def _tokenize(self, text: str, **_: Any) -> list[str]:
        return list(text)

    def _convert_token_to_id(self, token: str) -> int:
        return ord(token) % 360

    def _convert_id_to_token(self, index: int) -> str:
        return chr(index)

    def convert_tokens_to_string(self, tokens: list[str]) -> str:
        return "".join(tokens)


@pytest.mark.parametrize("text", [*TEXTS, "Łódź, 東京 and O'Neil's"])
def test_a_tokenizer_that_tells_no_places_gives_the_same_last_token_of_every_character(text: str) -> None:
    fast_ids, fast = token_spans(tokenizer(), text)
    slow_ids, slow = token_spans(_Slow(), text)

    assert slow_ids == fast_ids
    for at in range(len(text)):
        last = [max(index for index, (start, stop) in enumerate(spans) if start <= at < stop) for spans in (fast, slow)]
        assert last[0] == last[1], (at, text[at])


def test_a_tokenizer_that_changes_texts_is_refused() -> None:
    with pytest.raises(ModelError, match=r"tokenizer\.json"):
        wrap_model(small_model().module, _Slow(loses="J"))


def test_a_slow_tokenizer_of_transformers_that_keeps_texts_is_taken_unless_it_lacks_letters() -> None:
    with pytest.raises(ModelError, match="slow one"):
        wrap_model(small_model().module, _Letters())
    ids, spans = token_spans(_Letters(), "Mora's lake")
    assert len(ids) == 11
    assert spans == [(at, at + 1) for at in range(11)]
