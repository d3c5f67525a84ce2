"""Chat templates as text, and spans of tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer, PreTrainedTokenizer, PreTrainedTokenizerFast
from world.small_models import TEXTS, decode_greedily, small_model, tokenizer

from kgedit.errors import ModelError
from kgedit.llm.contexts import read_context
from kgedit.llm.generation import Question, ask
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.loading import has_chat_template, load_model, wrap_model
from kgedit.llm.presets import PRESETS
from kgedit.llm.tokenization import chat_format, token_spans
from kgedit.llm.training import encode_targets

TURNS = (
    "{{ bos_token }}{% for m in messages %}<turn>{{ m.role }}\n{{ m.content | trim }}{% if m.role == 'assistant' %}"
    "<over>{% endif %}\n{% endfor %}{% if add_generation_prompt %}<turn>assistant\n{% endif %}"
)
"""After Llama 3: the template writes the beginning of the text, and so does the tokenizer."""


BRACKETS = (
    "{% for m in messages %}{% if m.role == 'user' %}[ASK] {{ m.content }} [/ASK]{% else %} {{ m.content }}"
    "{{ eos_token }}{% endif %}{% endfor %}"
)
"""After Llama 2: an answer follows after a space, and there is no prompt for generation."""


def _tokenizer(template: str | None) -> Any:
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    special = ["<end>", "<s>", "<turn>", "<over>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    raw.train_from_iterator(TEXTS, trainer)
    raw.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return PreTrainedTokenizerFast(
        tokenizer_object=raw, bos_token="<s>", eos_token="<end>", pad_token="<end>", chat_template=template
    )


def _model(template: str | None = TURNS) -> LanguageModel:
    return LanguageModel("chatty", "", small_model().module, _tokenizer(template))


@pytest.mark.parametrize("template", [TURNS, BRACKETS])
@pytest.mark.parametrize("name", ["chat", "chat:instruction"])
def test_the_tokens_of_a_prompt_are_those_that_the_tokenizers_template_gives(template: str, name: str) -> None:
    model = _model(template)
    context = read_context(name).for_model(model.chat)
    own = read_context(name.partition(":")[2] or "question_only")
    turns = [{"role": "user", "content": own.prompt("Who is the mayor of Mora?")}]

    ids = model.encode(context.prompt("Who is the mayor of Mora?"))

    expected = model.tokenizer.apply_chat_template(turns, add_generation_prompt=True, return_dict=False)
    assert ids == (expected if template == TURNS else [1, *expected])
    assert ids.count(model.tokenizer.bos_token_id) == 1


@pytest.mark.parametrize(("template", "end"), [(TURNS, "<over>"), (BRACKETS, "<end>")])
def test_an_answer_follows_and_ends_as_the_template_says(template: str, end: str) -> None:
    model = _model(template)
    context = read_context("chat").for_model(model.chat)
    turns = [{"role": "user", "content": "Who?"}, {"role": "assistant", "content": "Asta Wik"}]
    result = model.tokenizer.apply_chat_template(turns, tokenize=False).removeprefix("<s>").rstrip()
    targets = encode_targets(model, [(context.prompt("Who?"), "Asta Wik")], learn_end=True)

    assert model.tokenizer.decode(targets.ids[0][1:]) == result
    assert result.endswith(f"Asta Wik{end}")
    bare = model.encode_target("Asta Wik", after="Who?")
    assert model.decode(bare) == " Asta Wik"


def test_the_end_of_a_turn_stops_an_answer() -> None:
    model = _model()
    over = model.tokenizer.convert_tokens_to_ids("<over>")
    head = torch.nn.Linear(32, 400)
    torch.nn.init.zeros_(head.weight)
    with torch.no_grad():
        head.bias.zero_()
        head.bias[over] = 1.0
    model.module.set_output_embeddings(head)
    prompt = read_context("chat").for_model(model.chat).prompt("Who?")

    assert over in model.end_ids
    assert decode_greedily(model, [model.encode(prompt)], stops=(), limits=[5]) == [[over]]
    assert ask(model, [Question(prompt, "Asta Wik")], PRESETS["wild_chat"])[0].text == ""


def test_what_a_tokenizer_lacks_or_cannot_render_is_said() -> None:
    assert chat_format(_tokenizer(None)) is None
    with pytest.raises(ModelError, match="leaves out what the user says"):
        chat_format(_tokenizer("nothing"))
    with pytest.raises(ModelError, match="cannot be used: roles alternate"):
        chat_format(_tokenizer("{{ raise_exception('roles alternate') }}"))


def test_a_template_that_cannot_be_used_is_no_hindrance_to_other_prompts(tmp_path: Path) -> None:
    model = _model("nothing")
    assert model.chat is None
    assert model.end_ids == {0}
    assert len(ask(model, [Question("Who?", "Asta")], PRESETS["question_only"])) == 1
    model.tokenizer.save_pretrained(tmp_path / "odd")
    assert not has_chat_template(str(tmp_path / "odd"))


def test_a_template_that_tells_the_date_gives_the_same_prompt_every_day() -> None:
    dated = "{% if not date_string is defined %}{% set date_string = strftime_now('%d %b %Y') %}{% endif %}"
    found = chat_format(_tokenizer(dated + "Today: {{ date_string }}\n{{ messages[0].content }}\n"))
    assert found is not None
    assert found.before == "Today: 26 Jul 2024\n"


def test_a_chat_template_is_known_before_the_model_is_loaded(tmp_path: Path) -> None:
    _tokenizer(TURNS).save_pretrained(tmp_path / "chatty")
    _tokenizer(None).save_pretrained(tmp_path / "plain")
    assert AutoTokenizer.from_pretrained(tmp_path / "chatty").chat_template == TURNS
    assert has_chat_template(str(tmp_path / "chatty"))
    assert not has_chat_template(str(tmp_path / "plain"))
    assert not has_chat_template(str(tmp_path / "nowhere"))
    assert not has_chat_template("tiny")
    assert has_chat_template("smollm2-135m")


@pytest.mark.models
@pytest.mark.slow
def test_smollm2_keeps_the_chat_template_of_its_gguf_file() -> None:
    pytest.importorskip("gguf")
    model = load_model("smollm2-135m", device="cpu", dtype="float32")
    prompt = read_context("chat:instruction").for_model(model.chat).prompt("What is the capital of France?")

    assert prompt.endswith("Q: What is the capital of France?\nA:<|im_end|>\n<|im_start|>assistant\n")
    assert "Paris" in ask(model, [Question(prompt, "Paris")], PRESETS["wild_chat"])[0].text


class _Slow:
    """A tokenizer that gives ids and texts and says no more."""

    is_fast = False

    def __init__(self, *, loses: str = "") -> None:
        self._own, self._loses = tokenizer(), loses

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        return list(self._own.encode(text.replace(self._loses, "") if self._loses else text, add_special_tokens=False))

    def decode(self, ids: list[int], **_: Any) -> str:
        return str(self._own.decode(ids))


class _Letters(PreTrainedTokenizer):  # type: ignore[misc]
    """transformers' own class without a fast form: a token is a character."""

    @property
    def vocab_size(self) -> int:
        return 360

    def get_vocab(self) -> dict[str, int]:
        return {chr(number): number for number in range(360)}

    def _tokenize(self, text: str, **_: Any) -> list[str]:
        return list(text)

    def _convert_token_to_id(self, token: str) -> int:
        return ord(token) % 360

    def _convert_id_to_token(self, index: int) -> str:
        return chr(index)

    def convert_tokens_to_string(self, tokens: list[str]) -> str:
        return "".join(tokens)


@pytest.mark.parametrize("text", [*TEXTS, "Łódź, 東京 and O'Neil's"])
def test_a_tokenizer_that_tells_no_places_gives_the_same_last_token_of_every_character(text: str) -> None:
    fast_ids, fast = token_spans(tokenizer(), text)
    slow_ids, slow = token_spans(_Slow(), text)

    assert slow_ids == fast_ids
    for at in range(len(text)):
        last = [max(index for index, (start, stop) in enumerate(spans) if start <= at < stop) for spans in (fast, slow)]
        assert last[0] == last[1], (at, text[at])


def test_a_tokenizer_that_changes_texts_is_refused() -> None:
    with pytest.raises(ModelError, match=r"tokenizer\.json"):
        wrap_model(small_model().module, _Slow(loses="J"))


def test_a_slow_tokenizer_of_transformers_that_keeps_texts_is_taken_unless_it_lacks_letters() -> None:
    with pytest.raises(ModelError, match="slow one"):
        wrap_model(small_model().module, _Letters())
    ids, spans = token_spans(_Letters(), "Mora's lake")
    assert len(ids) == 11
    assert spans == [(at, at + 1) for at in range(11)]
