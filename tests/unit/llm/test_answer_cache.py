"""Answers of unedited models kept on disk: the same only where everything that decides an answer is the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kgedit.llm.generation import AnswerCache, Question, Reply
from kgedit.llm.presets import PRESETS

QUESTION = Question("Q: Who?\nA:", "Asta Wik")
REPLY = Reply(text="Siv Nyman", token_match=None, prompt_tokens=4, new_tokens=2, seconds=0.5)
WILD, FORCED = PRESETS["wild"], PRESETS["synthetic"]


def test_an_answer_is_found_again_also_by_another_process(tmp_path: Path) -> None:
    AnswerCache(tmp_path / "cache.jsonl").add([QUESTION], [REPLY], WILD)
    assert AnswerCache(tmp_path / "cache.jsonl").get(QUESTION, WILD) == REPLY


@pytest.mark.parametrize(
    ("question", "preset"),
    [
        (replace(QUESTION, prompt="Who?"), WILD),
        (QUESTION, replace(WILD, max_new_tokens=51)),
        (QUESTION, replace(WILD, truncation="newline")),
        (QUESTION, replace(WILD, truncation="gold_length")),
        (QUESTION, replace(WILD, stop_entropy=2.0)),
        (QUESTION, FORCED),
    ],
)
def test_whatever_decides_an_answer_tells_it_from_others(question: Question, preset: object, tmp_path: Path) -> None:
    cache = AnswerCache(tmp_path / "cache.jsonl")
    cache.add([QUESTION], [REPLY], WILD)
    assert cache.get(question, preset) is None


def test_the_answers_compared_with_count_and_the_metric_does_not(tmp_path: Path) -> None:
    cache = AnswerCache(tmp_path / "cache.jsonl")
    cache.add([QUESTION], [REPLY], WILD)
    cache.add([QUESTION], [REPLY], FORCED)
    assert cache.get(QUESTION, replace(WILD, name="mine", metric="contains")) == REPLY
    assert cache.get(replace(QUESTION, gold="Siv"), WILD) is None, "the match ratio compares with it"
    assert cache.get(replace(QUESTION, gold="Siv"), FORCED) is None
    older = replace(QUESTION, old=("Nils Ek",))
    assert cache.get(older, WILD) == REPLY
    assert cache.get(older, FORCED) is None, "its probability is not known"


def test_half_a_line_of_a_killed_process_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "cache.jsonl"
    AnswerCache(path).add([QUESTION], [REPLY], WILD)
    with path.open("a", encoding="utf-8") as file:
        file.write('{"key": "12')
    AnswerCache(path).add([replace(QUESTION, prompt="Who?")], [REPLY], WILD)
    assert (
        AnswerCache(path).get(QUESTION, WILD) == AnswerCache(path).get(replace(QUESTION, prompt="Who?"), WILD) == REPLY
    )
