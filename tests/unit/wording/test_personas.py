"""Personas frame a question without touching it; the choice follows from seed and case id alone."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

from kgedit.errors import TimestepError
from kgedit.wording.catalogues import language_codes, read_language
from kgedit.wording.personas import (
    PERSONAS,
    Voice,
    frame_faults,
    persona_questions,
    persona_table,
    persona_version,
    reworded,
    shipped_personas,
    voices,
)

TABLE = persona_table()
IDS = [f"Q{number}:P6:Q{number + 1}" for number in range(600)]
QUESTIONS = [f"Who is the head of government of Place {number}?" for number in range(600)]


def framed(seed: int, ids: list[str] = IDS, questions: list[str] = QUESTIONS) -> list[dict[str, str]]:
    return persona_questions(pa.array(questions), pa.array(ids), seed=seed, personas=TABLE).to_pylist()


def test_there_are_five_personas_with_several_frames_each_in_order() -> None:
    assert TABLE.schema == PERSONAS
    rows = TABLE.to_pylist()
    assert rows == sorted(rows, key=lambda row: (row["persona"], row["frame_index"]))
    names = [row["persona"] for row in rows]
    assert len(set(names)) == 5
    assert min(names.count(name) for name in set(names)) >= 5
    assert len({row["frame"] for row in rows}) == len(rows)


@pytest.mark.parametrize("frame", TABLE["frame"].to_pylist())
def test_each_frame_keeps_the_question_whole_and_asks(frame: str) -> None:
    question = "Who is the spouse of {odd} label?"
    text = frame.replace("{question}", question)
    assert text.count(question) == 1
    assert len(text) > len(question)
    assert text.endswith("?")
    assert not set("{}") & set(frame.replace("{question}", ""))
    assert re.search(r"(^|[.!:?] ){question}", frame), "the question begins with a capital: only after a full stop"


@pytest.mark.parametrize("code", language_codes())
def test_every_language_has_the_same_voices_and_frames_that_end_a_sentence_before_the_question(code: str) -> None:
    folder = shipped_personas(code)
    assert [voice.persona for voice in voices(folder)] == sorted(set(TABLE["persona"].to_pylist()))
    for frame in persona_table(folder)["frame"].to_pylist():
        assert re.search(r"([.!:?] |[。！：？]){question}$", frame)


def test_a_phrase_and_its_name_are_inflected_where_a_voice_puts_them() -> None:
    german = read_language("de")
    parts = {"case_id": "a", "phrase": "der Vorsitzende von {subject}", "answer_type": "thing", "name": "~die Schweiz"}
    asks = {
        "Wie lautet der Name von {relation}?": "Wie lautet der Name des Vorsitzenden der Schweiz?",
        "fragst du nach {relation}?": "Fragst du nach dem Vorsitzenden der Schweiz?",
        "und wer kennt @{relation}?": "Und wer kennt den Vorsitzenden der Schweiz?",
    }
    for ask, expected in asks.items():
        chosen = (Voice("clerk", "", {}, {"thing": (ask,)}),)
        (row,) = reworded(pa.Table.from_pylist([parts]), seed=0, chosen=chosen, language=german).to_pylist()
        assert row["question"] == expected


def test_a_case_is_framed_the_same_whatever_the_other_cases_are() -> None:
    everything = framed(7)
    assert framed(7) == everything
    assert framed(7, IDS[::-1], QUESTIONS[::-1]) == everything[::-1]
    assert framed(7, IDS[3:5], QUESTIONS[3:5]) == everything[3:5]
    assert framed(8) != everything


def test_every_frame_is_used_and_personas_share_evenly() -> None:
    rows = framed(1)
    for question, row in zip(QUESTIONS, rows, strict=True):
        assert question in row["question"]
    names = [row["persona"] for row in rows]
    assert all(60 < names.count(name) < 145 for name in set(TABLE["persona"].to_pylist()))
    used = {row["question"].replace(question, "{question}") for question, row in zip(QUESTIONS, rows, strict=True)}
    assert used == set(TABLE["frame"].to_pylist())


def test_the_persona_named_is_the_one_whose_frame_was_used() -> None:
    of_frame = dict(zip(TABLE["frame"].to_pylist(), TABLE["persona"].to_pylist(), strict=True))
    for question, row in zip(QUESTIONS, framed(2), strict=True):
        assert of_frame[row["question"].replace(question, "{question}")] == row["persona"]


def test_no_cases_give_no_rows_and_chunks_do_not_matter() -> None:
    empty = pa.array([], pa.string())
    assert persona_questions(empty, empty, seed=0, personas=TABLE).num_rows == 0
    chunks = pa.chunked_array([QUESTIONS[:2], QUESTIONS[2:4]])
    ids = pa.chunked_array([IDS[:1], IDS[1:4]])
    assert persona_questions(chunks, ids, seed=7, personas=TABLE).to_pylist() == framed(7)[:4]


def write(folder: Path, text: str) -> Path:
    (folder / "robot.yaml").write_text(text, encoding="utf-8")
    return folder


def test_a_users_own_folder_is_read(tmp_path: Path) -> None:
    folder = write(tmp_path, 'persona: robot\nversion: 1\nframes: ["Beep. {question}"]\n')
    assert persona_table(folder).to_pylist() == [{"persona": "robot", "frame_index": 0, "frame": "Beep. {question}"}]
    assert persona_version(folder) != persona_version()
    assert persona_version() == persona_version(shipped_personas())


def test_a_bad_frame_is_refused_with_every_reason(tmp_path: Path) -> None:
    folder = write(tmp_path, 'persona: robot\nversion: 1\nframes: ["Beep.", "{question}", "{question} Beep."]\n')
    with pytest.raises(TimestepError) as caught:
        persona_table(folder)
    message = str(caught.value)
    assert "frame 0 must hold {question} exactly once" in message
    assert "frame 1 adds nothing" in message
    assert "frame 2 does not end in" in message
    assert frame_faults("{question} {question}") != []
    assert frame_faults("Ready? {question}") == ["asks a separate question"]
    assert frame_faults(3) == ["is not text"]
    assert frame_faults("Beep. {question}") == []


@pytest.mark.parametrize("text", ["persona: robot\n", "persona: robot\nversion: 1\nframes: Beep\n"])
def test_a_persona_without_frames_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(TimestepError, match=r"robot\.yaml"):
        persona_table(write(tmp_path, text))


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TimestepError, match="no persona catalogue"):
        persona_table(tmp_path)
