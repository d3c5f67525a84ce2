"""Rephrasings, topics and locality questions of QAEdit rows."""

from __future__ import annotations

import re

import pytest

from kgedit.errors import TimestepError
from kgedit.resources import data_folder
from kgedit.timesteps.qaedit import Categorizer, Category, LocalityDraw, LocalityQuestion, english_categorizer
from kgedit.timesteps.qaedit.question_rules import FRAME, Rephrasing, _problems, english_rephraser
from kgedit.wording.catalogues import read_catalogue


@pytest.mark.parametrize(
    ("question", "subject", "text"),
    [
        ("who wrote the tide?", "tide", "Who is the writer of the tide?"),
        ("In what year was Hay House built?", "Hay House", "What was the year in which Hay House was built?"),
        ("In which town did Ada Crane begin?", "Ada Crane", "What was the town in which Ada Crane began?"),
        ("When did Ada Crane marry?", "Ada Crane", "What is the date when Ada Crane married?"),
        ("When did Ada Crane first travel?", "Ada Crane", "At what time or on what date did Ada Crane first travel?"),
        ("On what date was Ada Crane born?", "Ada Crane", "What was the exact date on which Ada Crane was born?"),
        ("What is the capital of Norway?", "Norway", "What is Norway's capital?"),
        ("What is Norway's capital?", "Norway", "What is the capital of Norway?"),
        ("What is the name of the pier that burned?", "pier that burned", "What is the pier that burned called?"),
        ("Which wood is named after Lowick?", "Lowick", "What is the name of the wood that is named after Lowick?"),
        ("Hay House is in which town?", "Hay House", "In which town is Hay House?"),
        ("The Hay House is the seat of which family?", "Hay House", "Of which family is the Hay House the seat?"),
        ("How many rooms does Hay House have?", "Hay House", "What number of rooms does Hay House have?"),
        ("In 1990, who bought Hay House?", "Hay House", "Who bought Hay House, in 1990?"),
        ("Which oars are used in Lowick?", "Lowick", "Answer this question: Which oars are used in Lowick?"),
        ("When was Hay House on fire?", "Hay House", "At what time or on what date was Hay House on fire?"),
        ("Who left the U.S.?", "U.S.", "Who was it that left the U.S.?"),
    ],
)  # fmt: skip
def test_a_question_is_worded_anew(question: str, subject: str, text: str) -> None:
    assert english_rephraser().rephrase(question, subject).text == text


def test_what_no_rule_fits_is_framed_and_said_to_be() -> None:
    question = "Lowick or Dunmore, whichever is larger?"
    assert english_rephraser().rephrase(question, "Lowick") == Rephrasing(f"Answer this question: {question}", FRAME)


def test_a_rule_that_would_break_the_subject_up_does_not_count() -> None:
    assert english_rephraser().rephrase("who wrote the tide?", "tide").rule == "author"
    assert "wrote the tide" in english_rephraser().rephrase("who wrote the tide?", "wrote the tide").text


@pytest.mark.parametrize(
    ("verb", "past"),
    [
        ("begin", "began"),
        ("marry", "married"),
        ("play", "played"),
        ("die", "died"),
        ("stop", "stopped"),
        ("began", "began"),
    ],
)
def test_verbs_have_a_past(verb: str, past: str) -> None:
    assert english_rephraser().past_of(verb) == past


def test_rules_that_cannot_work_are_named() -> None:
    wrong = [
        {"name": "open", "when": "(", "say": "x"},
        {"name": "slot", "when": "who (?P<x>.+)", "say": "{x} {y}"},
        {"name": "silent", "when": "who"},
    ]
    result = _problems(wrong)
    assert result[0].startswith("open: missing )")
    assert result[1:] == ["slot: no group 'y'", "silent: needs name, when and say"]


@pytest.mark.parametrize(
    ("question", "topic", "category", "rule"),
    [
        ("Who sang the theme song of the film?", None, "Art & Culture", "words"),
        ("Which planet has the most moons?", None, "Science & Technology", "words"),
        ("Who won the gold medal in the 100 metres?", None, "Sports & Leisure", "words"),
        ("Which prime minister resigned?", None, "History & Politics", "words"),
        ("Who sang it?", "Geography", "Geography & Environment", "topic of the source"),
        ("Who sang it?", "Gardening", "Art & Culture", "words"),
        ("Whose?", None, "Others", "none"),
    ],
)
def test_a_question_has_a_topic(question: str, topic: str | None, category: str, rule: str) -> None:
    assert english_categorizer().categorize(question, topic) == Category(category, rule)


def test_there_are_the_ten_topics_of_the_paper() -> None:
    names = english_categorizer().names
    assert len(names) == 10
    assert names[0] == "Art & Culture"
    assert names[-1] == "Others"


def test_no_word_tells_two_topics_of_equal_right_by_accident() -> None:
    """A word in two lists decides nothing between them, so that it is an oversight in one."""
    entries = read_catalogue(data_folder("prompts") / "qaedit" / "categories.yaml")["categories"]
    seen: dict[str, str] = {}
    twice = []
    for name, entry in entries.items():
        for line in entry["words"]:
            for word in set(line.split("|") if "|" in line else line.split()):
                if seen.setdefault(word, name) != name:
                    twice.append(word)
    assert twice == []


def test_a_word_counts_once_and_the_earlier_topic_wins_a_tie() -> None:
    own = Categorizer({"A": {"topics": [], "words": ["oak* old ship"]}, "B": {"topics": [], "words": ["pier|mill"]}})
    assert own.categorize("oaks and oaken piers").name == "A"
    assert own.categorize("pier, mill, oak, oak").name == "B"
    assert own.categorize("pier or oak").name == "A"


POOL = [LocalityQuestion(f"who built number {number}?", f"Ann {number}") for number in range(50)]


def test_locality_questions_are_drawn_by_seed_and_row() -> None:
    draw = LocalityDraw(POOL, size=3, seed=1)
    first = draw.draw("who?", "the pier")
    assert first == LocalityDraw(POOL, size=3, seed=1).draw("who?", "the pier")
    assert len(set(first)) == 3
    assert first != draw.draw("when?", "the pier")
    assert first != LocalityDraw(POOL, size=3, seed=2).draw("who?", "the pier")
    every = LocalityDraw(POOL, size=60, seed=1).draw("who?", "number 7")
    assert sorted(every, key=POOL.index) == [one for one in POOL if one != POOL[7]], "all that do not name the subject"


def test_no_locality_question_names_the_subject_or_is_the_rows_own() -> None:
    pool = [
        LocalityQuestion("who built Lowick?", "Ann"),
        LocalityQuestion("where?", "in LOWICK."),
        LocalityQuestion("why?", "so"),
    ]
    draw = LocalityDraw(pool, size=3, seed=0)
    assert draw.draw("where is it?", "lowick") == [pool[2]]
    assert set(draw.draw("Why?", "Lowick Hall")) == set(pool[:2])
    assert LocalityDraw([], size=1, seed=0).draw("who?", "x") == []


def test_a_catalogue_without_lists_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from kgedit.timesteps.qaedit import spans

    spans.english_words.cache_clear()
    monkeypatch.setattr(spans, "read_catalogue", lambda _: {"question": ["who"]})
    with pytest.raises(TimestepError, match=re.escape("'auxiliary' must be a text of words")):
        spans.english_words()
    spans.english_words.cache_clear()
