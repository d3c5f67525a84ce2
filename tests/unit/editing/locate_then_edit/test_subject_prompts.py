"""Prompts with the position of their subject."""

from __future__ import annotations

import copy
import dataclasses
import unicodedata
from typing import Any

import pytest
from tokenizers.normalizers import NFC, Replace, Sequence
from tokenizers.processors import ByteLevel
from world.small_models import changed, small_model, weights

from kgedit.editing import make_editor
from kgedit.editing.locate_then_edit.subject_prompts import (
    encode_with_subject,
    subject_problem,
    subject_prompt,
)
from kgedit.llm.contexts import read_context
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.tokenization import ChatFormat
from kgedit.progress import ignore
from kgedit.records.cases import Case
from kgedit.timesteps.timestep import Timestep

pytestmark = pytest.mark.usefixtures("own_home")

BARE = read_context("question_only")


SMALL = {"tokens": 600, "length": 32, "prefix_tokens": 4}


def _editor(name: str, model: LanguageModel, timestep: Timestep, **given: object) -> Any:
    editor = make_editor(name, model, {**SMALL, **given}, contexts=(BARE,), seed=7)
    editor.prepare(timestep.known_facts(), advance=ignore)
    return editor


def test_the_subjects_last_token_is_the_one_that_covers_its_last_character(cases: list[Case]) -> None:
    model = small_model()
    for case in cases:
        for context in (BARE, read_context("instruction")):
            for random_prefix in ((), (5, 6, 7)):
                prompt = subject_prompt(model, case, context, random_prefix=random_prefix)
                before = model.tokenizer.decode(prompt.ids[: prompt.subject + 1])
                assert case.fact.subject_label in before
                assert case.fact.subject_label not in model.tokenizer.decode(prompt.ids[: prompt.subject])


def test_without_a_random_prefix_a_prompt_has_the_tokens_that_the_evaluation_sends(cases: list[Case]) -> None:
    model = small_model()
    assert list(subject_prompt(model, cases[0], BARE).ids) == model.encode(cases[0].question)
    assert model.leading_ids() == []


def test_the_subject_is_found_behind_an_instruction_demonstrations_and_a_chats_turns(cases: list[Case]) -> None:
    chat = ChatFormat("<user>\n", "<end>\n<model>\n", joint="", end=None)
    context = read_context("chat:instruction").with_demonstrations((("Who leads Mora?", "Arvika"),)).for_model(chat)
    model = small_model()
    prompt = subject_prompt(model, cases[0], context)

    assert list(prompt.ids) == model.encode(context.prompt(cases[0].question))
    assert model.decode(prompt.ids[: prompt.subject + 1]).endswith("Q: Who is the mayor of Arvika")


def test_possessives_do_not_move_the_subject() -> None:
    model = small_model()
    prompt = encode_with_subject(model, "Luleå's river is", len("Luleå"))

    assert model.tokenizer.decode(prompt.ids[: prompt.subject + 1]) == "Luleå"


def _with_tokenizer(*, trim: bool = False) -> LanguageModel:
    """A model whose tokenizer composes accents, as Qwen's do, and drops zero-width spaces."""
    model = small_model()
    own = copy.deepcopy(model.tokenizer)
    own.backend_tokenizer.normalizer = Sequence([NFC(), Replace("\u200b", "")])
    own.backend_tokenizer.post_processor = ByteLevel(trim_offsets=trim)
    return dataclasses.replace(model, tokenizer=own)


@pytest.mark.parametrize("subject", ["Lulea\u030a", "Jose\u0301", "\u1109\u1165\u110b\u116e\u11af"])
@pytest.mark.parametrize("prefix", [(), (5, 6, 7)])
def test_a_subject_of_decomposed_characters_ends_at_its_last_token(subject: str, prefix: tuple[int, ...]) -> None:
    model = _with_tokenizer()
    text = f"The river of {subject} is"
    prompt = encode_with_subject(model, text, len(text) - len(" is"), random_prefix=prefix)

    assert model.decode(prompt.ids[: prompt.subject + 1]).endswith(unicodedata.normalize("NFC", subject))
    assert model.decode(prompt.ids[prompt.subject + 1 :]) == " is"


def test_spaces_that_the_tokenizer_leaves_out_of_its_spans_are_not_the_subjects_last_token() -> None:
    model = _with_tokenizer(trim=True)
    prompt = encode_with_subject(model, "Who leads Mora ", len("Who leads Mora "))

    assert model.decode(prompt.ids[: prompt.subject + 1]) == "Who leads Mora"


def test_a_subject_without_a_token_is_a_reason_and_not_a_crash(cases: list[Case], timestep: Timestep) -> None:
    fact = dataclasses.replace(cases[0].fact, subject_label="\u200b")
    case = dataclasses.replace(cases[0], fact=fact, question="Where is \u200b?")
    applied = _editor("rome", _with_tokenizer(), timestep, steps=2).apply([case])

    assert [failure.reason for failure in applied.failures] == [
        "the model's tokenizer has no token for the subject '\u200b'"
    ]


def test_a_subject_that_is_missing_or_repeated_is_a_reason_and_not_a_crash(
    cases: list[Case], timestep: Timestep
) -> None:
    gone = dataclasses.replace(cases[0], question="Who leads this town?")
    twice = dataclasses.replace(cases[1], question="Is Borgholm in Borgholm?")
    assert subject_problem(small_model(), cases[0]) == ""
    assert "is not in the question" in subject_problem(small_model(), gone)
    assert "occurs 2 times" in subject_problem(small_model(), twice)

    for name in ("rome", "memit", "alphaedit"):
        model = small_model()
        before, editor = weights(model), _editor(name, model, timestep, steps=2)
        applied = editor.apply([gone, twice])
        assert applied.loss is None
        assert [failure.case_id for failure in applied.failures] == [gone.case_id, twice.case_id]
        assert changed(before, model) == []
        assert editor.apply([gone, cases[2]]).loss is not None
        assert changed(before, model)
