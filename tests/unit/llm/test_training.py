"""Training on targets: the loss, and steps that are split or scaled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from world.small_models import mean_loss, small_model
from world.small_timestep import write_timestep

from kgedit.editing import make_editor
from kgedit.editing.training import resume_training, training_state
from kgedit.llm.contexts import read_context
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.surgery.structure import hooks
from kgedit.llm.training import (
    backward,
    encode_targets,
    gradients,
    loss_scaler,
    prompt_last_loss,
    take_step,
    target_loss,
)
from kgedit.records.cases import Case

LOSSES = (target_loss, prompt_last_loss)


def test_target_loss_is_that_of_each_line_alone(cases: list[Case]) -> None:
    model = small_model()
    targets = encode_targets(model, [(case.question, case.answer) for case in cases], learn_end=False)
    loss = target_loss(model.forward(targets.ids, targets.mask, last=targets.last).logits, targets)

    assert loss.item() == pytest.approx(mean_loss(model, cases), rel=1e-5)


def test_the_last_tokens_of_targets_can_be_left_out(cases: list[Case]) -> None:
    model = small_model()
    pairs = [(case.question, case.answer) for case in cases]
    whole = encode_targets(model, pairs, learn_end=False)
    short = whole.without_last()
    found, expected = (
        [function(model.forward(own.ids, own.mask, last=own.last).logits, own) for function in LOSSES]
        for own in (short, whole)
    )

    assert short.ids.shape[1] == whole.ids.shape[1] - 1
    assert torch.equal(short.ends, whole.ends)
    assert torch.equal(short.rows(1, 2).ends, whole.ends[1:2])
    assert torch.equal(short.predicting, whole.predicting[:, :-1])
    assert torch.allclose(torch.stack(found), torch.stack(expected), rtol=1e-5)


ASKED = (read_context("question_only"),)


@contextmanager
def _room_for(model: LanguageModel, rows: int) -> Iterator[list[int]]:
    """A device whose memory is too small for more rows; yields the number of rows of each pass that fitted."""
    fitted: list[int] = []

    def check(_: Any, inputs: tuple[torch.Tensor, ...]) -> None:
        if len(inputs[0]) > rows:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        fitted.append(len(inputs[0]))

    with hooks(model.module.get_input_embeddings().register_forward_pre_hook(check)):
        yield fitted


@pytest.mark.parametrize(
    ("method", "settings", "room"),
    [
        ("ft_m", {"layer": 1, "steps": 5}, 6),
        ("locft_bf", {"layer": 1, "steps": 5, "batch": 8, "least_steps": 0}, 6),
        ("lora", {"epochs": 3, "dropout": 0.0}, 6),
        ("ultraedit", {"batch": 8}, 6),
        ("memit", {"layers": "1", "steps": 3, "prompts": 2, "search_batch": 8}, 16),  # 24 rows search, 16 are read
    ],
)
@pytest.mark.filterwarnings("ignore:The GPU's memory was too small")
def test_a_step_that_does_not_fit_is_taken_in_parts_with_the_same_result(
    method: str,
    settings: dict[str, object],
    room: int,
    cases: list[Case],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("KGEDIT_HOME", str(tmp_path))
    states = []
    for rows in (10_000, room):
        model = small_model()
        model.module.double()
        editor = make_editor(method, model, settings, contexts=ASKED, seed=7)
        if editor.capabilities.needs_known_facts:
            known = write_timestep(tmp_path / "timestep").known_facts()
            editor.prepare(known, advance=lambda *_: None)
        with _room_for(model, rows) as fitted:
            editor.apply(cases[:8])
        assert max(fitted) <= rows
        states.append(editor.state().tensors)
    whole, parts = states
    assert whole.keys() == parts.keys()
    for name, tensor in whole.items():
        torch.testing.assert_close(parts[name], tensor, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("trained", "room"), [(True, 2), (False, 6)])
@pytest.mark.filterwarnings("ignore:The GPU's memory was too small")
def test_mend_learns_and_edits_in_parts_with_the_same_result(
    trained: bool, room: int, cases: list[Case], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A step of the training asks three questions, an edit as many as there are cases."""
    known, found = write_timestep(tmp_path / "timestep").known_facts(), []
    for rows in (10_000, room):
        own_home = tmp_path / (f"home of {rows}" if trained else "home of both")
        monkeypatch.setenv("KGEDIT_HOME", str(own_home))
        model = small_model()
        model.module.double()
        given = {"blocks": 2, "rank": 8, "train_steps": 1, "edit_rate": 1e-2}
        editor = make_editor("mend", model, given, contexts=ASKED, seed=7)
        with _room_for(model, rows) as fitted:
            editor.prepare(known, advance=lambda *_: None)
            editor.apply(cases[:8])
        assert max(fitted) <= rows
        (kept,) = (own_home / "networks").iterdir()
        found.append(load_file(kept) if trained else editor.state().tensors)
    whole, parts = found
    # Gradients of shifts add up to 0 except for rounding, since vectors are centred.
    for name in [name for name in whole if "shift" not in name and "bias" not in name]:
        torch.testing.assert_close(parts[name], whole[name], rtol=1e-3, atol=1e-5)


