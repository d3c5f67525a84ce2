"""Edits of GRACE and WISE live in the model: every caller gets the edited answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from transformers import DynamicCache, pipeline
from world.small_models import ARCHITECTURES, decode_greedily, small_model
from world.small_timestep import write_timestep

from kgedit.editing import make_editor
from kgedit.llm.generation import feed
from kgedit.llm.language_model import InstalledHook, LanguageModel, infer_reading
from kgedit.records.cases import Case

NEW_TOKENS = 5
SETTINGS: dict[str, dict[str, Any]] = {
    "grace": {"layer": 2, "radius": 1e-3, "steps": 60},
    "wise": {"layer": 1, "steps": 40, "ratio": 0.99},
}


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> list[Case]:
    words = ["mayor", "of", "is", "the", "Where", "A", "lie", "at", "Who", "was"]
    cases = list(write_timestep(tmp_path_factory.mktemp("timestep")).cases())
    return [replace(case, answer=word) for case, word in zip(cases, words, strict=True)]


_EDITED: dict[tuple[str, str], LanguageModel] = {}


def _edited(method: str, architecture: str, cases: list[Case]) -> LanguageModel:
    """A model with three edits, made once; nothing here changes it."""
    if (method, architecture) not in _EDITED:
        model = small_model(architecture)
        make_editor(method, model, SETTINGS[method], seed=7).apply(cases[:3])
        _EDITED[method, architecture] = model
    return _EDITED[method, architecture]


def _own(model: LanguageModel, questions: list[str]) -> list[list[int]]:
    """Answers as kgedit itself decodes them."""
    prompts = [model.encode(question) for question in questions]
    with torch.no_grad():
        return decode_greedily(model, prompts, stops=(), limits=[NEW_TOKENS] * len(prompts))


def _generated(model: LanguageModel, questions: list[str], **options: Any) -> list[list[int]]:
    ids, mask = model.pad_left([model.encode(question) for question in questions])
    given = {"max_new_tokens": NEW_TOKENS, "do_sample": False, "eos_token_id": None, "pad_token_id": 0} | options
    rows: list[list[int]] = model.module.generate(ids, attention_mask=mask, **given)[:, ids.shape[1] :].tolist()
    return rows


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("method", SETTINGS)
@pytest.mark.slow
def test_generate_gives_the_edited_answer_in_a_left_padded_batch_and_alone(
    method: str, architecture: str, cases: list[Case]
) -> None:
    questions = [case.question for case in cases]
    unedited = _own(small_model(architecture), questions)
    model = _edited(method, architecture, cases)
    expected = _own(model, questions)

    assert sum(a != b for a, b in zip(expected[:3], unedited[:3], strict=True)) >= 2
    assert len({len(model.encode(question)) for question in questions}) > 1
    assert _generated(model, questions) == expected
    assert [_generated(model, [question])[0] for question in questions[:4]] == expected[:4]
    # Beams change places within a prompt, never between prompts.
    assert len(_generated(model, questions[:2], num_beams=2)) == 2


@pytest.mark.parametrize("method", SETTINGS)
@pytest.mark.slow
def test_generate_without_a_cache_gives_the_edited_answer(method: str, cases: list[Case]) -> None:
    model = _edited(method, "llama", cases)
    questions = [case.question for case in cases[:3]]

    assert [row[0] for row in _generated(model, questions, use_cache=False)] == [
        row[0] for row in _own(model, questions)
    ]


@pytest.mark.parametrize("method", SETTINGS)
def test_a_pipeline_gives_the_edited_answer(method: str, cases: list[Case]) -> None:
    model = _edited(method, "llama", cases)
    questions = [case.question for case in cases[:4]]
    generate = pipeline("text-generation", model=model.module, tokenizer=model.tokenizer, batch_size=4)
    options = {"max_new_tokens": NEW_TOKENS, "do_sample": False, "eos_token_id": None, "return_full_text": False}
    said = [found[0]["generated_text"] for found in generate(questions, **options)]

    assert said == [model.decode(ids) for ids in _own(model, questions)]


def _scored(model: LanguageModel, pairs: list[tuple[list[int], list[int]]]) -> tuple[list[float], list[list[int]]]:
    """Log-likelihoods of answers, and the likeliest tokens in their places, as lm-eval asks for them.

    Zeros on the right, no attention mask, and nothing said of where a prompt ends.
    """
    rows = [prompt + answer[:-1] for prompt, answer in pairs]
    longest = max(map(len, rows)) + 3
    ids = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
    with torch.no_grad():
        scores = model.module(ids).logits.log_softmax(-1)
    own = [row[len(prompt) - 1 :][: len(answer)] for row, (prompt, answer) in zip(scores, pairs, strict=True)]
    sums = [
        sum(float(at[token]) for at, token in zip(row, answer, strict=True))
        for row, (_, answer) in zip(own, pairs, strict=True)
    ]
    return sums, [row.argmax(-1).tolist() for row in own]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("method", SETTINGS)
@pytest.mark.slow
def test_the_likelihood_of_an_answer_is_the_edited_one(method: str, architecture: str, cases: list[Case]) -> None:
    model = _edited(method, architecture, cases)
    pairs = [(model.encode(case.question), model.encode_target(case.answer)) for case in cases[:3]]
    with torch.no_grad():
        fed = [one.best for one in feed(model, *map(list, zip(*pairs, strict=True)))]
    edited, best = _scored(model, pairs)
    unedited, _ = _scored(small_model(architecture), pairs)

    assert best == fed, "as kgedit itself feeds answers"
    assert sum(edited) > sum(unedited) + 1


@pytest.mark.parametrize("method", SETTINGS)
def test_what_no_edit_is_about_stays_bit_for_bit_as_it_was(method: str, cases: list[Case]) -> None:
    ids = torch.tensor([small_model().encode("Ahoy")])
    with torch.no_grad():
        before = small_model().module(ids).logits
        after = _edited(method, "llama", cases).module(ids).logits

    assert torch.equal(before, after)


def test_a_call_that_fails_or_is_interrupted_leaves_no_reading_behind() -> None:
    model = small_model()
    seen = []
    layer = model.blocks[1].down_projection
    hook = InstalledHook(model, layer, lambda *_: seen.append(model.reading))
    ids = torch.tensor([[5, 6, 7]])

    class Interrupted(BaseException):
        pass

    def stop(*_: Any) -> None:
        raise Interrupted

    handle = model.blocks[2].module.register_forward_pre_hook(stop)
    with pytest.raises(Interrupted):
        model.module(ids)
    handle.remove()
    model.forward(ids, torch.ones_like(ids), last=1, ends=torch.tensor([2]))
    model.module(ids)

    assert [reading.ends_unknown for reading in seen] == [True, False, True]
    assert model.reading is None
    hook.remove()


@pytest.mark.parametrize("name", ["cache", "past_key_values"])
def test_what_a_call_reads_is_inferred_from_its_arguments(name: str) -> None:
    ids = torch.tensor([[4, 5, 6, 0, 0, 0], [1, 2, 3, 4, 5, 6]])
    plain = infer_reading({"input_ids": ids})
    assert (plain.ends, plain.ends_unknown) == (None, True)
    assert plain.mask.tolist() == [[1, 1, 1, 1, 0, 0], [1] * 6]

    mask = torch.tensor([[0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1]])
    cache = DynamicCache()
    begun = infer_reading({"input_ids": ids, "attention_mask": mask, name: cache})
    assert begun.ends is not None
    assert (begun.ends.tolist(), begun.ends_unknown) == ([5, 5], False)
    on_the_right = infer_reading({"input_ids": ids, "attention_mask": mask.flip(1), name: cache})
    assert on_the_right.ends is not None
    assert on_the_right.ends.tolist() == [3, 5]

    cache.update(torch.zeros(2, 1, 6, 4), torch.zeros(2, 1, 6, 4), 0)
    one = infer_reading({"input_ids": ids[:, :1], name: cache})
    assert (one.ends, one.ends_unknown, tuple(one.mask.shape)) == (None, False, (2, 7))
    several = infer_reading({"inputs_embeds": torch.zeros(2, 3, 4), name: cache})
    assert (several.ends, several.ends_unknown, tuple(several.mask.shape)) == (None, True, (2, 9))
