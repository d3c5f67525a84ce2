"""crispedit: Kronecker factors, the projection made of them, and training within it, against dense computations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from world.small_models import changed, small_model, weights
from world.small_timestep import write_timestep

from kgedit.editing import make_editor
from kgedit.editing.corpora import TextBudget
from kgedit.editing.editor import Editor
from kgedit.editing.fine_tuning.crispedit import Curvature, Projection, curvatures, text_batches
from kgedit.errors import SpecError
from kgedit.llm.contexts import read_context
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.training import TargetBatch, encode_targets, target_loss
from kgedit.progress import ignore
from kgedit.records.cases import Case
from kgedit.timesteps.timestep import Timestep

ASKED = (read_context("question_only"),)
QUICK = {"tokens": 300, "length": 24, "least_steps": 0}


@pytest.fixture(scope="module")
def timestep(tmp_path_factory: pytest.TempPathFactory) -> Timestep:
    return write_timestep(tmp_path_factory.mktemp("timestep"), towns=range(4))


@pytest.fixture(scope="module")
def cases(timestep: Timestep) -> list[Case]:
    return list(timestep.cases())


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGEDIT_HOME", str(tmp_path))


def _editor(model: LanguageModel, timestep: Timestep, **given: object) -> Editor[Any]:
    editor = make_editor("crispedit", model, {**QUICK, **given}, contexts=ASKED, seed=7)
    editor.prepare(timestep.known_facts(), advance=ignore)
    return editor


def _random_curvature(inputs: int, outputs: int) -> Curvature:
    draw = torch.Generator().manual_seed(3)
    rows_in, rows_out = (torch.randn(9, width, generator=draw, dtype=torch.float64) for width in (inputs, outputs))
    return Curvature(rows_in.T @ rows_in / 9, rows_out.T @ rows_out / 9, 9)


@pytest.mark.parametrize("architecture", ["llama", "gpt2"])
def test_factors_are_second_moments_of_inputs_and_of_gradients_of_the_summed_loss(architecture: str) -> None:
    model = small_model(architecture)
    rows = [model.encode("The mayor of Mora is Asta Wik."), model.encode("Where was he born?")]
    matrix = model.blocks[1].down_projection
    read: list[torch.Tensor] = []
    written: list[torch.Tensor] = []

    def look(_: Any, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        output.retain_grad()
        read.append(inputs[0].detach()[0, :-1].double())
        written.append(output)

    handle = matrix.register_forward_hook(look)
    matrix.weight.requires_grad_(True)
    for row in rows:
        logits = model.module(torch.tensor([row])).logits[0, :-1]
        loss = torch.nn.functional.cross_entropy(logits, torch.tensor(row[1:]), reduction="sum")
        loss.backward()  # type: ignore[no-untyped-call]
    handle.remove()
    slopes = torch.cat([output.grad.reshape(-1, output.shape[-1])[:-1].double() for output in written])  # type: ignore[union-attr]
    inputs = torch.cat([own.reshape(-1, own.shape[-1]) for own in read])

    plain = small_model(architecture)
    ids, mask = plain.pad_left(rows)
    labels = ids[:, 1:].masked_fill((mask[:, 1:] & mask[:, :-1]) == 0, -100)
    found = curvatures(plain, [1], [TargetBatch(ids, mask, labels)])[1]

    assert found.tokens == len(inputs) == sum(map(len, rows)) - 2
    torch.testing.assert_close(found.inputs, inputs.T @ inputs / len(inputs), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found.outputs, slopes.T @ slopes / len(slopes), rtol=1e-4, atol=1e-5)


def test_factors_of_two_halves_merge_into_those_of_the_whole(cases: list[Case]) -> None:
    model = small_model()
    one, two = (
        encode_targets(model, [(case.question, case.answer) for case in own], learn_end=True)
        for own in (cases[:3], cases[3:4])
    )
    whole = curvatures(model, [1], [one, two])[1]
    merged = curvatures(model, [1], [one])[1].merged(curvatures(model, [1], [two])[1])

    assert merged.tokens == whole.tokens
    torch.testing.assert_close(merged.inputs, whole.inputs, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(merged.outputs, whole.outputs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("share", [0.5, 0.9, 0.99])
def test_the_projection_is_that_of_the_dense_gauss_newton_matrix(share: float) -> None:
    curvature = _random_curvature(5, 4)
    gradient = torch.randn(4, 5, generator=torch.Generator().manual_seed(5), dtype=torch.float64)

    values, vectors = torch.linalg.eigh(torch.kron(curvature.outputs, curvature.inputs))
    values, vectors = values.flip(0), vectors.flip(1)
    taken = next(count for count in range(1, 21) if values[:count].sum() >= share * values.sum())
    closed = vectors[:, :taken]
    expected = (gradient.flatten() - closed @ (closed.T @ gradient.flatten())).reshape(4, 5)

    projection = Projection(curvature, share=share, dtype=torch.float64)
    found = projection(gradient)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(projection(found), found)
    assert projection.threshold == pytest.approx(float(values[taken - 1]))
    assert (
        torch.trace(found.T @ curvature.outputs @ found @ curvature.inputs) <= projection.threshold * found.norm() ** 2
    )


@pytest.mark.parametrize(("layers", "blocks"), [("1", 1), ("0-1", 2), ("0-1", 9)])
def test_without_projection_it_is_locft_bf_to_the_bit(
    timestep: Timestep, cases: list[Case], layers: str, blocks: int
) -> None:
    one, other = small_model(), small_model()
    applied = _editor(
        one, timestep, layers=layers, project="none", batch=2, steps=3, learning_rate=1e-2, least_steps=6
    ).apply(cases)
    settings = {"layer": 1, "blocks": blocks, "batch": 2, "steps": 3, "learning_rate": 1e-2, "least_steps": 6}
    assert make_editor("locft_bf", other, settings, contexts=ASKED, seed=7).apply(cases) == applied
    assert changed(weights(one), other) == []


@pytest.mark.parametrize(
    ("method", "least_steps", "count", "epochs", "batch"),
    [
        ("crispedit", 100, 1, 100, 1),
        ("crispedit", 100, 20, 25, 5),
        ("crispedit", 100, 21, 25, 5),
        ("crispedit", 100, 3000, 25, 32),
        ("crispedit", 0, 20, 25, 32),
        ("crispedit", 0, 1, 25, 32),
        ("locft_bf", 100, 100, 25, 25),
        ("locft_bf", 100, 400, 25, 100),
    ],
)
def test_few_edits_are_cut_into_smaller_batches_then_come_by_more_often(
    method: str, least_steps: int, count: int, epochs: int, batch: int
) -> None:
    editor: Any = make_editor(method, small_model(), {"least_steps": least_steps}, contexts=ASKED)
    assert editor.epochs_and_batch(count) == (epochs, batch)


def test_each_step_of_adam_takes_the_projected_gradients(timestep: Timestep, cases: list[Case]) -> None:
    model, plain = small_model(), small_model()
    editor = _editor(model, timestep, layers="0-1", steps=3, learning_rate=1e-2, stop_loss=0, share=0.9)
    editor.apply(cases[:2])

    trained = [plain.blocks[layer].down_projection.weight.requires_grad_(True) for layer in (0, 1)]
    optimizer = torch.optim.Adam(trained, lr=1e-2)
    pairs = [(case.question, case.answer) for case in cases[:2]]
    for _ in range(3):
        targets = encode_targets(plain, pairs, learn_end=True).without_last()
        optimizer.zero_grad()
        loss = target_loss(plain.forward(targets.ids, targets.mask, last=targets.last).logits, targets)
        loss.backward()  # type: ignore[no-untyped-call]
        for layer, weight in enumerate(trained):
            projection = editor.projection(layer)  # type: ignore[attr-defined]
            assert 0 < projection.closed < weight.numel()
            weight.grad = projection(weight.grad)
        optimizer.step()
    for layer, weight in enumerate(trained):
        torch.testing.assert_close(model.blocks[layer].down_projection.weight, weight.detach())


def _loss_of_text(model: LanguageModel, timestep: Timestep) -> float:
    texts = [f"{fact.question} {fact.answer}\n{fact.cloze} {fact.answer}." for fact in timestep.known_facts()]
    with torch.no_grad():
        rows = [torch.tensor([model.encode(text)]) for text in texts]
        return float(sum(model.module(row, labels=row).loss.item() for row in rows)) / len(rows)


@pytest.mark.parametrize("architecture", ["llama", "gpt2"])
def test_projected_steps_stay_open_and_text_keeps_its_loss(
    architecture: str, timestep: Timestep, cases: list[Case]
) -> None:
    lost = {}
    for project in ("none", "gradient", "step"):
        model = small_model(architecture)
        before = _loss_of_text(model, timestep)
        block = model.blocks[1]
        start = block.down_projection.weight.detach().clone()
        editor = _editor(model, timestep, layers="1", project=project, steps=10, learning_rate=1e-2)
        editor.apply(cases[:2])
        lost[project] = abs(_loss_of_text(model, timestep) - before)
        moved = block.down_projection.weight.detach() - start
        moved = moved.T if block.down.rows_are_inputs else moved
        assert moved.norm() > 0.01
        if project == "step":
            torch.testing.assert_close(editor.projection(1)(moved), moved, rtol=1e-4, atol=1e-6)  # type: ignore[attr-defined]

    assert lost["step"] < lost["none"] / 2
    assert lost["gradient"] < lost["none"]


def test_a_chunk_of_past_edits_joins_the_curvature(timestep: Timestep, cases: list[Case]) -> None:
    model = small_model()
    editor = _editor(model, timestep, layers="1", chunk=2, steps=2)
    text = editor.state().record
    editor.apply(cases[:1])
    editor.apply(cases[1:2])
    assert len(editor.state().record["past"]) == 2
    assert not editor.state().record["tokens"]

    pairs = [(case.question, case.answer) for case in cases[:2]]
    edits = curvatures(model, [1], [encode_targets(model, pairs, learn_end=True)])[1]
    merged = editor._unedited[1].merged(edits)  # type: ignore[attr-defined]
    expected = Projection(merged, share=editor.settings.share, dtype=torch.float32)
    editor.apply(cases[2:3])
    state = editor.state()
    assert state.record["tokens"] == {"edits": {"1": edits.tokens}}
    torch.testing.assert_close(state.tensors["edits.inputs.1"], edits.inputs)
    assert editor.projection(1).threshold == pytest.approx(expected.threshold)  # type: ignore[attr-defined]
    assert state.record["past"] == [[cases[2].question, cases[2].answer]]

    editor.restore()
    assert editor.state().record == text


def test_the_curvature_of_text_is_taken_anew_where_a_matrix_has_moved_far(
    timestep: Timestep, cases: list[Case]
) -> None:
    model = small_model()
    editor: Any = _editor(model, timestep, layers="1", steps=4, learning_rate=1e-2, moved=0.02, history=False)
    editor.apply(cases[:1])
    unedited = editor.projection(1).threshold
    batches = text_batches(model, editor._corpus, TextBudget(QUICK["tokens"], QUICK["length"]))
    anew = curvatures(model, [1], batches)[1]
    matrix = model.blocks[1].down_projection.weight.detach().clone()
    editor.apply(cases[1:2])

    state = editor.state()
    torch.testing.assert_close(state.tensors["text.inputs.1"], anew.inputs)
    torch.testing.assert_close(state.tensors["taken_at.1"], matrix)
    threshold = editor.projection(1).threshold
    assert threshold == Projection(anew, share=editor.settings.share, dtype=torch.float32).threshold != unedited

    editor.restore()
    assert "text.inputs.1" not in editor.state().tensors
    assert editor.projection(1).threshold == unedited
    editor.load_state(state)
    assert editor.projection(1).threshold == threshold
    assert editor.state().tensors.keys() == state.tensors.keys()


def test_a_matrix_that_has_not_moved_far_keeps_its_directions(timestep: Timestep, cases: list[Case]) -> None:
    editor: Any = _editor(small_model(), timestep, layers="1", steps=1, moved=0.9, history=False)
    editor.apply(cases[:1])
    before = editor.projection(1)
    editor.apply(cases[1:2])
    assert editor.projection(1) is before


def test_without_the_curvature_it_says_what_to_do(cases: list[Case]) -> None:
    with pytest.raises(SpecError, match="prepare"):
        make_editor("crispedit", small_model(), {}, contexts=ASKED).apply(cases[:1])
