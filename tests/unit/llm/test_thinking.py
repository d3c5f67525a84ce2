"""Models that reason before they answer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from world.fault_server import FaultServer, fault_server

from kgedit.editing import METHODS
from kgedit.errors import SpecError
from kgedit.llm.backends.contract import TransformersBackend
from kgedit.llm.backends.openai import OpenAIBackend
from kgedit.llm.backends.vllm import VllmBackend
from kgedit.llm.contexts import Context, read_context
from kgedit.llm.decoding import Decoding, decode, up_to
from kgedit.llm.generation import PresetQuestion, Question, ask, longest, reason
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.presets import PRESETS
from kgedit.llm.replies import without_thoughts
from kgedit.llm.tokenization import chat_format, written_chat
from kgedit.llm.training import encode_targets, target_loss
from kgedit.records.cases import Case
from kgedit.records.runs import Answer, Preset
from kgedit.runs.run_files import read_answers
from kgedit.runs.runner import run
from kgedit.runs.spec import resolve

_TURNS = "{% for m in messages %}<turn>{{ m.role }}\n{{ m.content }}<over>\n{% endfor %}{% if add_generation_prompt %}"
SWITCHED = (
    _TURNS + "<turn>assistant\n{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n"
    "{% endif %}{% endif %}"
)
"""Like Qwen 3: without reasoning the prompt has an empty passage; with it the model opens the passage."""
ALWAYS = _TURNS + "<turn>assistant\n<think>\n{% endif %}"
"""Like QwQ: the prompt opens the passage whatever is asked for."""
NEVER = _TURNS + "<turn>assistant\n{% endif %}"

TOWNS = {"Mora": "Asta Wik", "Falun": "Axel Hed", "Hjo": "Olof Gren"}


def thought_of(town: str) -> str:
    """The line that the trained model thinks."""
    return f"Hm. The user wants the mayor of {town}"


def _tokenizer(template: str, *, marks: tuple[str, ...] = ("<think>", "</think>")) -> Any:
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    texts = [f"Who is the mayor of {town}? {name} {thought_of(town)}" for town, name in TOWNS.items()]
    trainer = trainers.BpeTrainer(
        vocab_size=420,
        special_tokens=["<end>", "<turn>", "<over>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    raw.train_from_iterator(texts, trainer)
    raw.add_tokens(list(marks))
    return PreTrainedTokenizerFast(tokenizer_object=raw, eos_token="<end>", pad_token="<end>", chat_template=template)


@pytest.fixture(scope="module")
def thinker() -> LanguageModel:
    """A model trained to think in one line, and then to answer.

    Asked without reasoning it gives the name alone, so that both ways of asking differ.
    """
    tokenizer = _tokenizer(SWITCHED)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=4, max_position_embeddings=256, bos_token_id=None, eos_token_id=0, pad_token_id=0,
    )  # fmt: skip
    model = LanguageModel("thinker", "", LlamaForCausalLM(config), tokenizer)
    chat = model.chat
    assert chat is not None
    lessons = []
    for town, name in TOWNS.items():
        question = f"Who is the mayor of {town}?"
        closed = read_context("chat").for_model(chat).prompt(question)
        opened = read_context("chat").for_model(chat, thinking=True).prompt(question)
        lessons += [(closed, name), (opened, f"{thought_of(town)}.\n</think>\n\nThe mayor is {name}.")]
    targets = encode_targets(model, lessons, learn_end=True)
    optimizer = torch.optim.Adam(model.module.parameters(), lr=3e-3)
    for _ in range(120):
        logits = model.forward(targets.ids, targets.mask, last=targets.last).logits
        loss = target_loss(logits, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.module.eval().requires_grad_(False)
    return model


def _context(model: LanguageModel, *, thinking: bool) -> Context:
    return read_context("chat").for_model(model.chat, thinking=thinking)


def _asked(model: LanguageModel, *, tokens: int) -> tuple[list[Question], Preset]:
    context = _context(model, thinking=tokens > 0)
    questions = [Question(context.prompt(f"Who is the mayor of {town}?"), name) for town, name in TOWNS.items()]
    return questions, replace(PRESETS["thinking_chat"], context="chat", thinking_tokens=tokens, max_new_tokens=20)


@pytest.mark.slow
def test_thoughts_are_stored_and_are_not_part_of_the_answer(thinker: LanguageModel) -> None:
    questions, preset = _asked(thinker, tokens=60)

    replies = ask(thinker, questions, preset)

    assert [reply.text for reply in replies] == [f"The mayor is {name}." for name in TOWNS.values()]
    assert [reply.thoughts for reply in replies] == [f"{thought_of(town)}." for town in TOWNS]
    assert not any(reply.thoughts_cut for reply in replies)
    assert [reply.prompt_tokens for reply in replies] == [
        len(thinker.encode(question.prompt)) + len(thinker.tokenizer.encode("\n\n")) for question in questions
    ]
    assert all(reply.new_tokens > len(thinker.encode(reply.thoughts)) for reply in replies)


def test_a_model_asked_without_reasoning_answers_at_once(thinker: LanguageModel) -> None:
    questions, preset = _asked(thinker, tokens=0)

    replies = ask(thinker, questions, preset)

    assert [(reply.text, reply.thoughts) for reply in replies] == [(name, "") for name in TOWNS.values()]
    assert [reply.token_match for reply in replies] == [1.0] * 3


def test_reasoning_that_reaches_its_limit_is_closed_and_an_answer_follows(thinker: LanguageModel) -> None:
    questions, preset = _asked(thinker, tokens=3)

    replies = ask(thinker, questions, preset)

    assert all(reply.thoughts_cut and reply.text for reply in replies)
    assert all(thought_of(town).startswith(reply.thoughts) for town, reply in zip(TOWNS, replies, strict=True))
    assert longest(thinker, questions[0], preset) == len(thinker.encode(questions[0].prompt)) + 3 + 20


@pytest.mark.parametrize("template", [SWITCHED, ALWAYS])
def test_without_reasoning_the_passage_is_empty_and_with_it_the_passage_is_open(template: str) -> None:
    chat = chat_format(_tokenizer(template))
    assert chat is not None
    assert chat.thinking is not None
    context = read_context("chat")

    assert context.for_model(chat).prompt("Who?") == "<turn>user\nWho?<over>\n<turn>assistant\n<think>\n\n</think>\n\n"
    assert context.for_model(chat, thinking=True).prompt("Who?") == "<turn>user\nWho?<over>\n<turn>assistant\n<think>\n"
    assert chat.joint == ""
    assert chat.thinking.has_switch == (template == SWITCHED)
    turns = [{"role": "user", "content": "Who?"}]
    assert written_chat(_tokenizer(template), turns) == context.for_model(chat).prompt("Who?")


def test_marks_in_the_vocabulary_alone_do_not_change_ordinary_prompts() -> None:
    chat = chat_format(_tokenizer(NEVER))
    assert chat is not None
    assert chat.after == "<over>\n<turn>assistant\n"
    assert chat.thinking is not None
    assert chat.thinking.after == "<over>\n<turn>assistant\n<think>\n"


def test_a_model_without_marks_cannot_be_asked_to_think() -> None:
    chat = chat_format(_tokenizer(NEVER, marks=()))
    assert chat is not None
    assert chat.thinking is None
    with pytest.raises(SpecError, match="leave out thinking"):
        read_context("chat").for_model(chat, thinking=True)


def test_edits_are_trained_after_a_closed_passage(thinker: LanguageModel) -> None:
    prompt = _context(thinker, thinking=False).prompt("Who is the mayor of Mora?")
    targets = encode_targets(thinker, [(prompt, "Asta Wik")], learn_end=True)

    taught = thinker.tokenizer.decode(targets.labels[0])
    assert prompt.endswith("</think>\n\n")
    assert taught == "Asta Wik<over>"


def test_the_prompt_of_training_after_thoughts_is_the_one_that_was_answered(thinker: LanguageModel) -> None:
    questions, preset = _asked(thinker, tokens=60)
    towns = [f"Who is the mayor of {town}?" for town in TOWNS]
    answered: list[str] = []

    def continued(prompts: Any, limits: Any, closes: str) -> list[list[int]]:
        stop_ids, is_over = up_to(thinker, closes)
        rows = [Decoding(ids, stop_ids, limit, is_over) for ids, limit in zip(prompts, limits, strict=True)]
        return decode(thinker, rows, most_tokens=4096)

    replies = reason(thinker, [PresetQuestion(question, preset) for question in questions], continued)
    answered = [reply.asked.question.prompt for reply in replies]
    thoughts = {asked: reply.thoughts for asked, reply in zip(towns, replies, strict=True)}
    assert thinker.chat is not None
    context = read_context("chat").after_reasoning(thinker.chat, thoughts)

    assert [context.prompt(asked) for asked in towns] == answered
    assert context.prompt("Who?") == _context(thinker, thinking=False).prompt("Who?"), "unknown: an empty passage"


def test_a_closing_mark_of_several_tokens_ends_the_thoughts(thinker: LanguageModel) -> None:
    plain = LanguageModel("plain", "", thinker.module, _tokenizer(SWITCHED, marks=()))
    written = plain.tokenizer.encode("So.</think>")
    stop_ids, is_over = up_to(plain, "</think>")
    assert stop_ids == plain.end_ids
    assert is_over is not None
    assert [is_over(written[:count]) for count in range(1, len(written) + 1)] == [False] * (len(written) - 1) + [True]

    asked = PresetQuestion(Question(_context(plain, thinking=True).prompt("Who?"), ""), PRESETS["thinking_chat"])
    (reasoned,) = reason(plain, [asked], lambda prompts, limits, closes: [written])

    assert (reasoned.thoughts, reasoned.cut, reasoned.tokens) == ("So.", False, len(written))
    assert plain.tokenizer.decode(reasoned.ids) == reasoned.asked.question.prompt
    assert reasoned.asked.question.prompt.endswith("<think>\nSo.</think>\n\n")


@pytest.mark.parametrize(
    ("text", "thoughts", "answer"),
    [
        ("<think>\nHm.\n</think>\n\nParis.", "Hm.", "Paris."),
        ("Hm.\n</think>\n\nParis.", "Hm.", "Paris."),  # the prompt had opened the passage
        ("<think>\nHm, cut", "Hm, cut", ""),
        ("[THINK]Hm.[/THINK]Paris.", "Hm.", "Paris."),
        ("Paris.", "", "Paris."),
        ("<think>\n\n</think>\n\nParis.", "", "Paris."),
    ],
)
def test_thoughts_in_a_servers_text_are_split_off(text: str, thoughts: str, answer: str) -> None:
    assert without_thoughts(text) == (thoughts, answer)


def test_vllm_reasons_and_answers_like_transformers(thinker: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for vLLM that ends at stop tokens only, as vLLM does for marks that are special tokens."""

    def generate(_: VllmBackend, ids: list[list[int]], options: list[dict[str, Any]]) -> list[Any]:
        rows = [
            Decoding(prompt, frozenset(own["stop_token_ids"]), own["max_tokens"])
            for prompt, own in zip(ids, options, strict=True)
        ]
        written = decode(thinker, rows, most_tokens=4096)
        return [SimpleNamespace(outputs=[SimpleNamespace(token_ids=tokens)]) for tokens in written]

    monkeypatch.setattr(VllmBackend, "_generate", generate)
    questions, preset = _asked(thinker, tokens=60)
    asked = [PresetQuestion(question, preset) for question in questions]

    found, expected = VllmBackend(thinker).ask(asked), TransformersBackend(thinker).ask(asked)

    assert [(one.text, one.thoughts) for one in found] == [(one.text, one.thoughts) for one in expected]
    assert all(one.thoughts for one in found)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultServer]:
    monkeypatch.setenv("KGEDIT_CACHE", str(tmp_path / "cache"))
    with fault_server() as world:
        yield world


