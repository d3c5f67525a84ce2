"""Texts read as trees give the texts and probabilities of reading each one alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from world.small_models import ALL_ARCHITECTURES, ARCHITECTURES, EVERY_ARCHITECTURE, KEEP_TOKENS, small_model, tokenizer
from world.small_timestep import NEW_MAYORS, OLD_MAYORS, TOWNS, write_timestep

from kgedit.editing import make_editor
from kgedit.llm.decoding import Decoding, decode
from kgedit.llm.generation import PresetQuestion, Question, ask, ask_each, feed
from kgedit.llm.language_model import InstalledHook, LanguageModel
from kgedit.llm.presets import PRESETS
from kgedit.llm.replies import Reply
from kgedit.llm.shared_reading import group_rows, pack, reads_trees, shared_length, shares_beginnings
from kgedit.runs.presets import asked_contexts
from kgedit.timesteps.known_facts import sample_facts

ROWS = [[5, 6, 7, 8], [5, 6, 9], [5, 6, 7, 3, 2, 1], [5, 6, 9]]


@contextmanager
def whole_rows(model: LanguageModel) -> Iterator[None]:
    """Have every row read whole, as a hook that looks at rows does."""
    model.row_readers.append("a test")
    try:
        yield
    finally:
        model.row_readers.clear()


def test_each_beginning_stands_once_and_each_token_sees_its_own_row_alone() -> None:
    packs = pack(ROWS, [[0, 1, 2, 3]], ahead=1)

    assert packs.ids.tolist() == [[6, 7, 8, 9, 3, 2, 1]]
    assert packs.positions.tolist() == [[1, 2, 3, 2, 3, 4, 5]]
    assert packs.paths == ((0, 1, 2), (0, 3), (0, 1, 4, 5, 6), (0, 3))
    assert packs.visible[0, 6].tolist() == [True, True, True, False, False, True, True, True]
    assert packs.visible[0, 3].tolist() == [True, True, False, False, True, False, False, False]


def test_what_all_rows_share_ends_before_the_last_token_of_the_shortest() -> None:
    assert shared_length(ROWS) == 2
    assert shared_length([[1, 2, 3], [1, 2, 3]]) == 2
    assert shared_length([[1, 2], [3, 2]]) == 0
    assert shared_length([[4]]) == 0


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(st.lists(st.integers(0, 3), min_size=2, max_size=9), min_size=1, max_size=12),
    nodes=st.integers(1, 20),
)
def test_every_row_is_in_one_tree_and_its_path_spells_it(rows: list[list[int]], nodes: int) -> None:
    ahead = shared_length(rows)
    groups = group_rows(rows, ahead=ahead, nodes=nodes)
    packs = pack(rows, groups, ahead=ahead)

    assert sorted(row for group in groups for row in group) == list(range(len(rows)))
    for row, tokens in enumerate(rows):
        tree, path = packs.trees[row], list(packs.paths[row])
        assert packs.ids[tree, path].tolist() == tokens[ahead:]
        assert packs.positions[tree, path].tolist() == list(range(ahead, len(tokens)))
        seen = packs.visible[tree, path[-1]]
        assert set(np.flatnonzero(seen)) == {*range(ahead), *(ahead + node for node in path)}


def _questions(model: LanguageModel, preset: str) -> list[Question]:
    context = asked_contexts([PRESETS[preset]], sample_facts())[preset].for_model(model.chat)
    asked = [f"Who is the mayor of {town}?" for town in TOWNS] + [f"Where is {town}?" for town in TOWNS[:5]]
    golds, old = (NEW_MAYORS + TOWNS)[: len(asked)], (OLD_MAYORS + TOWNS[::-1])[: len(asked)]
    forced = PRESETS[preset].generation == "teacher_forcing"
    return [
        Question(context.prompt(text), gold, (before,) if forced else ())
        for text, gold, before in zip(asked, golds, old, strict=True)
    ]


def _said(replies: list[Reply]) -> list[tuple[object, ...]]:
    return [(one.text, one.token_match, one.prompt_tokens, one.new_tokens) for one in replies]


def _with_template() -> LanguageModel:
    model = small_model()
    own = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer()._tokenizer, eos_token="<end>", pad_token="<end>"
    )
    own.chat_template = (
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}"
        "{% if add_generation_prompt %}<assistant>{% endif %}"
    )
    return LanguageModel("chat", "", model.module, own)


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_gives_the_same_replies_however_texts_are_read(name: str) -> None:
    model = _with_template()
    questions = _questions(model, name)
    preset = replace(PRESETS[name], max_new_tokens=12)
    assert shares_beginnings(model, 200)
    shared = ask(model, questions, preset, batch_tokens=600)
    with whole_rows(model):
        whole = ask(model, questions, preset, batch_tokens=600)

    assert _said(shared) == _said(whole)
    for one, other in zip(shared, whole, strict=True):
        assert (one.probability is None) == (preset.generation == "greedy")
        if one.probability is not None:
            assert one.probability == pytest.approx(other.probability, rel=1e-4)
            assert one.old_probability == pytest.approx(other.old_probability, rel=1e-4)


@pytest.mark.parametrize("architecture", EVERY_ARCHITECTURE)
@torch.inference_mode()
def test_rows_that_come_and_go_say_what_they_say_alone(architecture: str) -> None:
    """Prompts of many lengths, a few slots, answers that end at different times and repeated prompts."""
    model = small_model(architecture)
    texts = [f"Who is the mayor of {town}, and where {'is it ' * (n % 4)}?" for n, town in enumerate(TOWNS)] * 2
    prompts = [model.encode(text) for text in texts]
    stops = [model.ids_containing([letter]) for letter in ("a", "e", "o")]
    rows = [Decoding(prompt, stops[n % 3], 3 + n % 9) for n, prompt in enumerate(prompts)]
    together = decode(model, rows, most_tokens=4 * max(len(row.prompt) + row.limit for row in rows))
    with whole_rows(model):
        alone = [decode(model, [row], most_tokens=1)[0] for row in rows]

    assert together == alone
    assert shares_beginnings(model, 40) == (architecture in KEEP_TOKENS)
    assert len({len(reply) for reply in together}) > 3


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@torch.inference_mode()
def test_fed_answers_are_as_probable_however_they_are_read(architecture: str) -> None:
    model = small_model(architecture)
    prompts = [model.encode(f"Who is the mayor of {town}?") for town in TOWNS for _ in range(2)]
    targets = [model.encode_target(name) for pair in zip(NEW_MAYORS, OLD_MAYORS, strict=True) for name in pair]
    shared = feed(model, prompts, targets, most_tokens=64)
    with whole_rows(model):
        whole = feed(model, prompts, targets, most_tokens=64)

    assert [fed.best for fed in shared] == [fed.best for fed in whole]
    assert [fed.probability for fed in shared] == pytest.approx([fed.probability for fed in whole], rel=1e-4)


def test_what_is_shared_is_computed_once() -> None:
    model = small_model()
    questions = _questions(model, "few_shot")
    seen = []
    handle = model.blocks[0].module.register_forward_pre_hook(
        lambda _, args, kwargs: seen.append((args[0] if args else kwargs["hidden_states"]).shape[:2].numel()),
        with_kwargs=True,
    )
    preset = replace(PRESETS["few_shot"], max_new_tokens=1)
    ask(model, questions[:1], preset)
    one = sum(seen)
    seen.clear()
    ask(model, questions, preset)
    handle.remove()

    assert sum(seen) < 4 * one, "fifteen prompts of which most is the same demonstrations"


def test_one_prompt_asked_up_to_different_stops_is_decoded_once() -> None:
    model = small_model()
    line, period = (replace(PRESETS[name], max_new_tokens=limit) for name, limit in (("wild_line", 9), ("wild", 6)))
    question = Question("Who leads Hjo?", "Asta")
    assert shares_beginnings(model, 50)
    passes = []
    handle = model.module.register_forward_hook(lambda *_: passes.append(1))
    ask(model, [question], line)
    once = len(passes)
    passes.clear()
    first, second = ask_each(model, [PresetQuestion(question, line), PresetQuestion(question, period)])
    handle.remove()

    assert len(passes) == once
    assert first.text == ask(model, [question], line)[0].text
    assert second.text == ask(model, [question], period)[0].text
    assert second.new_tokens <= 6


def test_a_model_that_takes_no_mask_of_its_own_or_no_positions_reads_rows_whole() -> None:
    """BLOOM and MPT find positions by counting columns; Mamba has no attention."""
    common = {"vocab_size": len(tokenizer()), "hidden_size": 32, "initializer_range": 0.2}
    bloom = transformers.BloomForCausalLM(transformers.BloomConfig(**common, n_layer=2, n_head=2)).eval()
    mamba = transformers.MambaForCausalLM(transformers.MambaConfig(**common, num_hidden_layers=2)).eval()
    for module in (bloom, mamba):
        assert not reads_trees(LanguageModel("other", "", module, tokenizer()))
    model = LanguageModel("bloom", "", bloom, tokenizer())
    assert not shares_beginnings(model, 20)
    prompts = [model.encode(f"Who is the mayor of {town}?") for town in TOWNS[:3]]
    rows = [Decoding(prompt, frozenset(), 4) for prompt in prompts]
    with torch.inference_mode():
        together = decode(model, rows, most_tokens=1000)
        assert together == [decode(model, [row], most_tokens=1)[0] for row in rows]


def test_a_wrong_mask_is_noticed() -> None:
    model = small_model()
    forward = model.module.model.forward

    def careless(*args: object, **kwargs: object) -> object:
        return forward(*args, **{**kwargs, "attention_mask": None})

    model.module.model.forward = careless
    assert not reads_trees(model)
    assert not shares_beginnings(LanguageModel("careless", "", model.module, tokenizer()), 20)
    assert shares_beginnings(LanguageModel("careful", "", small_model().module, tokenizer()), 20)


def test_texts_longer_than_a_window_are_read_whole() -> None:
    model = small_model("mistral")
    assert (model.window, small_model().window) == (64, None)
    assert shares_beginnings(model, 64)
    assert not shares_beginnings(model, 65)
    assert all(reads_trees(small_model(name)) for name in ("gemma2", "opt")), "which most differ in masks and positions"
    assert set(ALL_ARCHITECTURES) > {"gemma2", "opt"}


@pytest.mark.parametrize("method", ["grace", "wise"])
def test_a_hook_that_reads_rows_keeps_them_whole_until_it_is_gone(method: str, tmp_path: Path) -> None:
    model = small_model()
    case = next(write_timestep(tmp_path).cases())
    editor = make_editor(method, model, {"layer": 1, "steps": 2}, seed=1)
    assert shares_beginnings(model, 20)
    editor.apply([case])
    assert not shares_beginnings(model, 20)
    editor.restore()
    assert shares_beginnings(model, 20)

    hook = InstalledHook(model, model.blocks[0].down_projection, lambda *_: None)
    assert not shares_beginnings(model, 20)
    hook.remove()
    hook.remove()
    assert shares_beginnings(model, 20)