@pytest.mark.filterwarnings("ignore:The GPU's memory was too small")
def test_grace_learns_fewer_values_at_once_where_a_batch_does_not_fit(cases: list[Case]) -> None:
    """Out of memory at the second step of training, when the batch's keys are in the codebook already."""
    tables = []
    for room in (10_000, 3):
        model = small_model()
        editor = make_editor("grace", model, {"layer": 1, "steps": 3, "radius": 1e-3}, contexts=ASKED, seed=7)
        passes = []

        def check(_: Any, inputs: tuple[torch.Tensor, ...], room: int = room, passes: list[int] = passes) -> None:
            passes.append(len(inputs[0]))
            if len(inputs[0]) > room and len(passes) > 2:
                raise torch.OutOfMemoryError("CUDA out of memory.")

        with hooks(model.module.get_output_embeddings().register_forward_pre_hook(check)):
            editor.apply(cases[:8])
        assert len(editor.codebook) == 8  # type: ignore[attr-defined]
        assert passes[-1] == min(room - 1, 8)
        tables.append(editor.state().tables["codebook"])
    whole, parts = tables
    assert whole.labels == parts.labels
    for name in ("keys", "values", "radii"):
        torch.testing.assert_close(parts.columns[name], whole.columns[name], rtol=1e-3, atol=1e-3)


def test_a_row_that_does_not_fit_alone_is_an_error(cases: list[Case]) -> None:
    model = small_model()
    editor = make_editor("ft_m", model, {"layer": 1}, contexts=ASKED, seed=7)
    with (
        _room_for(model, 0),
        pytest.warns(UserWarning, match="at most 1 rows of a training step"),
        pytest.raises(torch.OutOfMemoryError),
    ):
        editor.apply(cases[:2])


def test_blocks_that_are_computed_again_give_the_same_adapter(cases: list[Case]) -> None:
    states = []
    for recompute in (False, True):
        editor = make_editor("lora", small_model(), {"epochs": 2, "recompute": recompute}, contexts=ASKED, seed=7)
        editor.apply(cases[:4])
        states.append(editor.state().tensors)
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def _half() -> tuple[LanguageModel, torch.nn.Parameter]:
    model = small_model()
    model.module.half()
    return model, torch.nn.Parameter(torch.ones(2))


def _faint(weight: torch.nn.Parameter) -> torch.Tensor:
    """A loss whose gradient passes through a number that float16 rounds to 0."""
    return ((weight.half() * 1e-4) * 1e-4).float().sum()


def test_gradients_that_float16_would_round_to_nothing_arrive() -> None:
    model, weight = _half()
    _faint(weight).backward()  # type: ignore[no-untyped-call]
    assert weight.grad is not None
    assert not weight.grad.any(), "the test needs a loss whose gradient is lost without scaling"

    (found,) = gradients(model, _faint(weight), [weight])
    torch.testing.assert_close(found, torch.full((2,), 1e-8), rtol=0.05, atol=0)

    optimizer, scaler = torch.optim.SGD([weight], lr=1e6), loss_scaler(model)
    backward(model, [0], lambda _: _faint(weight), optimizer=optimizer, scaler=scaler)
    take_step(optimizer, scaler)
    torch.testing.assert_close(weight.detach(), torch.full((2,), 0.99), rtol=1e-3, atol=0)


