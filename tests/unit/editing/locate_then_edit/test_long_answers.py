"""AnyEdit and UnKE: chunks of long answers, and what their equations and training reach."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from world.edit_files import ROWS, write_json
from world.small_models import ARCHITECTURES, changed, mean_loss, small_model, weights

from kgedit.editing import make_editor
from kgedit.editing.hparams.locate_then_edit import chunk_tokens
from kgedit.editing.locate_then_edit.subject_prompts import outputs_at
from kgedit.editing.locate_then_edit.unke import Unke, answer_requests
from kgedit.llm.contexts import read_context
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.surgery.structure import hidden_of, hooks, with_hidden
from kgedit.progress import ignore
from kgedit.records.cases import Case
from kgedit.timesteps.edit_files import EditFile
from kgedit.timesteps.timestep import Timestep

BARE = read_context("question_only")
SMALL = {"tokens": 600, "length": 32, "prefix_tokens": 4, "steps": 6, "damping": 1e-3, "learn_end": False}
SENTENCES = "Asta Wik was elected mayor of Mora in the spring. Before that she led the harbour of Luleå for a decade."


@pytest.fixture(autouse=True)
def _own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGEDIT_HOME", str(tmp_path_factory.getbasetemp() / "long-home"))


@pytest.fixture
def long_case(cases: list[Case]) -> Case:
    """A case without a subject in its question, whose answer has two sentences."""
    return replace(cases[0], question="What happened in Mora?", answer=SENTENCES)


def _editor(model: LanguageModel, timestep: Timestep, name: str, **given: object) -> Any:
    own = SMALL if name == "anyedit" else {"steps": 6, "learn_end": False}
    editor = make_editor(name, model, {**own, **given}, contexts=(BARE,), seed=7)
    editor.prepare(timestep.known_facts(), advance=ignore)
    return editor


def test_chunks_follow_each_other_and_together_are_the_answer(long_case: Case) -> None:
    model = small_model()
    found = answer_requests(model, long_case, [BARE], chunk=7, learn_end=True, random_prefixes=[[5, 6]])
    prompt = model.encode(BARE.prompt(long_case.question))
    target = model.encode_target(SENTENCES, after=BARE.prompt(long_case.question)) + model.end_of_answer("")
    assert [token for request in found for token in request.target] == target
    assert [len(request.target) for request in found[:-1]] == [7] * (len(found) - 1)
    assert 0 < len(found[-1].target) <= 7
    for number, request in enumerate(found):
        bare, prefixed = request.prompts
        assert list(bare.ids) == prompt + target[: 7 * number]
        assert bare.subject == len(bare.ids) - 1
        assert list(prefixed.ids[-len(target[: 7 * number]) - 3 :]) == list(bare.ids[-len(target[: 7 * number]) - 3 :])
        assert prefixed.subject == len(prefixed.ids) - 1
    assert len(answer_requests(model, long_case, [BARE], chunk=None, learn_end=True)) == 1


@pytest.mark.slow
def test_anyedit_solves_the_equations_of_all_chunks_at_once(long_case: Case, timestep: Timestep) -> None:
    """One layer: R K^T (K K^T + O O^T + L2)^-1 within the null space, with all keys and residuals read by hand.

    O are the keys of the other tokens of question and answer, whose outputs the change should preserve.
    """
    model, plain = small_model(), small_model()
    for one in (model, plain):
        one.module.double()
    given = {"layers": "1", "chunk": 9, "penalty": 0.3, "threshold": 0.5}
    editor, other = _editor(model, timestep, "anyedit", **given), _editor(plain, timestep, "anyedit", **given)
    editor.apply([long_case])

    requests = other.requests_of(long_case)
    block, width = plain.blocks[1], plain.blocks[1].inner_width
    assert len(requests) > 3
    keys, now = [], []
    for request in requests:
        seen: list[torch.Tensor] = []
        handle = block.down.layer.register_forward_pre_hook(lambda _, given, seen=seen: seen.append(given[0][0, -1]))
        outputs = block.module.register_forward_hook(lambda _, __, out, seen=seen: seen.append(out[0, -1]))
        with torch.no_grad():
            plain.module(torch.tensor([request.prompts[0].ids]))
        handle.remove()
        outputs.remove()
        keys.append(seen[0])
        now.append(seen[1])
    found = other.search(block.module, requests, layer=1)
    key, every = torch.stack(keys, dim=1), []
    with hooks(block.down.layer.register_forward_pre_hook(lambda _, given: every.append(given[0][0]))), torch.no_grad():
        plain.module(torch.tensor([[*requests[-1].prompts[0].ids, *requests[-1].target]]))
    places = [request.prompts[0].subject for request in requests]
    rest = every[0][[place for place in range(len(every[0])) if place not in places]].T
    assert rest.shape[1] > 30
    missing = (found.before + found.added - torch.stack(now)).T
    basis = other.basis(1)
    projection = basis @ basis.T
    change = (
        missing
        @ key.T
        @ projection
        @ torch.linalg.inv((key @ key.T + rest @ rest.T) @ projection + 0.3 * torch.eye(width))
    )
    expected = weights(plain)["model.layers.1.mlp.down_proj.weight"] + change
    assert change.norm() > 1e-2
    torch.testing.assert_close(weights(model)["model.layers.1.mlp.down_proj.weight"], expected, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize(("width", "chunk"), [(576, 8), (2048, 20), (4096, 40), (8192, 40)])
def test_chunks_are_shorter_in_narrower_models(width: int, chunk: int) -> None:
    assert chunk_tokens(width) == chunk


def test_a_chunk_is_searched_for_with_the_vectors_of_the_earlier_ones(long_case: Case, timestep: Timestep) -> None:
    """The loss of each chunk is that of a whole pass with all vectors up to its own added by hand."""
    model = small_model()
    editor = _editor(model, timestep, "anyedit", layers="1", chunk=9, weight_decay=1e-9, steps=4, search_batch=2)
    requests = [
        one for case in (long_case, replace(long_case, question="And where?")) for one in editor.requests_of(case)
    ]
    found = editor.search(model.blocks[1].module, requests, layer=1)
    assert len(requests) > 6
    losses = []
    for index, request in enumerate(requests):
        ids, number = [*request.prompts[0].ids, *request.target], len(request.distances)
        places = [request.prompts[0].subject - distance for distance in (*request.distances, 0)]
        vectors = found.added[index - number : index + 1]

        def add(_: Any, __: Any, output: Any, places: list[int] = places, vectors: torch.Tensor = vectors) -> Any:
            hidden = hidden_of(output).clone()
            hidden[0, places] += vectors
            return with_hidden(output, hidden)

        with hooks(model.blocks[1].module.register_forward_hook(add)), torch.no_grad():
            logits = model.module(torch.tensor([ids[:-1]])).logits[0, -len(request.target) :]
        losses.append(float(torch.nn.functional.cross_entropy(logits, torch.tensor(request.target))))
    assert found.losses == pytest.approx(losses, rel=1e-4)
    assert found.added.norm(dim=1).min() > 0.1


def test_after_an_edit_each_chunk_finds_the_value_before_it(long_case: Case, timestep: Timestep) -> None:
    """Nearly no penalty, all directions, and fewer tokens than inputs: the block's outputs are the values."""
    long_case = replace(long_case, question="Who?", answer="Asta Wik was elected")
    model, plain = small_model(), small_model()
    given = {"layers": "1", "chunk": 5, "penalty": 1e-6, "threshold": 1.0}
    editor, other = _editor(model, timestep, "anyedit", **given), _editor(plain, timestep, "anyedit", **given)
    editor.apply([long_case])
    requests = other.requests_of(long_case)
    found = other.search(plain.blocks[1].module, requests, layer=1)
    bare = [request.prompts[0] for request in requests]
    reached = outputs_at(model, model.blocks[1].module, bare, layer=1)
    torch.testing.assert_close(reached, found.before + found.added, rtol=1e-2, atol=1e-2)
    assert found.added.norm(dim=1).min() > 0.1


