"""GRACE: its codebook, and the answers of the edited model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from world.small_models import ARCHITECTURES, changed, decode_greedily, small_model, weights
from world.waits import counted_waits

from kgedit.editing import make_editor
from kgedit.editing.editor import Editor, EditorState
from kgedit.editing.row_tables import TableRows
from kgedit.editing.side_memory.codebook import Codebook
from kgedit.llm.contexts import read_context
from kgedit.llm.generation import Question, ask, feed
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.presets import PRESETS
from kgedit.llm.training import encode_targets, take_step
from kgedit.records.cases import Case
from kgedit.records.runs import Preset
from kgedit.runs.checkpoints import RowLog

ASKED = (read_context("question_only"),)


DECODED = Preset(
    name="brief",
    context="question_only",
    generation="greedy",
    truncation="gold_length",
    max_new_tokens=20,
    metric="exact_match",
)


def _editor(name: str, model: LanguageModel, **given: object) -> Editor[Any]:
    return make_editor(name, model, given, contexts=ASKED, seed=7)


def _said(model: LanguageModel, cases: list[Case], preset: Preset = DECODED) -> list[str]:
    return [reply.text for reply in ask(model, [Question(case.question, case.answer) for case in cases], preset)]


def _logits(model: LanguageModel, case: Case) -> torch.Tensor:
    targets = encode_targets(model, [(case.question, case.answer)], learn_end=False)
    with torch.no_grad():
        logits: torch.Tensor = model.forward(targets.ids, targets.mask, last=targets.last, ends=targets.ends).logits
    return logits


def _key(*numbers: float) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.float32)


def _place(codebook: Codebook, key: torch.Tensor, label: int, radius: float = 1.0) -> int:
    values = torch.full((1, 2), float(label))
    return codebook.find_or_add(key[None], [(label,)], values, radius=radius, same=1e-3)[0]


def test_a_far_key_is_new_and_a_near_one_of_the_same_label_widens() -> None:
    codebook = Codebook()
    assert _place(codebook, _key(10, 0), 1) == 0
    assert _place(codebook, _key(20, 0), 1) == 1
    assert _place(codebook, _key(11.5, 0), 1) == 0

    assert codebook.radii.tolist() == [1.5, 1.0]
    assert codebook.find(torch.stack([_key(11.5, 0), _key(11.6, 0), _key(19.5, 0)])).tolist() == [0, -1, 1]


def test_a_near_key_of_another_label_splits_at_half_the_distance() -> None:
    codebook = Codebook()
    _place(codebook, _key(10, 0), 1)
    assert _place(codebook, _key(11, 0), 2) == 1

    assert codebook.radii.tolist() == [0.5, 0.5]
    assert codebook.find(torch.stack([_key(10.4, 0), _key(10.6, 0), _key(11.6, 0)])).tolist() == [0, 1, -1]
    assert codebook.labels == [(1,), (2,)]
    assert [value[0].item() for value in codebook.values] == [1, 2]


def test_the_same_key_with_another_label_is_overwritten() -> None:
    codebook = Codebook()
    _place(codebook, _key(10, 0), 1)
    assert _place(codebook, _key(10.00001, 0), 2) == 0

    assert codebook.labels == [(2,)]
    assert codebook.radii.tolist() == [1.0]


def test_edits_placed_together_go_where_they_go_one_after_the_other() -> None:
    """Few labels on a small grid: keys repeat, widen, split and are replaced, within a batch and across batches."""
    draw = torch.Generator().manual_seed(3)
    keys = torch.randint(1, 9, (120, 2), generator=draw).float() * 3
    labels = [(int(label),) for label in torch.randint(0, 4, (120,), generator=draw)]
    values = torch.arange(240.0).view(120, 2)
    contents, entries = [], []
    for size in (1, 7, 120):
        codebook, found = Codebook(), []
        for start in range(0, 120, size):
            rows = slice(start, start + size)
            found += codebook.find_or_add(keys[rows], labels[rows], values[rows], radius=2.0, same=1e-3)
        contents.append(codebook.content())
        entries.append(found)
    one, *others = contents

    assert entries[1:] == entries[:1] * 2
    assert 20 < one.count < 100
    assert set(one.columns["radii"].tolist()) == {2.0, 1.5, 3.0}, "new ones, those that were split, and wider ones"
    for other in others:
        assert other.labels == one.labels
        assert all(torch.equal(other.columns[name], one.columns[name]) for name in ("keys", "values", "radii"))


def test_edits_and_lookups_wait_for_the_device_once_or_twice_whatever_their_number() -> None:
    draw, waits = torch.Generator().manual_seed(3), []
    codebook, old = Codebook(), torch.randint(1, 9, (40, 2), generator=draw).float() * 3
    codebook.find_or_add(old, [(number % 4,) for number in range(40)], torch.zeros(40, 2), radius=2.0, same=1e-3)
    for count in (2, 60):
        keys = torch.randint(1, 9, (count, 2), generator=draw).float() * 3
        labels = [(number % 5,) for number in range(count)]
        with counted_waits() as edits:
            codebook.find_or_add(keys, labels, torch.ones(count, 2), radius=2.0, same=1e-3)
        with counted_waits() as lookups:
            codebook.find(keys)
        waits.append((len(edits), len(lookups)))

    assert waits == [(2, 2), (2, 2)]


def test_ten_edits_of_a_batch_wait_for_the_device_as_often_as_two(cases: list[Case]) -> None:
    waits = []
    for count in (2, 10):
        editor = _editor("grace", small_model(), layer=1, steps=3, stop_loss=0.0)
        editor.apply(cases[10 - count :])
        with counted_waits() as found:
            editor.apply(cases[:count])
        waits.append(found)

    assert waits[0] == waits[1]
    assert len(waits[0]) < 25


def test_a_codebook_of_many_entries_finds_each_and_is_the_same_after_a_way_through_its_content() -> None:
    keys = torch.randn(100, 6, generator=torch.Generator().manual_seed(0)) * 10
    codebook = Codebook()
    for label, key in enumerate(keys):
        _place(codebook, key, label, radius=0.1)
    content = codebook.content()
    again = Codebook.of(content, device=torch.device("cpu"))
    _place(again, keys[0] + 100, 100)

    assert codebook.find(keys).tolist() == again.find(keys).tolist() == list(range(100))
    assert again.find(keys[:1] + 100).tolist() == [100]
    _place(codebook, keys[0] + 0.05, 101, radius=0.1)
    assert torch.equal(content.columns["radii"], torch.full((100,), 0.1, dtype=torch.float64)), "a copy, not a view"
    assert (len(codebook), len(again)) == (101, 101)
    assert torch.equal(codebook.values[:100, 0], torch.arange(100.0))


def test_of_entries_that_rounding_cannot_tell_apart_the_nearest_is_found() -> None:
    """Far from the origin, many keys look equally near by |a|^2 - 2ab + |b|^2; each must still be at 0 from itself."""
    keys = 1000 + torch.randn(60, 4, generator=torch.Generator().manual_seed(1))
    codebook = Codebook()
    for label, key in enumerate(keys):
        codebook.find_or_add(key[None], [(label,)], torch.zeros(1, 2), radius=1e-9, same=0.0)

    assert codebook.find(keys).tolist() == list(range(60))
    assert codebook.find(keys + 1e-3).tolist() == [-1] * 60


def test_a_checkpoint_holds_the_entries_that_changed_since_the_one_before(tmp_path: Path) -> None:
    codebook, log, length, sizes = Codebook(), RowLog(tmp_path / "rows.log"), 0, []
    for step in range(30):
        _place(codebook, _key(10 * step, 0), step)
        if step == 20:
            _place(codebook, _key(51, 0), 99)  # cuts the radius of entry 5
        if step == 25:
            _place(codebook, _key(80.00001, 0), 77)  # another label for entry 8
        changes = codebook.take_changes()
        assert changes.indexes == {20: (5, 20, 21), 25: (8, 26)}.get(step, (len(codebook) - 1,))
        before, length = length, log.append(length, {"codebook": changes})
        sizes.append(length - before)
    assert max(sizes) < 3 * min(sizes), "whatever was stored before"

    (tmp_path / "rows.log").open("ab").write(b"cut short")
    again, whole = Codebook.of(log.read(length)["codebook"], device=torch.device("cpu")).content(), codebook.content()
    assert again.labels == whole.labels
    assert all(torch.equal(again.columns[name], whole.columns[name]) for name in ("keys", "values", "radii"))
    assert log.read(sum(sizes[:10]))["codebook"].count == 10


def _short(cases: list[Case]) -> list[Case]:
    """The same questions with answers of one token: one vector in a random model cannot say more."""
    words = ["mayor", "of", "is", "the", "Where", "A", "lie", "at", "Who", "was"]
    return [replace(case, answer=word) for case, word in zip(cases, words, strict=True)]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.slow
def test_grace_says_the_new_answers_when_fed_and_when_decoding_from_the_cache(
    architecture: str, cases: list[Case]
) -> None:
    model = small_model(architecture)
    cases = [case for case in _short(cases) if len(model.encode_target(case.answer)) == 1]
    assert len(cases) > 4
    editor = _editor("grace", model, layer=2, radius=1e-3, steps=300)
    applied = editor.apply(cases)

    assert applied.loss is not None
    assert applied.loss < 1
    replies = ask(model, [Question(case.question, case.answer) for case in cases], PRESETS["synthetic"])
    assert [reply.token_match for reply in replies] == [1.0] * len(cases)
    assert _said(model, cases) == [case.answer for case in cases], "a batch of prompts of different length"
    assert _said(model, cases[3:4]) == [cases[3].answer], "and a prompt alone"


@pytest.mark.parametrize("name", ["grace", "wise"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.slow
def test_decoding_from_the_cache_says_what_reading_everything_again_says(
    architecture: str, name: str, cases: list[Case]
) -> None:
    model = small_model(architecture)
    prompts = [model.encode(case.question) for case in cases]
    limits = [2 + row % 5 for row in range(len(prompts))]
    unedited = decode_greedily(model, prompts, stops=(), limits=limits)
    editor = _editor(name, model, layer=1, steps=20)
    editor.apply(_short(cases)[::2])
    decoded = decode_greedily(model, prompts, stops=(), limits=limits)
    with torch.no_grad():
        again = [fed.best for fed in feed(model, prompts, decoded)]

    assert decoded == again
    assert sum(a != b for a, b in zip(decoded, unedited, strict=True)) >= 4


def test_grace_leaves_what_is_off_its_codebook_untouched_bit_for_bit(cases: list[Case]) -> None:
    model = small_model()
    before = [_logits(model, case) for case in cases]
    editor = _editor("grace", model, layer=1, radius=1e-3, steps=5)
    editor.apply(cases[:3])
    after = [_logits(model, case) for case in cases]

    assert [torch.equal(a, b) for a, b in zip(before, after, strict=True)] == [False] * 3 + [True] * 7
    assert changed(weights(small_model()), model) == []


def test_grace_widens_for_the_same_answer_and_splits_for_another(cases: list[Case]) -> None:
    editor = _editor("grace", small_model(), layer=1, radius=1e6, steps=2)
    editor.apply(cases[:1])
    editor.apply(cases[1:2])
    codebook = editor.codebook  # type: ignore[attr-defined]
    distance = torch.linalg.vector_norm(codebook.keys[0] - codebook.keys[1]).item()

    assert codebook.radii.tolist() == pytest.approx([distance / 2, distance / 2])


@pytest.mark.slow
def test_grace_learns_a_later_answer_to_the_same_question(cases: list[Case]) -> None:
    model = small_model()
    older = _short(cases)[0]
    newer = replace(older, answer="of")
    editor = _editor("grace", model, layer=2, steps=300)
    editor.apply([older])
    assert _said(model, [older]) == [older.answer]
    editor.apply([newer])

    assert _said(model, [newer]) == [newer.answer]
    assert len(editor.codebook) == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("start", ["cold", "warm"])
def test_a_new_value_starts_at_drawn_numbers_or_at_what_the_layer_gives(start: str, cases: list[Case]) -> None:
    """One step shows it: the best value is then the previous one."""
    values = []
    for batch in (1, 16):
        model = small_model()
        layer, seen = model.blocks[1].down_projection, []
        handle = layer.register_forward_hook(lambda _, __, output, seen=seen: seen.append(output))
        _logits(model, cases[0])
        handle.remove()
        editor = _editor("grace", model, layer=1, steps=1, radius=1e-3, start=start, batch=batch)
        editor.apply(cases[:3])
        values.append(editor.codebook.values)  # type: ignore[attr-defined]
    one, three = values
    outputs = seen[0][0, -1 - len(model.encode_target(cases[0].answer))]

    torch.testing.assert_close(one, three, atol=1e-4, rtol=1e-4)  # drawn by the case, not by the batch
    if start == "warm":
        torch.testing.assert_close(one[0], outputs, atol=1e-4, rtol=1e-4)
    else:
        assert 0 <= one.min() < 0.05
        assert 0.95 < one.max() < 1
        assert one.mean().item() == pytest.approx(0.5, abs=0.1)
        assert len(one.unique(dim=0)) == 3


def test_a_codebook_of_an_earlier_version_is_read(cases: list[Case]) -> None:
    """Until format 2 of saved models, keys, values and radii were tensors, and labels stood in the record."""
    edited, loaded = _editor("grace", small_model(), layer=1, steps=5), _editor("grace", small_model(), layer=1)
    edited.apply(cases[:3])
    table = edited.state().tables["codebook"]
    loaded.load_state(EditorState(table.columns, {"labels": [list(label) for label in table.labels]}))

    assert loaded.codebook.labels == edited.codebook.labels  # type: ignore[attr-defined]
    for case in cases[:4]:
        assert torch.equal(_logits(loaded.model, case), _logits(edited.model, case))
    empty = _editor("grace", small_model(), layer=1)
    empty.load_state(EditorState({}, {"labels": []}))
    assert len(empty.codebook) == 0  # type: ignore[attr-defined]


def test_an_interrupted_call_leaves_the_codebook_unchanged(cases: list[Case], monkeypatch: pytest.MonkeyPatch) -> None:
    """Edits of the call replace an entry, split one and add others; the third batch is interrupted."""
    given: dict[str, Any] = {"layer": 1, "radius": 1e6, "steps": 2, "stop_loss": 0.0, "batch": 1}
    editor, never = (_editor("grace", small_model(), **given) for _ in range(2))
    further = [replace(cases[0], answer="of"), *cases[1:3]]
    empty = editor.state().tables["codebook"]
    steps: list[int] = []

    def step(*args: Any) -> None:
        steps.append(1)
        if len(steps) > 5:
            raise KeyboardInterrupt
        take_step(*args)

    def interrupt() -> None:
        steps.clear()
        with monkeypatch.context() as patch:
            patch.setattr("kgedit.editing.side_memory.grace.take_step", step)
            with pytest.raises(KeyboardInterrupt):
                editor.apply(further)

    interrupt()
    assert _same(editor.state().tables["codebook"], empty)
    for one in (editor, never):
        one.apply(cases[:1])
    before = editor.state().tables["codebook"]
    editor.next_checkpoint()
    interrupt()

    assert _same(editor.state().tables["codebook"], before)
    changes = editor.next_checkpoint().tables["codebook"]
    assert (changes.count, changes.indexes) == (1, (0,))
    for one in (editor, never):
        one.apply(further)
    after, expected = (one.state().tables["codebook"] for one in (editor, never))
    assert _same(after, expected)
    assert after.labels[0] != before.labels[0]
    assert torch.equal(_logits(editor.model, cases[0]), _logits(never.model, cases[0]))


def _same(one: TableRows, other: TableRows) -> bool:
    return one.labels == other.labels and all(
        torch.equal(rows, other.columns[name]) for name, rows in one.columns.items()
    )