@pytest.mark.parametrize("half", [False, True])
def test_only_gradients_above_a_maximum_norm_are_scaled_down(half: bool) -> None:
    model, weight = _half() if half else (small_model(), torch.nn.Parameter(torch.ones(2)))
    for gradient, taken in (((3.0, 4.0), (0.6, 0.8)), ((0.3, 0.4), (0.3, 0.4))):
        before = weight.detach().clone()
        optimizer, scaler = torch.optim.SGD([weight], lr=1.0), loss_scaler(model)
        factors = torch.tensor(gradient)
        backward(model, [0], lambda _, by=factors: (weight * by).sum(), optimizer=optimizer, scaler=scaler)
        take_step(optimizer, scaler, max_norm=1.0)
        torch.testing.assert_close(before - weight.detach(), torch.tensor(taken), rtol=1e-4, atol=1e-6)


class _Faint(torch.autograd.Function):
    """Passes values through, and gradients with the precision that float16 keeps when they are scaled down."""

    @staticmethod
    def forward(_: Any, numbers: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return numbers.clone()

    @staticmethod
    def backward(_: Any, gradient: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return (gradient.float() * 2.0**-22).to(gradient.dtype).float().mul(2.0**22).to(gradient.dtype)


_LEARNED: dict[str, tuple[dict[str, object], Callable[[Any], torch.Tensor]]] = {
    "grace": ({"layer": 1, "steps": 3, "learning_rate": 0.1}, lambda editor: editor.codebook.values),
    "wise": (
        {"layer": 1, "steps": 1, "prefixes": 0, "decay": 0, "alpha": 1e9, "beta": 0, "gamma": 0},
        lambda editor: editor.router.copies[0].change,
    ),
    "mend": ({"blocks": 2, "rank": 8, "train_steps": 1}, lambda editor: editor._network.networks[0].up[1]),
}


@pytest.mark.parametrize("method", _LEARNED)
def test_what_a_method_learns_in_float16_is_what_it_learns_in_float32(
    method: str, cases: list[Case], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KGEDIT_HOME", str(tmp_path))
    given, learned = _LEARNED[method]
    found = []
    for half in (False, True):
        model = small_model()
        if half:
            model.module.half()
        editor = make_editor(method, model, given, contexts=ASKED, seed=7)
        before = 0.0 if method != "grace" else editor._cold_starts(cases[:1])  # type: ignore[attr-defined]
        with hooks(model.blocks[1].module.mlp.register_forward_hook(lambda _, __, output: _Faint.apply(output))):
            if editor.capabilities.needs_known_facts:
                editor.prepare(write_timestep(tmp_path / "timestep").known_facts(), advance=lambda *_: None)
            editor.apply(cases[:1])
        found.append((learned(editor) - before).flatten().double())
    whole, narrow = found

    assert whole.any()
    assert torch.nn.functional.cosine_similarity(whole, narrow, dim=0) > 0.95


def test_a_scale_at_which_gradients_overflow_is_lowered_and_kept_by_a_checkpoint() -> None:
    model, weight = _half()
    optimizer, scaler = torch.optim.Adam([weight]), loss_scaler(model)
    backward(model, [0], lambda _: (weight.half() * 100).float().sum(), optimizer=optimizer, scaler=scaler)
    take_step(optimizer, scaler)
    assert weight.detach().tolist() == [1.0, 1.0]
    assert scaler.get_scale() < 4096

    (found,) = gradients(model, (weight.half() * 100).float().sum(), [weight])
    assert found.tolist() == [100.0, 100.0]

    backward(model, [0], lambda _: (weight.half()).float().sum(), optimizer=optimizer, scaler=scaler)
    take_step(optimizer, scaler)
    again = loss_scaler(model)
    resume_training(optimizer, training_state(optimizer, epochs=1, scaler=scaler), scaler=again)
    assert again.state_dict() == scaler.state_dict()


def test_losses_of_other_formats_are_not_scaled() -> None:
    assert not loss_scaler(small_model()).is_enabled()
