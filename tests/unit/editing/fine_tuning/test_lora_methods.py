"""lora and lora_merge: adapters trained, kept on and merged."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from peft import get_peft_model_state_dict
from world.small_models import changed, mean_loss, small_model, weights

from kgedit.editing import make_editor
from kgedit.editing.editor import NO_RUN, Editor, EditorState
from kgedit.editing.fine_tuning import lora
from kgedit.editing.fine_tuning.lora import attach, detach, rate, train
from kgedit.editing.training import seed_for
from kgedit.llm.contexts import read_context
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.training import TargetBatch, encode_targets, seeded
from kgedit.records.cases import Case

ASKED = (read_context("question_only"),)


def _editor(name: str, model: LanguageModel, **given: object) -> Editor[Any]:
    return make_editor(name, model, given, contexts=ASKED, seed=7)


@pytest.mark.slow
def test_lora_starts_as_the_model_itself_and_lowers_the_loss(cases: list[Case]) -> None:
    model = small_model()
    loss = mean_loss(model, cases)
    editor = _editor("lora", model, epochs=40, learning_rate=1e-2)
    editor.apply(cases)

    assert mean_loss(model, cases) < 0.8 * loss
    assert {name.split(".")[-2] for name in editor.state().tensors} == {"lora_A", "lora_B"}


def test_lora_trains_one_adapter_on_across_calls(cases: list[Case]) -> None:
    model = small_model()
    editor = _editor("lora", model, epochs=1)
    editor.apply(cases[:5])
    first = editor.state().tensors
    editor.apply(cases[5:])

    assert editor.state().tensors.keys() == first.keys()
    assert any(not torch.equal(editor.state().tensors[name], first[name]) for name in first)


def test_a_maximum_norm_of_gradients_limits_each_step(cases: list[Case]) -> None:
    def farthest(max_grad_norm: float | None) -> float:
        editor = _editor("lora", small_model(), epochs=1, max_grad_norm=max_grad_norm)
        editor.apply(cases[:2])
        state = editor.state().tensors
        return max(float(own.abs().max()) for name, own in state.items() if "lora_B" in name)  # from 0

    assert farthest(1e-12) < 0.01 * farthest(None)  # Adam takes shorter steps where gradients are below its epsilon


@pytest.mark.parametrize("shuffle", [True, False])
def test_examples_come_in_their_own_order_only_where_asked_to(
    shuffle: bool, cases: list[Case], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def noted(model: LanguageModel, pairs: list[tuple[str, str]], *, learn_end: bool) -> TargetBatch:
        seen.extend(prompt for prompt, _ in pairs)
        return encode_targets(model, pairs, learn_end=learn_end)

    monkeypatch.setattr(lora, "encode_targets", noted)
    _editor("lora", small_model(), epochs=2, batch=2, shuffle=shuffle).apply(cases[:6])

    questions = [case.question for case in cases[:6]]
    assert sorted(seen) == sorted(questions * 2)
    assert (seen == questions * 2) is not shuffle


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
        train(adapted, other.settings, attach(adapted, other.settings), pairs, seed=seed, run=NO_RUN)

    ids = torch.tensor([merged.encode(cases[0].question)])
    with torch.no_grad():
        found, expected = merged.module(ids).logits, adapted.module(ids).logits
        unedited = small_model().module(ids).logits
    assert torch.allclose(found, expected, atol=1e-4)
    assert not torch.allclose(found, unedited, atol=1e-2)


def test_lora_merge_into_the_adapter_interpolates_its_factors_with_those_of_the_preceding_call(
    cases: list[Case],
) -> None:
    """Section 4.4: the same two calls with peft alone, from one adapter trained on, give the same logits."""
    merged, adapted = small_model(), small_model()
    editor = _editor("lora_merge", merged, epochs=3, share=0.25, into="adapter")
    other = _editor("lora", adapted, epochs=3)
    preceding: dict[str, torch.Tensor] = {}
    for batch in (cases[:3], cases[3:6]):
        editor.apply(batch)
        preceding = preceding or _factors_before_training(other)
        other.load_state(EditorState(preceding))
        other.apply(batch)
        now = other.state().tensors
        preceding = {name: 0.75 * preceding[name] + 0.25 * own for name, own in now.items()}
    other.load_state(EditorState(preceding))

    ids = torch.tensor([merged.encode(cases[0].question)])
    with torch.no_grad():
        found, expected = merged.module(ids).logits, adapted.module(ids).logits
        unedited = small_model().module(ids).logits
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
    assert not torch.allclose(found, unedited, atol=1e-3)
    weight = merged.blocks[1].module.self_attn.q_proj.weight
    change = weight - small_model().blocks[1].module.self_attn.q_proj.weight
    assert torch.linalg.matrix_rank(change, tol=1e-5) <= editor.settings.rank


def _factors_before_training(editor: Editor[Any]) -> dict[str, torch.Tensor]:
    """The factors of an adapter before training."""
    with seeded(7, editor.model.device):
        adapted = attach(editor.model, editor.settings)
    tensors = get_peft_model_state_dict(adapted, save_embedding_layers=False)
    start = {name: tensor.detach().clone() for name, tensor in tensors.items()}
    detach(adapted)
    return start


@pytest.mark.parametrize("into", ["weights", "adapter"])
def test_lora_merge_goes_on_from_a_saved_state(into: str, cases: list[Case]) -> None:
    unbroken, resumed = (_editor("lora_merge", small_model(), epochs=2, into=into) for _ in range(2))
    unbroken.apply(cases[:3])
    state = unbroken.state()
    unbroken.apply(cases[3:6])
    resumed.load_state(state)
    resumed.apply(cases[3:6])

    assert changed(weights(unbroken.model), resumed.model) == []


def _interrupt(*args: Any, **kwargs: Any) -> None:
    raise KeyboardInterrupt


def test_an_interrupted_training_leaves_dropout_and_recomputation_off(
    cases: list[Case], monkeypatch: pytest.MonkeyPatch
) -> None:
    editor = _editor("lora", small_model(), epochs=1, dropout=0.5, recompute=True)
    monkeypatch.setattr(torch.autograd, "backward", _interrupt)
    with pytest.raises(KeyboardInterrupt):
        editor.apply(cases[:2])

    modules = list(editor.model.module.modules())
    assert not any(module.training or getattr(module, "gradient_checkpointing", False) for module in modules)


@pytest.mark.parametrize("into", ["weights", "adapter"])
def test_an_interrupted_lora_merge_leaves_no_adapter_and_the_weights_of_the_calls_before(
    into: str, cases: list[Case], monkeypatch: pytest.MonkeyPatch
) -> None:
    editor = _editor("lora_merge", small_model(), epochs=1, into=into)
    for batch in (cases[:2], cases[2:4]):
        before = weights(editor.model)
        with monkeypatch.context() as patched:
            patched.setattr(torch.autograd, "backward", _interrupt)
            with pytest.raises(KeyboardInterrupt):
                editor.apply(batch)
        assert changed(before, editor.model) == []
        editor.apply(batch)
    editor.restore()

    assert changed(weights(small_model()), editor.model) == []


def test_the_learning_rate_rises_then_falls_and_no_step_is_wasted_at_zero() -> None:
    rates = [rate(step, 40, warmup=0.1) for step in range(40)]

    assert min(rates) > 0
    assert max(rates) == rates[4] == 1
    assert rates[:5] == sorted(rates[:5])
    assert rates[4:] == sorted(rates[4:], reverse=True)
    assert rate(0, 1, warmup=0.1) > 0
    # Half a cosine over the 36 steps after the rise: a quarter of the way, the middle, three quarters.
    assert [rates[step] for step in (13, 22, 31)] == pytest.approx([0.853553, 0.5, 0.146447], abs=1e-6)
