"""Contexts are files with one place for the question."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgedit.errors import SpecError
from kgedit.llm.contexts import context_names, read_context
from kgedit.llm.presets import PRESETS


def test_the_instruction_context_is_the_published_one_word_for_word() -> None:
    prompt = read_context("instruction").prompt("Who is {this}?")
    assert prompt == "Please answer the question:\nQ: Who is {this}?\nA:"


def test_question_only_adds_nothing() -> None:
    assert read_context("question_only").prompt("Who?") == "Who?"


@pytest.mark.parametrize("name", context_names())
def test_every_shipped_context_has_a_header_and_ends_ready_for_an_answer(name: str) -> None:
    context = read_context(name)
    assert not context.template.startswith("#")
    assert not context.template.endswith((" ", "\n"))


def test_every_preset_names_a_context_that_exists() -> None:
    assert {preset.context for preset in PRESETS.values()} <= set(context_names())


def test_a_file_of_the_users_own_is_a_context(tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    path.write_text("# mine\n---\nTell me: {question} ->\n")
    assert read_context(str(path)).prompt("Who?") == "Tell me: Who? ->"

    path.write_text("# mine\n---\nTell me\n")
    with pytest.raises(SpecError, match="exactly once"):
        read_context(str(path))


def test_an_unknown_context_lists_the_known_ones() -> None:
    with pytest.raises(SpecError, match="instruction"):
        read_context("instructions")
