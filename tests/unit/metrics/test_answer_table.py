"""Classes of wrong answers follow from rules that a reader can check by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgedit.metrics.answer_table import classify_error, repeats

QUESTION = "Who is the head of government of Canada?"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", "empty"),
        (" ...", "empty"),
        ("Ottawa Ottawa Ottawa", "repetition"),
        ("Mark Carney Mark Carney Mark Carney", "repetition"),
        ("it is the one that it is the one that it is the one that", "repetition"),
        ("Justin Trudeau", "old answer"),
        ("I think that it is Trudeau", "old answer"),
        ("Mark Carney, since 2025", "more than the answer"),
        ("Mark Carney, after Justin Trudeau", "more than the answer"),
        ("The head of government of Canada is", "irrelevant"),
        ("What do you mean?", "irrelevant"),
        ("yes", "irrelevant"),
        ("Ottawa", "incorrect"),
        ("Stephen Harper is the head of government", "incorrect"),
        ("Ottawa Ottawa", "incorrect"),
    ],
)
def test_the_first_rule_that_fits_names_the_class(text: str, wanted: str) -> None:
    found = classify_error(text, question=QUESTION, answers=["Mark Carney"], old_answers=["Justin Trudeau", "Trudeau"])
    assert found == wanted


def test_without_an_old_answer_none_can_persist() -> None:
    assert classify_error("Justin Trudeau", question=QUESTION, answers=["Mark Carney"]) == "incorrect"


CIRCLE = "the river and the bridge and the house and the river and the bridge and the house and"
SENTENCE = "she crossed the river by the old bridge and walked home to her house"


def test_a_long_text_that_turns_in_circles_is_a_repetition_though_nothing_follows_itself_three_times() -> None:
    assert repeats(CIRCLE.split(" "))
    assert not repeats(SENTENCE.split(" "))


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=4), st.integers(3, 5))
def test_anything_said_three_times_in_a_row_is_a_repetition(words: list[str], times: int) -> None:
    assert repeats(["so", *words * times, "x"])


@given(st.lists(st.integers(), min_size=1, max_size=30, unique=True))
def test_different_words_are_no_repetition(numbers: list[int]) -> None:
    assert not repeats([str(number) for number in numbers])
