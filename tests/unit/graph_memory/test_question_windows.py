"""The parts of a question that a memory compares with wordings."""

from __future__ import annotations

import pytest

from kgedit.graph_memory.scoring import windows_of


@pytest.mark.parametrize(
    ("text", "windows"),
    [
        ("Who leads Oslo?", ["Who leads X?"]),
        (
            "Hello. In politics, which group does Oslo back? Thanks!",
            [
                "In politics, which group does X back?",
                "Hello. In politics, which group does X back? Thanks!",
                "which group does X back?",
            ],
        ),
        (
            "Right, between you and me, in Xanten, who leads Oslo, pray?",
            ["Right, between you and me, in Xanten, who leads X, pray?", "who leads X,", "in Xanten, who leads X,"],
        ),
        (
            "Who is the vice-mayor of Oslo - if any?",
            ["Who is the vice-mayor of X - if any?", "Who is the vice-mayor of X -"],
        ),
        ("Oslo", ["X"]),
        ("oslo and Oslos mayor", ["oslo and X's mayor"]),
        ("head_of_state(Oslo)", ["head of state(X)"]),
    ],
)
def test_a_clause_is_a_window_alone_and_with_the_one_before(text: str, windows: list[str]) -> None:
    start = text.index("Oslo")
    assert windows_of(text, start, start + 4) == windows


def test_a_name_with_two_meanings_is_masked_once() -> None:
    assert windows_of("Who ruled Lyon under Oslo?", 21, 25, [(10, 14), (10, 14)])[0] == "Who ruled Y under X?"


def test_the_dot_of_an_abbreviated_name_ends_no_sentence() -> None:
    assert windows_of("Who coaches Oslo F.C. of Xanten?", 12, 20)[0] == "Who coaches X of Xanten?"
