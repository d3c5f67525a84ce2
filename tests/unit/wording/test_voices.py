"""Personas that reword: their questions name the subject and the relation in other words."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest
import yaml

from kgedit.errors import TimestepError
from kgedit.wording.personas import Voice, overlap, reworded, voice_faults, voices
from kgedit.wording.templates import ANY_CLASS, template_table

VOICES = voices()
ROWS = [row for row in template_table().to_pylist() if row["subject_class"] == ANY_CLASS]
ROBOT = Voice(
    "robot", "A robot.", {"spouse": "paired unit"}, dict.fromkeys(("person", "thing"), ("State {relation}?",))
)


_EMPTY = {
    *("the", "a", "an", "of", "in", "on", "at", "to", "for", "by", "with", "from", "as", "and", "or"),
    *("is", "was", "be", "that", "which", "where", "when", "who", "what"),
}


def _content_words(text: str) -> set[str]:
    return set(re.findall(r"[^\W_]+", text.casefold())) - _EMPTY


def _problems(question: str, *, subject: str, phrase: str, words: Mapping[str, str]) -> list[str]:
    """Reasons why a reworded question does not ask for the same answer; any word of the persona for it counts."""
    problems = [] if subject in question else ["the subject is missing"]
    rest = question.replace(subject, " ").casefold()
    wanted = _content_words(phrase.replace("{subject}", " "))
    for word, spoken in words.items():
        if wanted & _content_words(word):
            wanted = wanted | _content_words(spoken)
    if not wanted & _content_words(rest):
        problems.append("no word of the relation is there")
    if not question.endswith("?") or question.count("?") != 1 or "{" in question:
        problems.append("it is not one question")
    return problems


def test_the_five_personas_of_the_paper_reword() -> None:
    assert [voice.persona for voice in VOICES] == ["casual", "caveman", "detective", "philosopher", "pirate"]


def test_a_relation_is_said_in_the_personas_words_and_the_subject_as_it_is() -> None:
    assert ROBOT.ask("the spouse of {subject}", "person", 7) == "State the paired unit of {subject}?"
    parts = pa.table(
        {"case_id": ["a"], "phrase": ["the spouse of {subject}"], "answer_type": ["person"], "name": ["spouse"]}
    )
    (row,) = reworded(parts, seed=0, chosen=(ROBOT,)).to_pylist()
    assert row == {"persona": "robot", "question": "State the paired unit of spouse?"}


@pytest.mark.parametrize("voice", VOICES, ids=[voice.persona for voice in VOICES])
@pytest.mark.slow
def test_a_checker_finds_subject_and_relation_in_every_question(voice: Voice) -> None:
    for row in ROWS:
        for number in range(6):
            asked = voice.ask(row["phrase"], row["answer_type"], number).replace("{subject}", "Zanzibar")
            problems = _problems(asked, subject="Zanzibar", phrase=row["phrase"], words=voice.words)
            assert problems == [], (row["property"], asked)
            assert "  " not in asked


@pytest.mark.parametrize("voice", VOICES, ids=[voice.persona for voice in VOICES])
def test_no_persona_asks_where_a_country_is(voice: Voice) -> None:
    countries = [row for row in ROWS if row["answer_type"] == "country"]
    assert len(countries) > 3
    for row in countries:
        wheres = {asked.replace("{relation}", voice.relation(row["phrase"])) for asked in voice.asks["place"]}
        asked = {voice.ask(row["phrase"], row["answer_type"], number) for number in range(20)}
        assert not asked & wheres, row["property"]


def test_the_checker_sees_what_is_missing() -> None:
    phrase = "the spouse of {subject}"
    assert _problems("Who is the wife of Ada?", subject="Eva", phrase=phrase, words={}) == [
        "the subject is missing",
        "no word of the relation is there",
    ]
    assert _problems("Name the spouse of Ada.", subject="Ada", phrase=phrase, words={}) == ["it is not one question"]
    assert _problems("Who is the paired unit of Ada?", subject="Ada", phrase=phrase, words=ROBOT.words) == []


def test_personas_share_few_words_with_the_question_that_edits() -> None:
    shared = [
        overlap(voice.ask(row["phrase"], row["answer_type"], 1), row["question"]) for row in ROWS for voice in VOICES
    ]
    assert statistics.median(shared) < 0.45
    assert overlap("Who is it?", "who IS it") == 1.0
    assert overlap("Who is it?", "Where was that?") == 0.0


def test_a_case_keeps_its_persona_when_another_is_dropped() -> None:
    count = 40
    parts = pa.table(
        {
            "case_id": [f"Q{number}:P26:Q1" for number in range(count)],
            "phrase": ["the spouse of {subject}"] * count,
            "answer_type": ["person"] * count,
            "name": ["Ada"] * count,
        }
    )
    rows = reworded(parts, seed=3, chosen=VOICES).to_pylist()
    assert reworded(parts.slice(5), seed=3, chosen=VOICES).to_pylist() == rows[5:]
    assert {row["persona"] for row in rows} == {voice.persona for voice in VOICES}
    assert reworded(parts, seed=4, chosen=VOICES).to_pylist() != rows


def test_a_catalogue_that_breaks_the_contract_of_asks_is_refused(tmp_path: Path) -> None:
    asks = {kind: ["State {relation}?"] for kind in ("person", "place", "number", "time", "thing")}
    content = {
        "persona": "robot",
        "version": 1,
        "description": "A robot.",
        "frames": ["Beep. {question}"],
        "asks": asks,
    }
    assert voice_faults(content) == []
    (tmp_path / "robot.yaml").write_text(yaml.safe_dump(content | {"asks": asks | {"time": ["When?"]}}))
    with pytest.raises(TimestepError, match=r"must hold \{relation\} once"):
        voices(tmp_path)
    (tmp_path / "robot.yaml").write_text(
        yaml.safe_dump({key: content[key] for key in ("persona", "version", "frames")})
    )
    with pytest.raises(TimestepError, match="No persona"):
        voices(tmp_path)
