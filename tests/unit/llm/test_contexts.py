"""Contexts are files with one slot for the question; facts go between the instruction and the question."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgedit.errors import SpecError
from kgedit.llm.contexts import CHAT, context_names, read_context
from kgedit.llm.presets import MEANINGS, PRESETS, preset_by_name
from kgedit.llm.tokenization import ChatFormat

FACTS = "Ada leads Mora.\n"
CHATML = ChatFormat("<user>\n", "<end>\n<model>\n", joint="", end=2)


def test_the_instruction_context_is_the_published_one_word_for_word() -> None:
    prompt = read_context("instruction").prompt("Who is {this}?")
    assert prompt == "Please answer the question:\nQ: Who is {this}?\nA:"


def test_question_only_adds_nothing() -> None:
    assert read_context("question_only").prompt("Who?") == "Who?"


@pytest.mark.parametrize(
    ("name", "prompt", "answered"),
    [
        ("question_only", "Ada leads Mora.\nWho?", "Who? Ada"),
        ("question_answer", "Ada leads Mora.\nQ: Who?\nA:", "Q: Who?\nA: Ada"),
        ("instruction", "Please answer the question:\nAda leads Mora.\nQ: Who?\nA:", "Q: Who?\nA: Ada"),
        ("chat", "<user>\nAda leads Mora.\nWho?<end>\n<model>\n", "Who? Ada"),
        (
            "chat:instruction",
            "<user>\nPlease answer the question:\nAda leads Mora.\nQ: Who?\nA:<end>\n<model>\n",
            "Q: Who?\nA: Ada",
        ),
    ],
)
def test_facts_stand_after_the_instruction_and_before_the_question(name: str, prompt: str, answered: str) -> None:
    context = read_context(name).for_model(CHATML)
    assert context.prompt("Who?", facts=FACTS) == prompt
    assert context.answered("Who?", "Ada") == answered


@pytest.mark.parametrize("name", [*context_names(), CHAT, "chat:instruction"])
def test_the_text_ahead_of_the_question_is_known(name: str) -> None:
    context = read_context(name).for_model(CHATML).with_demonstrations((("When?", "Now"),))
    assert context.prompt("Who?").startswith(f"{context.before_question}Who?")


def test_demonstrations_have_the_form_of_the_question_and_stand_before_the_facts() -> None:
    shown = read_context("instruction").with_demonstrations((("When?", "Now"), ("Where?", "Here")))
    assert shown.prompt("Who?", facts=FACTS) == (
        "Please answer the question:\nQ: When?\nA: Now\nQ: Where?\nA: Here\nAda leads Mora.\nQ: Who?\nA:"
    )
    assert shown.sha256 != read_context("instruction").sha256


@pytest.mark.parametrize("name", context_names())
def test_every_shipped_context_has_a_header_and_ends_ready_for_an_answer(name: str) -> None:
    context = read_context(name)
    assert not context.template.startswith("#")
    assert not context.template.endswith((" ", "\n"))


def test_every_preset_has_a_meaning_and_a_context_that_can_be_read() -> None:
    assert MEANINGS.keys() == PRESETS.keys()
    assert all(read_context(preset.context).name == preset.context for preset in PRESETS.values())


def test_few_shot_takes_a_number_and_a_seed() -> None:
    assert preset_by_name("few_shot") == PRESETS["few_shot"]
    seven = preset_by_name("few_shot:7:2")
    assert seven is not None
    assert (seven.name, seven.shots, seven.shots_seed, seven.metric) == ("few_shot:7:2", 7, 2, "exact_match")
    assert [preset_by_name(name) for name in ("few_shot:x", "few_shot:1:2:3", "wild:3", "mild")] == [None] * 4


def test_a_file_of_the_users_own_is_a_context(tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    path.write_text("# mine\n---\nTell me: {question} ->\n")
    assert read_context(str(path)).prompt("Who?", facts=FACTS) == "Ada leads Mora.\nTell me: Who? ->"
    assert read_context(f"chat:{path}").for_model(CHATML).prompt("Who?") == "<user>\nTell me: Who? -><end>\n<model>\n"
    path.write_text("# mine\n---\nTell me: {facts}{question} ->\n")
    assert read_context(str(path)).prompt("Who?", facts=FACTS) == "Tell me: Ada leads Mora.\nWho? ->"

    path.write_text("# mine\n---\nTell me\n")
    with pytest.raises(SpecError, match="exactly once"):
        read_context(str(path))
    path.write_text("# mine\n---\n{question} {facts}\n")
    with pytest.raises(SpecError, match=r"ahead of \{question\}"):
        read_context(str(path))


def test_an_unknown_context_lists_the_known_ones() -> None:
    with pytest.raises(SpecError, match="instruction"):
        read_context("instructions")
    with pytest.raises(SpecError, match="'instructions'"):
        read_context("chat:instructions")


def test_a_chat_context_needs_a_chat_template() -> None:
    with pytest.raises(SpecError, match="no chat template that can be used; ask in 'instruction'"):
        read_context("chat:instruction").for_model(None)
    assert read_context("instruction").for_model(None).prompt("Who?") == read_context("instruction").prompt("Who?")