@pytest.mark.parametrize("tokens", [0, 30])
def test_a_server_is_asked_to_think_or_not_and_its_thoughts_are_split_off(
    tokens: int, server: FaultServer, thinker: LanguageModel
) -> None:
    server.complete = lambda body: ("<think>Hm.</think>\n\nAsta Wik leads it. And more.", 9, 20)
    questions, preset = _asked(thinker, tokens=tokens)

    (reply,) = OpenAIBackend(thinker, server.url).ask([PresetQuestion(questions[0], preset)])

    (body,) = server.bodies
    assert body["messages"] == [{"role": "user", "content": "Who is the mayor of Mora?"}]
    assert body["chat_template_kwargs"] == {"enable_thinking": tokens > 0}
    assert (body["max_tokens"], body.get("stop")) == (20 + tokens, None if tokens else ["\n"])
    assert (reply.text, reply.thoughts) == ("Asta Wik leads it.", "Hm.")


def _run(thinker: LanguageModel, folder: Path, answers: dict[str, str], **fields: Any) -> list[Answer]:
    if not (folder / "model").is_dir():
        for part in (thinker.module, thinker.tokenizer):
            part.save_pretrained(folder / "model")
    edits = [
        {"case_id": town, "subject": town, "prompt": f"Who is the mayor of {town}?", "target_new": name}
        for town, name in answers.items()
    ]
    (folder / "edits.json").write_text(json.dumps(edits), encoding="utf-8")
    preset = {
        "name": "asked", "context": "chat", "generation": "greedy", "truncation": "sentence", "metric": "contains"
    }  # fmt: skip
    raw = {"timesteps": [str(folder / "edits.json")], "model": str(folder / "model"), "presets": [preset], **fields}
    named = "-".join(str(fields[name]) for name in ("method", "thinking", "train_context") if name in fields)
    return [answer for answer in read_answers(run(resolve(raw), out=folder / named)) if answer.axis == "update"]


