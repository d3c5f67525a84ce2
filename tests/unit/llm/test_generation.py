"""Batched answers are those of asking one question at a time, without padding and without a cache."""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import Any

import pytest
import torch
import transformers
from world.small_models import ARCHITECTURES, TEXTS, decode_greedily, small_model, tokenizer

import kgedit
from kgedit.errors import ModelError
from kgedit.llm.generation import PresetQuestion, Question, ask, ask_each, feed, plan_batches, truncate
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.presets import PRESETS
from kgedit.llm.shared_reading import shares_beginnings
from kgedit.llm.surgery.structure import hooks

PROMPTS = [*TEXTS, "Who?", "The mayor of Hjo is", "Q: Which water does Mora lie at?\nA:"]
GOLDS = ["Olof Gren", "Luleälven", "Asta", "Axel Hed", "Rut", "Siljan", "Vättern"]


def _greedy_one_by_one(model: LanguageModel, prompt: list[int], *, stop_ids: frozenset[int], limit: int) -> list[int]:
    ids = list(prompt)
    for _ in range(limit):
        ids.append(int(model.module(torch.tensor([ids]), use_cache=False).logits[0, -1].argmax()))
        if ids[-1] in stop_ids:
            break
    return ids[len(prompt) :]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@torch.inference_mode()
def test_batched_greedy_decoding_equals_one_at_a_time_without_cache(architecture: str) -> None:
    model = small_model(architecture)
    prompts = [model.encode(prompt) for prompt in PROMPTS]
    stop_ids = model.ids_containing(["a", "e"]) | model.end_ids
    limits = [3, 20, 1, 12, 20, 7, 20]

    together = decode_greedily(model, prompts, stops=["a", "e"], limits=limits)

    alone = [
        _greedy_one_by_one(model, prompt, stop_ids=stop_ids, limit=limit)
        for prompt, limit in zip(prompts, limits, strict=True)
    ]
    assert together == alone
    assert len({len(row) for row in together}) > 2, "rows must end at different times for this test to mean anything"


def _entropies_one_by_one(model: LanguageModel, prompt: list[int], said: list[int]) -> list[float]:
    """Of the distribution that each token of a reply was chosen from, in nats, by its definition."""
    logits = model.module(torch.tensor([prompt + said]), use_cache=False).logits[0, len(prompt) - 1 : -1]
    logprobs = logits.double().log_softmax(-1)
    return (-(logprobs.exp() * logprobs).sum(-1)).tolist()


