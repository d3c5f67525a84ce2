"""An answer cut at the end of its first sentence keeps initials, abbreviations, decimals and ordinals whole."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from world.small_models import small_model

from kgedit.llm.decoding import end_of_answer
from kgedit.llm.generation import AnswerCache, Question, ask
from kgedit.llm.presets import PRESETS, STOPS
from kgedit.llm.replies import Reply, first_sentence, sentence_end, truncate

KEPT = [
    # said by SmolLM2, and cut by newline_period as "The coach of Kasımpaşa S", "R", "A: A", ...
    "The coach of Kasımpaşa S.K. is the Turkish national football team.",
    "R. Nicholas Burns, matey.",
    "A: A.C. Perugia Calcio",
    "A.E.K. Athens F.C. is a professional soccer team based in Athens, Greece.",
    "The head coach of the R.S.C. Anderlecht is the head coach of the Anderlecht League.",
    "The current chair of Pennsylvania State University is Dr. Emily Carter.",
    "The head coach of St. Mirren F.C. is the legendary coach named Sir Malcolm St. Mirren.",
    "UTA Arad is the head coach of the U.S. Women's National Athletic Association (WNAA).",
    # and further ones
    "The head coach of A.S. Roma is José Mourinho.",
    "The head coach of F.C. Copenhagen is Jacob Neestrup.",
    "The head coach of 1. FC Köln is Steffen Baumgart.",
    "The head coach of FC St. Pauli is Fabian Hürzeler.",
    "The current head coach of Birmingham City F.C. is Wayne Rooney.",
    "The U.S. president who signed it was Lyndon B. Johnson.",
    "The author is J. K. Rowling.",
    "The film is by J. A. Bayona, the tune by H. I. Biber.",
    "It was J.-P. Belmondo.",
    "Dr. John H. Watson, M.D. of London, told it.",
    "The number is 3.5 million.",
    "It stands at No. 10 Downing Street.",
    "Martin Luther King Jr. wrote it.",
    "It was filmed by Warner Bros. Pictures.",
    "They play in the 2. Bundesliga.",
    "The case is Roe vs. Wade.",
    "Visit example.com for more.",
    "1. Paris",
    "Sgt. Pepper's Lonely Hearts Club Band.",
]
CUT = {
    "Paris. It is large.": "Paris.",
    "He died in the U.S. The cause is unknown.": "He died in the U.S.",
    "The club is Celta de Vigo F.C. He coached it.": "The club is Celta de Vigo F.C.",
    "No. The capital is Paris.": "No.",
    "It was in 1995. The war was over.": "It was in 1995.",
    "He was 12. He ran.": "He was 12.",
    "It is Paris.The capital of France.": "It is Paris.",
    'He said "no." Then he left.': 'He said "no."',
    "paris. paris. paris.": "paris.",
    "Well... The answer is 4.": "Well...",
    "首都是东京。它是一座城市。": "首都是东京。",
    "首都は東京です｡人口は多い｡": "首都は東京です｡",
    "東京です！大阪ではない。": "東京です！",
    "『けいおん！』は京都で作られた。人気がある。": "『けいおん！』は京都で作られた。",
    "“是东京。”他说。然后走了。": "“是东京。”他说。",
    "राजधानी दिल्ली है। यह बड़ी है।": "राजधानी दिल्ली है।",
    "دارالحکومت اسلام آباد ہے۔ یہ بڑا ہے۔": "دارالحکومت اسلام آباد ہے۔",
    "。東京です。大阪": "。東京です。",
    "Robert Downey Jr. He is an actor.": "Robert Downey Jr.",
    "It was Elizabeth I. She was queen.": "It was Elizabeth I.",
    "He plays for Celtic F.C. A friend told me.": "He plays for Celtic F.C.",
}
TEXTS = st.text(st.sampled_from([*"AFSUIaxé13.. .\n\"')\N{REPLACEMENT CHARACTER}-—"]), max_size=30) | st.lists(
    st.sampled_from(
        ["A.S.", "Roma", "The", "Paris.", "1.", "FC", "A", "J.", "No.", "10", "St.", "He", "3.5", '."', " ", "...", "é"]
    )
).map(" ".join)


@pytest.mark.parametrize("text", KEPT)
def test_a_period_within_a_sentence_ends_nothing(text: str) -> None:
    assert first_sentence(text) == text
    assert first_sentence(f"{text} It is said by all.") == (
        text if text.endswith(".") else f"{text} It is said by all."
    )


@pytest.mark.parametrize(("text", "expected"), CUT.items())
def test_what_follows_tells_whether_a_sentence_ends(text: str, expected: str) -> None:
    assert first_sentence(text) == expected
    assert truncate(f" {text}\nQ: Who?", "sentence") == expected


@given(TEXTS)
def test_what_is_known_of_a_part_holds_for_the_whole(text: str) -> None:
    whole = sentence_end(text, is_whole=True)
    known = [sentence_end(text[:length], is_whole=False) for length in range(len(text) + 1)]

    result = {end for end in known if end is not None}
    assert result <= {whole}
    assert known == sorted(known, key=lambda end: end is not None), "once known, known"
    assert first_sentence(text[:whole]) == text[:whole]


@given(TEXTS)
def test_a_first_sentence_is_never_shorter_than_up_to_the_first_period(text: str) -> None:
    assert truncate(text, "newline").startswith(truncate(text, "sentence"))
    assert len(truncate(text, "sentence")) >= len(truncate(text, "newline_period"))


def test_decoding_goes_on_until_the_end_is_known_and_no_further() -> None:
    model = small_model()
    end = end_of_answer(model, "sentence")
    assert end.is_over is not None

    def over(text: str) -> bool:
        return end.is_over is not None and end.is_over(model.encode(text))

    assert [over(text) for text in ("Asta", "Asta Wik.", "Asta Wik. ", "A.S. Ro", "A.S. Roma is", "A.S. The m")] == [
        False,
        False,
        True,
        False,
        False,
        True,
    ]
    assert STOPS["sentence"] == ("\n",), "a server must not stop at a period"


def test_answers_cut_while_decoding_are_those_cut_afterwards() -> None:
    model = small_model()
    preset = replace(PRESETS["wild_chat"], context="question_only")
    questions = [Question(f"{start} {number}", "x") for start in ("Who?", "A.S.", "It. ") for number in range(8)]

    found = ask(model, questions, preset)

    uncut = ask(model, questions, replace(preset, truncation="newline"))
    assert [reply.text for reply in found] == [first_sentence(reply.text).strip() for reply in uncut]


def test_a_preset_that_ends_elsewhere_reuses_no_stored_answer(tmp_path: Path) -> None:
    cache, question = AnswerCache(tmp_path / "answers.jsonl"), Question("Who coaches A.S. Roma?", "José Mourinho")
    before = replace(PRESETS["wild_chat"], truncation="newline_period")
    cache.add([question], [Reply("The head coach of A", 0.0, 9, 5, 0.0)], before)

    assert cache.get(question, before) is not None
    assert cache.get(question, PRESETS["wild_chat"]) is None