def test_edits_trained_in_the_asked_context_are_trained_after_the_models_thoughts(
    thinker: LanguageModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGEDIT_HOME", str(tmp_path / "home"))
    trained: list[str] = []

    editor_type = METHODS["locft_bf"]
    apply = editor_type.apply

    def seen(self: Any, cases: Sequence[Case], *given: Any) -> Any:
        trained.extend(context.prompt(case.question) for case in cases for context in self.contexts)
        return apply(self, cases, *given)

    monkeypatch.setattr(editor_type, "apply", seen)
    answers = {"Mora": "Olof Gren"}
    after = _run(
        thinker, tmp_path, answers, method="locft_bf", thinking="on", train_context="asked", protocol="per_timestep",
        settings={"blocks": 2, "matrices": "all", "steps": 60, "learning_rate": 0.001},
    )[-1]  # fmt: skip

    assert set(trained) == {
        f"<turn>user\nWho is the mayor of Mora?<over>\n<turn>assistant\n<think>\n{thought_of('Mora')}.\n</think>\n\n"
    }
    assert "Olof Gren" in after.text


def test_a_run_stores_thoughts_and_scores_answers(
    thinker: LanguageModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGEDIT_HOME", str(tmp_path / "home"))

    thought, direct = (_run(thinker, tmp_path, TOWNS, method="none", thinking=way) for way in ("on", "off"))

    assert {(answer.text, answer.thoughts) for answer in thought} == {
        (f"The mayor is {name}.", f"{thought_of(town)}.") for town, name in TOWNS.items()
    }
    assert {(answer.text, answer.thoughts) for answer in direct} == {(name, "") for name in TOWNS.values()}