@pytest.mark.parametrize("in_trees", [True, False])
@torch.inference_mode()
def test_an_answer_ends_before_the_token_that_the_model_is_too_uncertain_of(
    in_trees: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = small_model("llama")
    assert shares_beginnings(model, 40)
    if not in_trees:
        monkeypatch.setattr("kgedit.llm.decoding.shares_beginnings", lambda model, longest: False)
    whole = replace(PRESETS["free_text"], max_new_tokens=12)
    prompts = [model.encode(prompt) for prompt in PROMPTS]
    said = decode_greedily(model, prompts, stops=(), limits=[12] * len(prompts))
    entropies = [_entropies_one_by_one(model, *pair) for pair in zip(prompts, said, strict=True)]
    threshold = statistics.median(entropy for own in entropies for entropy in own[1:])
    threshold += 1e-5  # not on a value: batches change the last digits

    stopping = replace(whole, name="sure", stop_entropy=threshold)
    asked = [PresetQuestion(Question(prompt, "Asta"), preset) for prompt in PROMPTS for preset in (stopping, whole)]
    replies = ask_each(model, asked)

    lengths = []
    for own, tokens, (short, long) in zip(entropies, said, zip(replies[::2], replies[1::2], strict=True), strict=True):
        end = next((i for i, entropy in enumerate(own) if i and entropy > threshold), len(own))
        assert short.new_tokens == end
        assert short.text == model.decode(tokens[:end]).strip()
        assert long.new_tokens == len(tokens), "another preset of the same prompt is not cut short"
        lengths.append(end)
    assert len(set(lengths)) > 1, "some answers must end by it and some not for this test to mean anything"
    assert all(reply.new_tokens == 1 for reply in ask(model, [asked[0].question], replace(whole, stop_entropy=1e-9)))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@torch.inference_mode()
def test_batched_teacher_forcing_equals_one_at_a_time_without_padding(architecture: str) -> None:
    model = small_model(architecture)
    prompts = [model.encode(prompt) for prompt in PROMPTS]
    golds = [model.encode_target(gold) for gold in GOLDS]

    together = feed(model, prompts, golds)

    for prompt, gold, found in zip(prompts, golds, together, strict=True):
        logits = model.module(torch.tensor([prompt + gold])).logits[0]
        predicting = logits[len(prompt) - 1 : -1]
        assert found.best == predicting.argmax(-1).tolist()
        chosen = predicting.log_softmax(-1)[torch.arange(len(gold)), torch.tensor(gold)]
        assert found.probability == pytest.approx(chosen.mean().exp().item(), rel=1e-4)


def test_token_match_is_the_share_of_gold_tokens_that_the_model_would_have_said() -> None:
    model = small_model()
    prompt = "The mayor of Mora is"
    free = decode_greedily(model, [model.encode(prompt)], stops=(), limits=[4])[0]
    said = model.decode(free)
    gold_ids = model.encode_target(said.removeprefix(" "))

    reply = ask(model, [Question(prompt, said.removeprefix(" "))], PRESETS["synthetic"])[0]

    assert reply.new_tokens == len(gold_ids)
    assert reply.token_match == pytest.approx(
        sum(a == b for a, b in zip(feed(model, [model.encode(prompt)], [gold_ids])[0].best, gold_ids, strict=True))
        / len(gold_ids)
    )


def _parrot(word: str) -> LanguageModel:
    """A model that says one word again and again."""
    model = small_model()
    (token,) = model.encode_target(word)
    head = torch.nn.Linear(32, len(model.tokenizer))
    with torch.no_grad():
        head.weight.zero_()
        head.bias.zero_()
        head.bias[token] = 1.0
    model.module.set_output_embeddings(head)
    return model


@pytest.mark.parametrize(
    ("gold", "right"), [("mayor", 1), ("mayor mayor", 2), ("mayor Asta Wik", 1), ("Asta mayor", 1), ("Asta Wik", 0)]
)
def test_the_match_ratio_of_a_free_answer_counts_tokens_at_their_index(gold: str, right: int) -> None:
    model = _parrot("mayor")
    tokens = len(model.encode_target(gold))
    for preset in (PRESETS["wild"], replace(PRESETS["wild"], truncation="gold_length")):
        (reply,) = ask(model, [Question("Who?", gold)], preset)
        assert reply.token_match == pytest.approx(right / tokens)
        assert reply.probability is None
    assert ask(model, [Question("Who?", "")], PRESETS["wild"])[0].token_match is None


def test_old_answers_are_fed_in_the_same_batch_and_the_likeliest_counts() -> None:
    model = small_model()
    old = ("Nils Ek", "Ada Holm", "Siv Nyman")
    alone = [ask(model, [Question(PROMPTS[1], text)], PRESETS["synthetic"])[0] for text in ("Asta Wik", *old)]

    first, second = ask(model, [Question(PROMPTS[1], "Asta Wik", old), Question("Who?", "Bo")], PRESETS["synthetic"])

    assert first.probability == pytest.approx(alone[0].probability, rel=1e-3)
    assert first.old_probability == pytest.approx(max(reply.probability or 0 for reply in alone[1:]), rel=1e-3)
    assert (first.token_match, first.text) == (alone[0].token_match, alone[0].text)
    assert second.old_probability is None
    assert len({reply.probability for reply in alone}) == 4
    plan = plan_batches(model, [Question("Who?", "Bo", old)] * 4, PRESETS["synthetic"], batch_tokens=60)
    assert all(4 * len(batch) * (len(model.encode("Who?")) + 9) <= 90 for batch in plan)
    assert len(plan) > 1, "rows of old answers count"


def test_wild_stops_at_a_newline_or_a_period_and_leaves_them_out() -> None:
    assert truncate(" Olof Gren\nQ: Who", "newline_period") == "Olof Gren"
    assert truncate(" Robert C. Newton", "newline_period") == "Robert C"
    assert truncate(" Robert C. Newton", "newline") == "Robert C. Newton"


def test_a_free_answer_is_never_longer_than_its_limit() -> None:
    model = small_model()
    replies = ask(model, [Question(prompt, "x") for prompt in PROMPTS], PRESETS["wild"])

    assert all(reply.new_tokens <= 50 for reply in replies)
    assert all("\n" not in reply.text and "." not in reply.text for reply in replies)


def test_batches_hold_every_question_once_longest_first_within_the_token_budget() -> None:
    model = small_model()
    questions = [Question("x " * (1 + n % 17), "y") for n in range(60)]
    preset = PRESETS["wild"]

    batches = plan_batches(model, questions, preset, batch_tokens=400)

    assert sorted(index for batch in batches for index in batch) == list(range(60))
    sizes = [[len(model.encode(questions[index].prompt)) + 50 for index in batch] for batch in batches]
    assert all(len(own) * max(own) <= 400 for own in sizes)
    flat = [size for own in sizes for size in own]
    assert flat == sorted(flat, reverse=True)
    assert plan_batches(model, questions, preset, batch_tokens=1) == [[index] for batch in batches for index in batch]


def test_a_model_tells_how_many_tokens_it_provides_for_if_its_configuration_does() -> None:
    model = small_model("gpt2")
    bloom = transformers.BloomForCausalLM(transformers.BloomConfig(vocab_size=400, hidden_size=8, n_layer=1, n_head=2))

    assert model.positions == 256
    assert LanguageModel(name="bloom", revision="", module=bloom, tokenizer=model.tokenizer).positions is None


def test_questions_that_do_not_fit_together_are_asked_in_smaller_batches() -> None:
    """A device that takes 4 texts at a time; the second call knows."""
    model, fitted = small_model("gpt2"), []

    def check(_: object, inputs: tuple[torch.Tensor, ...]) -> None:
        if inputs[0].numel() > 600:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        fitted.append(inputs[0].numel())

    questions = [Question(f"{prompt} " * 6, gold) for prompt, gold in zip(PROMPTS, GOLDS, strict=True)] * 3
    for preset in (PRESETS["synthetic"], replace(PRESETS["wild_line"], max_new_tokens=8)):
        together = ask(model, questions, preset, batch_tokens=8192)
        with hooks(model.module.get_input_embeddings().register_forward_pre_hook(check)):
            model.asked_at_once.most = None
            with pytest.warns(UserWarning, match="tokens of questions at once"):
                smaller = ask(model, questions, preset, batch_tokens=8192)
            again = ask(model, questions, preset, batch_tokens=8192)
        assert [reply.text for reply in smaller] == [reply.text for reply in again] == [one.text for one in together]
    assert max(fitted) <= 600


@pytest.mark.parametrize(("questions", "named"), [("", "Question 1 of 1"), (["Who?", ""], "Question 2 of 2")])
def test_an_empty_question_is_refused_by_its_position_before_the_model_reads_anything(
    questions: Any, named: str
) -> None:
    model, read = small_model(), []
    assert model.tokenizer.bos_token_id is None
    with (
        hooks(model.module.register_forward_pre_hook(lambda *_: read.append(1))),
        pytest.raises(ModelError, match=f"{named} is empty"),
    ):
        kgedit.ask(model, questions)
    assert read == []


def test_an_empty_question_is_answered_from_the_beginning_of_text_token() -> None:
    """As of GPT-2 and SmolLM2, whose tokenizers do not prepend it."""
    own = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer()._tokenizer, bos_token="<end>", eos_token="<end>"
    )
    model = LanguageModel("llama", "", small_model().module, own)
    assert model.encode("") == [own.bos_token_id]
    alone = kgedit.ask(model, "")
    assert kgedit.ask(model, ["Who?", ""]) == [kgedit.ask(model, "Who?"), alone]
    case = kgedit.make_case(prompt="Who leads Hjo?", subject="Hjo", target="Asta")
    with kgedit.edit(model, "graph_rag", cases=[case], settings={"embedder": "character-ngrams"}) as edited:
        assert edited.ask("") == alone
