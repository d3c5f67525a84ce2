"""tiny knows what it was taught, and is the same model each time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from world.small_timestep import write_timestep

from kgedit.errors import ModelError
from kgedit.llm.contexts import read_context
from kgedit.llm.generation import Question, ask
from kgedit.llm.loading import load_model
from kgedit.llm.presets import PRESETS
from kgedit.llm.teaching import Lesson, Recipe, choose_lesson, tiny_folder

CONTEXTS = tuple(read_context(name) for name in ("question_only", "instruction"))


@pytest.fixture
def lesson(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lesson:
    monkeypatch.setenv("KGEDIT_HOME", str(tmp_path / "home"))
    step = write_timestep(tmp_path / "step", towns=range(3, 6))
    return choose_lesson(list(step.cases()), step.known_facts(), asked=CONTEXTS)


def test_the_facts_that_cases_touch_come_first_and_new_answers_are_only_spelled(lesson: Lesson) -> None:
    subjects = [fact.fact.subject for fact in lesson.facts]

    assert set(subjects[:6]) == {"Q103", "Q104", "Q105"}
    assert len(lesson.facts) == 20
    assert "Lena Ström" in lesson.spelling
    assert "Lena Ström" not in {fact.answer for fact in lesson.facts}


@pytest.mark.slow
def test_tiny_answers_what_it_was_taught_in_both_contexts(lesson: Lesson) -> None:
    taught = replace(lesson, recipe=Recipe(vocabulary=600, width=64, epochs=60, batch=16, learning_rate=3e-3))
    model = load_model("tiny", device="cpu", dtype="float32", lesson=taught)

    for preset, context in (("synthetic", CONTEXTS[0]), ("wild", CONTEXTS[1])):
        for wording in ("question", "rephrase"):
            questions = [Question(context.prompt(getattr(fact, wording)), fact.answer) for fact in taught.facts]
            replies = ask(model, questions, PRESETS[preset])
            right = sum(reply.text == fact.answer for reply, fact in zip(replies, taught.facts, strict=True))
            assert right >= 18, f"{preset}, {wording}: {[reply.text for reply in replies]}"


def test_the_same_lesson_gives_the_same_bytes(lesson: Lesson, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    short = replace(lesson, recipe=Recipe(vocabulary=400, width=32, epochs=2))
    files = []
    for home in ("one", "other"):
        monkeypatch.setenv("KGEDIT_HOME", str(tmp_path / home))
        folder = tiny_folder(short)
        files.append({path.name: path.read_bytes() for path in folder.iterdir()})

    assert files[0] == files[1]
    assert "model.safetensors" in files[0]


def test_a_lesson_without_facts_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(ModelError, match="known facts"):
        tiny_folder(Lesson((), (), CONTEXTS))


def test_facts_of_a_file_may_have_a_question_and_nothing_else(lesson: Lesson) -> None:
    bare = tuple(replace(fact, rephrase="", cloze="") for fact in lesson.facts[:2])
    # In batches of one, an empty prompt would leave no token to predict from.
    folder = tiny_folder(replace(lesson, facts=bare, recipe=Recipe(vocabulary=400, width=32, epochs=1, batch=1)))
    assert (folder / "model.safetensors").is_file()
