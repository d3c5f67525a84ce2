"""Causal tracing: effects of corruption and of restoring, and the location of a fact."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from world.small_models import small_model

from kgedit.cli import main
from kgedit.editing.locate_then_edit.tracing import (
    AverageEffects,
    TracedFact,
    TracingPlan,
    clean_states,
    effects_of,
    encode_fact,
    restore,
    trace,
)
from kgedit.errors import ModelError
from kgedit.llm.contexts import read_context
from kgedit.llm.language_model import LanguageModel
from kgedit.pages.marks import figure_svg
from kgedit.records.cases import Fact, KnownFact
from kgedit.verbs.trace import trace_model, tracing_figure

PROMPT, SUBJECT = "The mayor of Mora is called", "Mora"


def _fact(model: LanguageModel) -> TracedFact:
    """With the model's own likeliest answer."""
    found = encode_fact(model, PROMPT, SUBJECT, "Asta Wik")
    assert found is not None
    with torch.no_grad():
        answer = int(model.module(torch.tensor([found.ids])).logits[0, -1].argmax())
    return replace(found, answer=answer)


def _noise(model: LanguageModel, fact: TracedFact, *, samples: int = 3, scale: float = 1.0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    width = model.module.get_input_embeddings().weight.shape[1]
    return scale * torch.randn((samples, len(fact.subject), width), generator=generator)


@pytest.mark.parametrize("architecture", ["llama", "gpt2", "gptj", "opt", "gemma2"])
def test_restoring_everything_undoes_the_corruption_and_restoring_nothing_changes_nothing(architecture: str) -> None:
    model = small_model(architecture)
    fact = _fact(model)
    noise = _noise(model, fact)
    states = clean_states(model, fact, ("hidden",))
    every = range(fact.subject[0], len(fact.ids))
    effects = effects_of(model, fact, noise, TracingPlan(samples=3))
    all_states, nothing = restore(model, fact, noise, states, tokens=[tuple(every), ()])

    assert abs(effects.clean - effects.corrupted) > 1e-3
    assert all_states.item() == pytest.approx(effects.clean, rel=1e-4)
    assert nothing.item() == pytest.approx(effects.corrupted, rel=1e-4)
    assert effects.restored["hidden"].shape == (len(every), 3)
    # The last block's output at the last token is all that the answer is read from.
    assert effects.restored["hidden"][-1, -1].item() == pytest.approx(effects.clean, rel=1e-4)
    # After it nothing reads the subject's tokens.
    assert effects.restored["hidden"][0, -1].item() == pytest.approx(effects.corrupted, rel=1e-4)


def test_the_corrupted_probability_is_the_models_own_on_noisy_embeddings() -> None:
    model = small_model()
    fact = _fact(model)
    noise = _noise(model, fact, samples=2)
    embedded = model.module.get_input_embeddings()(torch.tensor([fact.ids, fact.ids])).clone()
    embedded[:, fact.subject[0] : fact.subject[-1] + 1] += noise
    with torch.no_grad():
        expected = model.module(inputs_embeds=embedded).logits[:, -1].softmax(-1)[:, fact.answer].mean()

    assert effects_of(model, fact, noise, TracingPlan(samples=2)).corrupted == pytest.approx(expected.item(), rel=1e-4)


@pytest.mark.parametrize("planted", [0, 1])
def test_a_fact_planted_in_one_mlp_is_found_there(planted: int) -> None:
    """Only one MLP writes anything, and the last block attends to it; each outweighs what is below."""
    model = small_model()
    for index, block in enumerate(model.blocks):
        assert block.attention_output is not None
        block.attention_output.layer.weight.data.mul_(2000.0 if index == 2 else 0.0)
        block.down.layer.weight.data.mul_(100.0 if index == planted else 0.0)
    found = encode_fact(model, PROMPT, SUBJECT, "Asta Wik")
    assert found is not None
    last = found.subject[-1]
    fact = _of_the_subject(model, replace(found, subject=range(last, last + 1)))
    effects = trace(model, [fact], TracingPlan(window=1, samples=4), advance=lambda *_: None)

    assert effects.rome_layer == planted
    at_subject = effects.indirect["mlp", "last subject"]
    assert at_subject[planted] == pytest.approx(effects.total, rel=0.05)
    assert all(abs(own) < 1e-5 for layer, own in enumerate(at_subject) if layer != planted)
    hidden = effects.indirect["hidden", "last subject"]
    assert hidden[1] == pytest.approx(effects.total, rel=1e-3), "between the MLP and the attention that reads it"
    assert effects.indirect["attention", "last"][2] == pytest.approx(effects.total, rel=0.05)


def _of_the_subject(model: LanguageModel, fact: TracedFact) -> TracedFact:
    """With the answer whose probability another subject lowers most."""
    other = [*fact.ids]
    other[fact.subject[0]] = 5
    with torch.no_grad():
        own, without = model.module(torch.tensor([fact.ids, other])).logits[:, -1].softmax(-1)
    return replace(fact, answer=int((own - without).argmax()))


def test_tokens_are_named_by_where_they_are() -> None:
    fact = TracedFact((5, 6, 7, 8, 9, 10, 11, 12), range(1, 4), 0)
    assert [fact.position(index) for index in range(1, 8)] == [
        *("first subject", "middle subject", "last subject", "next", "further", "further", "last")
    ]
    assert replace(fact, subject=range(6, 7)).position(6) == "last subject"
    model = small_model()
    assert encode_fact(model, "Mora or Mora?", "Mora", "x") is None
    own = encode_fact(model, PROMPT, SUBJECT, "x")
    assert own is not None
    assert model.decode(own.ids[own.subject[0] : own.subject[-1] + 1]).strip() == SUBJECT


def test_the_layers_to_edit_end_at_the_largest_effect_of_an_mlp_at_the_subject() -> None:
    effects = AverageEffects(1, 1.0, {("mlp", "last subject"): (0.1, 0.1, 0.2, 0.1, 0.1, 0.1, 0.9, 0.3)})
    assert (effects.rome_layer, effects.memit_layers) == (6, (2, 3, 4, 5, 6))
    assert AverageEffects(1, 1.0, {("hidden", "last"): (0.1,)}).memit_layers is None
    # GPT-2 XL: ten of 48, as published.
    assert TracingPlan().window_of(48) == 10
    assert TracingPlan().window_of(2) == 1


class _Edits:
    """Known facts in memory."""

    name, sha256, unused_fields = "facts", "", ()

    def __init__(self, known: list[KnownFact]) -> None:
        self._known = known

    def known_facts(self) -> list[KnownFact]:
        return self._known


def _known(model: LanguageModel) -> list[KnownFact]:
    """A fact that the model answers right, since the answer is its own, and one that it does not."""
    found = []
    for town in ("Mora", "Falun", "Hjo", "Arvika", "Luleå"):
        prompt = f"The mayor of {town} is called"
        with torch.no_grad():
            own = int(model.module(torch.tensor([model.encode(prompt)])).logits[0, -1].argmax())
        answer = model.decode([own]).strip()
        if answer and model.encode_target(answer, after=prompt) == [own]:
            fact = Fact(f"Q{len(found)}", town, "P6", "mayor", "Q9", answer)
            found.append(KnownFact(fact, prompt + "?", "", prompt, answer))
    wrong = Fact("Q8", "Mora", "P6", "mayor", "Q9", "Asta Wik")
    return [KnownFact(wrong, PROMPT + "?", "", PROMPT, "Asta Wik"), *found]


def _answering_model() -> tuple[LanguageModel, list[KnownFact]]:
    for seed in range(30):
        model = small_model(seed=seed)
        known = _known(model)
        if len(known) > 1:
            return model, known
    raise AssertionError("no random model answers with a word")


def test_facts_that_the_model_knows_are_traced_and_shown(tmp_path: Path) -> None:
    model, known = _answering_model()
    found = trace_model(model, _Edits(known), samples=2)  # type: ignore[arg-type]

    assert found.asked == len(known)
    assert found.facts == len(known) - 1
    rows = {(row["state"], row["position"], row["layer"]): row for row in found.effects.to_pylist()}
    assert rows["hidden", "last", 2]["share"] == pytest.approx(1, rel=1e-4)
    assert rows["hidden", "last subject", 2]["effect"] == pytest.approx(0, abs=1e-6)
    assert f"rome: --set layer={found.rome_layer}\n" in found.text()
    assert json.loads(json.dumps(found.document()))["memit_layers"] == list(found.memit_layers or ())
    svg = figure_svg(tracing_figure(found, model="small"))
    assert svg.count("last subject") >= 3
    again = trace_model(model, _Edits(known), samples=2)  # type: ignore[arg-type]
    assert again.effects == found.effects
    with pytest.raises(
        ModelError, match=r"answers none of the 1 facts .*: ask question context question_only, or ask "
    ):
        trace_model(model, _Edits(known[:1]))  # type: ignore[arg-type]
    with pytest.raises(ModelError, match=r"wording: ask cloze context question_only, or ask cloze"):
        trace_model(model, _Edits(known[:1]), ask="question")  # type: ignore[arg-type]


def test_noise_that_takes_nothing_is_refused() -> None:
    model, known = _answering_model()
    with pytest.raises(ModelError, match=r"takes nothing from the answers' probability\. Give a larger noise"):
        trace_model(model, _Edits(known), samples=1, noise=1e-12)  # type: ignore[arg-type]


def test_the_command_wants_one_source_of_facts() -> None:
    result = CliRunner().invoke(main, ["trace", "tiny"])
    assert result.exit_code != 0
    assert "give either --timestep TIMESTEP or --edits FILE" in result.output


def test_the_subject_is_found_behind_a_context_that_names_it_too() -> None:
    model, context = small_model(), read_context("question_answer")
    named = replace(context, template=context.template.replace("{question}", "Mora? {question}"))
    fact = encode_fact(model, PROMPT, SUBJECT, "x", context=named)
    assert fact is not None
    text = model.decode(fact.ids)
    assert text.count(SUBJECT) == 2
    assert model.decode(fact.ids[: fact.subject[-1] + 1]).endswith("The mayor of Mora")
