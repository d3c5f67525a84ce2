"""WISE: side copies, routing row by row, merging."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from peft.utils.merge_utils import ties
from world.small_models import ARCHITECTURES, changed, small_model, weights
from world.small_timestep import write_timestep

from kgedit.benchmark.timestep import Timestep
from kgedit.editing import make_editor
from kgedit.editing.editor import EditorState
from kgedit.editing.side_memory.side_copies import activation, margins, random_mask, sample_of
from kgedit.editing.side_memory.wise import Wise
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.surgery.forward_above import projection_inputs
from kgedit.records.cases import Case


@pytest.fixture(scope="module")
def timestep(tmp_path_factory: pytest.TempPathFactory) -> Timestep:
    return write_timestep(tmp_path_factory.mktemp("timestep"))


@pytest.fixture(scope="module")
def cases(timestep: Timestep) -> list[Case]:
    return list(timestep.cases())


def _editor(model: LanguageModel, timestep: Timestep, **given: Any) -> Wise:
    editor = make_editor("wise", model, {"layer": 1, "steps": 30} | given, seed=7)
    editor.prepare(timestep.known_facts(), advance=lambda done, total: None)
    return editor


def _logits(model: LanguageModel, questions: list[str]) -> torch.Tensor:
    """At the end of each prompt, asked together."""
    ids, mask = model.pad_left([model.encode(question) for question in questions])
    ends = torch.full((len(ids),), ids.shape[1] - 1)
    with torch.no_grad():
        logits: torch.Tensor = model.forward(ids, mask, last=1, ends=ends).logits[:, 0]
    return logits


def test_the_margin_loss_is_nothing_once_edits_and_unrelated_prompts_are_apart() -> None:
    loss = [
        float(margins(torch.tensor([e]), torch.tensor([u]), least=(5, 20, 10)))
        for e, u in ((25.0, 4.0), (0.0, 0.0), (18.0, 12.0))
    ]

    assert loss == [0, 20 + 10, 7 + 2 + 4]


def test_a_random_mask_holds_its_share_and_follows_its_seed() -> None:
    one, other = (random_mask(torch.zeros(200, 100), share=0.2, seed=seed) for seed in (1, 2))

    assert one.mean().item() == pytest.approx(0.2, abs=0.01)
    assert (one * other).mean().item() == pytest.approx(0.04, abs=0.01)
    assert torch.equal(one, random_mask(torch.zeros(200, 100), share=0.2, seed=1))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_training_lowers_the_loss_within_the_copys_own_entries_and_keeps_the_margin(
    architecture: str, timestep: Timestep, cases: list[Case]
) -> None:
    model = small_model(architecture)
    untrained = _editor(model, timestep, steps=1).apply(cases[:1]).loss
    editor = _editor(model, timestep, steps=80)
    applied = editor.apply(cases[:1])
    copy = editor.router.copies[0]

    assert applied.loss is not None
    assert untrained is not None
    assert applied.loss < 0.8 * untrained
    assert (copy.change != 0).float().mean().item() == pytest.approx(0.2, abs=0.05)
    assert changed(weights(small_model(architecture)), model) == []
    stirred, _ = _stirred(editor, cases[0])
    assert stirred >= copy.threshold > 0


def _stirred(editor: Wise, case: Case) -> tuple[float, float]:
    """Activation of the one edit's prompt and of the unrelated one that it was trained beside."""
    found = []
    for question in (case.question, *editor._draw([case], editor._unrelated([case]))):
        ids, mask = editor.model.pad_left([editor.model.encode(question)])
        inputs = projection_inputs(editor.model, 1, ids, mask)
        layer = editor.model.blocks[1].down_projection
        found.append(float(activation(layer, inputs, editor.router.copies[0].change, counted=mask.bool())))
    return found[0], found[1]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_margins_drive_edits_and_unrelated_prompts_apart(
    architecture: str, timestep: Timestep, cases: list[Case]
) -> None:
    apart = []
    for margins_kept in ({"alpha": 0, "beta": 1000, "gamma": 1000}, {"alpha": 1e9, "beta": 0, "gamma": 0}):
        editor = _editor(small_model(architecture), timestep, unit=2, **margins_kept)
        editor.apply(cases[:1])
        near, far = _stirred(editor, cases[0])
        apart.append(near / far)

    assert apart[0] > 1.1 * apart[1]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_each_row_of_a_batch_is_routed_by_itself(architecture: str, timestep: Timestep, cases: list[Case]) -> None:
    model = small_model(architecture)
    questions = [case.question for case in cases]
    before = _logits(model, questions)
    editor = _editor(model, timestep, shard=1, merge_every=1000)
    editor.apply(cases[:2])
    first, second = editor.router.copies
    # A threshold set by hand divides the rows in two halves.
    ids, mask = model.pad_left([model.encode(question) for question in questions])
    inputs = projection_inputs(model, 1, ids, mask)
    layer = model.blocks[1].down_projection
    stirred = activation(layer, inputs, first.change, counted=mask.bool())
    first.threshold, second.threshold = float(stirred.sort().values[4:6].mean()), float("inf")

    together = _logits(model, questions)
    routed = [bool(row >= first.threshold) for row in stirred]
    assert 0 < sum(routed) < len(routed)
    assert [not torch.equal(a, b) for a, b in zip(before, together, strict=True)] == routed
    for question, row in zip(questions, together, strict=True):
        torch.testing.assert_close(_logits(model, [question])[0], row, atol=1e-4, rtol=1e-4)