@pytest.mark.slow
def test_the_penalty_follows_what_is_left_of_keys_in_the_null_space(long_case: Case, timestep: Timestep) -> None:
    """A tenth of the sum of C's eigenvalues there; a model with keys a thousandth as long learns as much."""
    reached = []
    for scale in (1.0, 1e-3):
        model = small_model()
        model.module.double()
        with torch.no_grad():
            model.module.model.layers[1].mlp.up_proj.weight.mul_(scale)
            model.module.model.layers[1].mlp.down_proj.weight.div_(scale)
        editor = _editor(model, timestep, "anyedit", layers="1", chunk=9, threshold=0.5)
        basis = editor.basis(1)
        eigenvalues = torch.linalg.eigvalsh(editor.second_moment(1).matrix)
        assert editor.penalty(1, basis) == pytest.approx(float(eigenvalues[: basis.shape[1]].sum()) / 10, rel=1e-6)
        assert editor.details()["penalty"] == {"1": editor.penalty(1, basis)}
        editor.apply([long_case])
        reached.append(mean_loss(model, [long_case]))
    assert reached[1] == pytest.approx(reached[0], rel=1e-3)
    assert reached[0] < mean_loss(small_model(), [long_case])


def test_an_answer_of_one_chunk_is_edited_at_the_last_token_of_the_prompt(
    cases: list[Case], timestep: Timestep
) -> None:
    editor = _editor(small_model(), timestep, "anyedit", chunk=100, layers="1")
    (request,) = editor.requests_of(cases[0])
    prompt = editor.model.encode(BARE.prompt(cases[0].question))
    assert list(request.prompts[0].ids) == prompt
    assert request.prompts[0].subject == len(prompt) - 1
    assert list(request.target) == editor.model.encode_target(cases[0].answer, after=BARE.prompt(cases[0].question))


