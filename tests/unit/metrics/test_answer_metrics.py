"""What each metric says of an answer."""

from __future__ import annotations

import pytest
from world.small_runs import SYNTHETIC, answer

from kgedit.metrics import METRICS
from kgedit.metrics.normalization import comparable, normalize


def judge(metric: str, text: str, *answers: str, before: str | None = None, **changes: object) -> float | None:
    return METRICS[metric].judge(answer(text=text, answers=answers, **changes), before)


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("  The  Hague. ", "hague"),
        ("Robert C. Newton", "robert c newton"),
        ("Coca-Cola", "cocacola"),
        ("“Justin Trudeau”, I think…", "justin trudeau i think"),
        ("An apple a day\nkeeps", "apple day keeps"),
        ("ÉMILE ZOLA", "émile zola"),
        ("E\u0301mile Zola", "émile zola"),
        ("Theatre", "theatre"),
        ("C++", "c"),
        ("", ""),
    ],
)
def test_normal_form_drops_case_punctuation_articles_and_spaces(text: str, normal: str) -> None:
    assert normalize(text) == normal


def test_an_answer_that_would_normalize_to_nothing_keeps_what_it_has() -> None:
    assert comparable("", "The The") == ("", "the the")
    assert comparable(" !!! ", "!!!") == ("!!!", "!!!")
    assert comparable("the A", "A") == ("the a", "a")
    assert comparable("the Hague", "Hague") == ("hague", "hague")


@pytest.mark.parametrize(
    ("text", "value"),
    [("justin trudeau.", 1.0), ("the Justin Trudeau", 1.0), ("Trudeau", 0.0), ("Justin Trudeau, PM", 0.0), ("", 0.0)],
)
def test_exact_match_wants_the_gold_answer_only(text: str, value: float) -> None:
    assert judge("exact_match", text, "Justin Trudeau", "Trudeau") == value


def test_exact_match_is_not_won_by_silence() -> None:
    assert judge("exact_match", "", "The The") == 0.0
    assert judge("exact_match", "the the", "The The") == 1.0
    assert judge("contains", "", "!!!") == 0.0


@pytest.mark.parametrize(("text", "value"), [("Justin Trudeau", 1.0), ("TRUDEAU", 1.0), ("Pierre Trudeau", 0.0)])
def test_exact_match_any_takes_aliases(text: str, value: float) -> None:
    assert judge("exact_match_any", text, "Justin Trudeau", "Trudeau") == value


@pytest.mark.parametrize(
    ("text", "gold", "value"),
    [
        ("It is Justin Trudeau, the Prime Minister", "Justin Trudeau", 1.0),
        ("Tirana", "Iran", 0.0),
        ("Justin Pierre Trudeau", "Justin Trudeau", 0.0),
        ("Trudeau", "Justin Trudeau", 0.0),
    ],
)
def test_contains_looks_for_whole_words_in_a_row(text: str, gold: str, value: float) -> None:
    assert judge("contains", text, gold) == value


@pytest.mark.parametrize(
    ("text", "gold", "value"),
    [
        ("Justin Trudeau", "Justin Trudeau", 1.0),
        ("Pierre Trudeau", "Justin Trudeau", 0.5),
        ("Trudeau Trudeau Trudeau", "Justin Trudeau", 0.4),
        ("the", "Justin Trudeau", 0.0),
        ("Mark Carney", "Justin Trudeau", 0.0),
    ],
)
def test_token_f1_counts_shared_words_once_each(text: str, gold: str, value: float) -> None:
    assert judge("token_f1", text, gold) == pytest.approx(value)


def test_token_match_is_what_teacher_forcing_measured() -> None:
    metric = METRICS["token_match"]
    assert metric.judge(answer(of=SYNTHETIC, token_match=0.75), None) == 0.75
    assert metric.applies_to(answer(of=SYNTHETIC))
    assert not metric.applies_to(answer())
    assert metric.judge(answer(), None) is None


def test_unchanged_compares_with_the_unedited_model_to_the_letter() -> None:
    metric = METRICS["unchanged"]
    assert judge("unchanged", "Ottawa", "Paris", before="Ottawa", axis="locality") == 1.0
    assert judge("unchanged", "Paris", "Paris", before="Ottawa", axis="locality") == 0.0
    assert judge("unchanged", "ottawa", "Paris", before="Ottawa", axis="locality") == 0.0
    assert judge("unchanged", "Ottawa", "Paris", before=None, axis="locality") is None
    assert judge("unchanged", "Ottawa", "Paris", before="Ottawa", axis="locality", after=None) is None
    assert metric.applies_to(answer(axis="locality"))
    assert not metric.applies_to(answer(axis="update"))