def test_a_prompt_goes_to_the_copy_that_it_stirs_most(timestep: Timestep, cases: list[Case]) -> None:
    model = small_model()
    editor = _editor(model, timestep, shard=1)
    editor.apply(cases[:2])
    ids, mask = model.pad_left([model.encode(case.question) for case in cases[:2]])
    inputs = projection_inputs(model, 1, ids, mask)
    ratios = [
        activation(model.blocks[1].down_projection, inputs, copy.change, counted=mask.bool()) / copy.threshold
        for copy in editor.router.copies
    ]
    expected = [int(a < b) for a, b in zip(*ratios, strict=True)]

    assert editor.router.choose(inputs, counted=mask.bool()) == expected


def test_shards_fill_and_merge_by_ties(timestep: Timestep, cases: list[Case]) -> None:
    apart = _editor(small_model(), timestep, shard=2, merge_every=1000)
    apart.apply(cases[:4])
    merged = _editor(small_model(), timestep, shard=2, merge_every=4)
    merged.apply(cases[:4])
    changes = [copy.change for copy in apart.router.copies]

    assert len(changes) == 2
    assert [copy.prompts for copy in apart.router.copies] == [
        tuple(case.question for case in cases[:2]),
        tuple(case.question for case in cases[2:4]),
    ]
    assert len(merged.router.copies) == 1
    torch.testing.assert_close(merged.router.copies[0].change, ties(changes, torch.ones(2), density=0.53))
    assert merged.router.copies[0].prompts == tuple(case.question for case in cases[:4])
    questions = [case.question for case in cases[:4]]
    assert not (_logits(merged.model, questions) == _logits(small_model(), questions)).all(1).any(), "all are in scope"


def test_a_merge_reads_a_bounded_sample_of_all_prompts_again(timestep: Timestep, cases: list[Case]) -> None:
    editor = _editor(small_model(), timestep, shard=2, merge_every=2, remeasured=3, steps=1)
    read: list[int] = []
    own = editor._read
    editor._read = lambda prompts: read.append(len(prompts)) or own(prompts)
    spent = []
    for start in range(0, 10, 2):
        read.clear()
        editor.apply(cases[start : start + 2])
        spent.append(sum(read))
    (merged,) = editor.router.copies

    assert spent == [spent[0], *[spent[0] + 1] * 4], "two prompts at the first merge, three at each later one"
    assert len(merged.prompts) == 3
    assert merged.shortest == min(len(editor.model.encode(case.question)) for case in cases)
    assert len(editor.state().record["prompts"][0]) == 3


def test_a_sample_of_samples_is_a_sample_of_the_whole() -> None:
    prompts = tuple(f"Who leads town {number}?" for number in range(50))
    bit_by_bit: tuple[str, ...] = ()
    for prompt in prompts:
        bit_by_bit = sample_of((*bit_by_bit, prompt), 7)

    assert bit_by_bit == sample_of(prompts, 7)
    assert sample_of(prompts[:7], 7) == prompts[:7]
    assert any(prompts.index(prompt) > 30 for prompt in bit_by_bit)


def test_a_saved_state_of_several_copies_routes_the_same(timestep: Timestep, cases: list[Case]) -> None:
    editor = _editor(small_model(), timestep, shard=2)
    editor.apply(cases[:5])
    saved = editor.state()
    again = _editor(small_model(), timestep, shard=2)
    again.load_state(EditorState(saved.tensors, saved.record))
    questions = [case.question for case in cases]

    assert torch.equal(_logits(editor.model, questions), _logits(again.model, questions))
    for one in (editor, again):
        one.apply(cases[5:7])
    assert torch.equal(_logits(editor.model, questions), _logits(again.model, questions))


def test_without_known_facts_the_model_writes_the_unrelated_prompts_and_no_probe_is_trained_on(
    cases: list[Case],
) -> None:
    editor = make_editor("wise", small_model(), {"steps": 2})
    written = editor._unrelated(cases)
    probed = {probe.question for case in cases for probe in case.probes}

    assert len(editor._draw(cases[:3], written)) == 3
    assert not probed & set(written)
    assert written == make_editor("wise", small_model())._unrelated(cases)
    assert editor.apply(cases[:1]).loss is not None