@pytest.mark.slow
def test_chunks_learn_a_long_answer_that_one_value_does_not(long_case: Case, timestep: Timestep) -> None:
    losses = {}
    for chunk in (4, 1000):
        model = small_model()
        editor = _editor(model, timestep, "anyedit", chunk=chunk, layers="1", steps=25, penalty=1e-3, threshold=1.0)
        applied = editor.apply([long_case])
        assert applied.failures == ()
        losses[chunk] = mean_loss(model, [long_case])
    unedited = mean_loss(small_model(), [long_case])
    assert losses[4] < losses[1000] < unedited


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_unke_trains_every_weight_of_its_block_and_no_other(
    architecture: str, long_case: Case, timestep: Timestep
) -> None:
    model = small_model(architecture)
    before, editor = weights(model), _editor(model, timestep, "unke", layer=1, train_steps=3)
    editor.apply([long_case])
    inside = {name for name, module in model.module.named_modules() if module is model.blocks[1].module}
    block = f"{inside.pop()}."
    # GPT-2's biases of keys cancel in the softmax, but not those of queries and values: all change by Adam.
    trained = {name for name, _ in model.module.named_parameters() if name.startswith(block)}
    assert set(changed(before, model)) == trained
    editor.restore()
    assert changed(before, model) == []


def test_unkes_loss_is_that_at_the_ends_of_prompts_plus_that_at_all_other_tokens(
    cases: list[Case], long_case: Case, timestep: Timestep
) -> None:
    """Computed one text at a time from whole forward passes, after a random change of the block."""
    model = small_model()
    editor = _editor(model, timestep, "unke", layer=1)
    assert isinstance(editor, Unke)
    requests = [editor.request_of(case, BARE) for case in (long_case, cases[3])]
    values = torch.randn(2, 32, generator=torch.Generator().manual_seed(1))
    unrelated = ["Which water does it lie at?", "Ahoy"]
    wanted = editor.wanted_outputs(requests, values, unrelated)

    texts = [list(request.prompts[0].ids) for request in requests] + [model.encode(text) for text in unrelated]
    before = [_outputs(model, ids) for ids in texts]
    assert float(editor.block_loss(replace(wanted, outputs=wanted.outputs.clone()))) > 0.1
    noise = torch.randn(model.blocks[1].down.layer.weight.shape, generator=torch.Generator().manual_seed(2))
    model.blocks[1].down.layer.weight.add_(noise * 0.1)
    after = [_outputs(model, ids) for ids in texts]
    at_ends = [(after[row][-1] - values[row]).square().mean() for row in range(2)]
    others = [
        (after[row][position] - before[row][position]).square().mean()
        for row, ids in enumerate(texts)
        for position in range(len(ids) - (row < 2))
    ]
    expected = torch.stack(at_ends).mean() + torch.stack(others).mean()
    assert float(editor.block_loss(wanted)) == pytest.approx(float(expected), rel=1e-4)


def test_unke_brings_the_block_near_its_value_and_the_answer_with_it(long_case: Case, timestep: Timestep) -> None:
    model = small_model()
    unedited = mean_loss(model, [long_case])
    editor = _editor(model, timestep, "unke", layer=1, steps=25, train_steps=60, train_rate=5e-3)
    before = _outputs(model, model.encode(long_case.question))
    (value, _) = editor._search(editor.request_of(long_case, BARE))
    editor.apply([long_case])
    after = _outputs(model, model.encode(long_case.question))
    assert (after[-1] - value[0]).norm() < (before[-1] - value[0]).norm() / 4
    assert mean_loss(model, [long_case]) < unedited


@pytest.mark.parametrize("name", ["anyedit", "unke"])
@pytest.mark.parametrize("form", ["unke", "akew"])
def test_texts_of_the_published_forms_are_edited(form: str, name: str, timestep: Timestep, tmp_path: Path) -> None:
    """UnKE's texts name no subject, and AKEW's questions do."""
    (case,) = EditFile.open(write_json(tmp_path / "texts.json", ROWS[form])).cases()
    model = small_model()
    unedited = mean_loss(model, [case])
    given = {"chunk": 8, "layers": "1"} if name == "anyedit" else {"layer": 1, "train_rate": 5e-3}
    applied = _editor(model, timestep, name, **given).apply([case])
    assert applied.failures == ()
    assert applied.loss is not None
    assert mean_loss(model, [case]) < unedited


def _outputs(model: LanguageModel, ids: list[int]) -> torch.Tensor:
    """Outputs of block 1 for one text, length x width."""
    seen: list[torch.Tensor] = []
    handle = model.blocks[1].module.register_forward_hook(lambda _, __, output: seen.append(output[0]))
    with torch.no_grad():
        model.module(torch.tensor([ids]))
    handle.remove()
    return seen[0]
