"""WISE: side copies, routing row by row, merging."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import torch
from peft.utils.merge_utils import dare_linear, magnitude_prune, task_arithmetic, ties
from world.other_devices import other_devices
from world.small_models import ARCHITECTURES, changed, small_model, weights
from world.waits import counted_waits

from kgedit.editing import make_editor
from kgedit.editing.editor import EditorState
from kgedit.editing.side_memory.prompt_routes import SeenTokens
from kgedit.editing.side_memory.side_copies import (
    Distance,
    Replay,
    Router,
    SideCopy,
    margins,
    merged,
    random_mask,
    sample_of,
    slerp_midpoint,
)
from kgedit.editing.side_memory.wise import Wise
from kgedit.errors import SpecError
from kgedit.llm.contexts import Context
from kgedit.llm.language_model import LanguageModel
from kgedit.progress import ignore
from kgedit.records.cases import Case
from kgedit.timesteps.timestep import Timestep


def _editor(model: LanguageModel, timestep: Timestep, **given: Any) -> Wise:
    editor = make_editor("wise", model, {"layer": 1, "steps": 8, "prefixes": 2} | given, seed=7)
    editor.prepare(timestep.known_facts(), advance=ignore)
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
        float(margins(torch.tensor([[e]]), torch.tensor([u]), least=(5, 20, 10)))
        for e, u in ((25.0, 4.0), (0.0, 0.0), (18.0, 12.0))
    ]

    assert loss == [0, 20 + 10, 7 + 2 + 4]


def test_the_margin_loss_is_averaged_over_violations_alone_and_then_over_edits() -> None:
    edits = torch.tensor([[25.0, 18.0, 10.0], [30.0, 30.0, 30.0]])

    assert float(margins(edits, torch.tensor([4.0, 7.0]), least=(5, 20, 10))) == ((4 + (2 + 10) / 2) + 2) / 2


def test_a_random_mask_holds_its_share_and_follows_its_seed() -> None:
    one, other = (random_mask(torch.zeros(200, 100), share=0.2, seed=seed) for seed in (1, 2))

    assert one.float().mean().item() == pytest.approx(0.2, abs=0.01)
    assert (one & other).float().mean().item() == pytest.approx(0.04, abs=0.01)
    assert torch.equal(one, random_mask(torch.zeros(200, 100), share=0.2, seed=1))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.slow
def test_training_lowers_the_loss_within_the_copys_own_entries_and_keeps_the_margin(
    architecture: str, timestep: Timestep, cases: list[Case]
) -> None:
    model = small_model(architecture)
    untrained = _editor(model, timestep, steps=1).apply(cases[:1]).loss
    editor = _editor(model, timestep, steps=80, decay=0)
    applied = editor.apply(cases[:1])
    copy = editor.router.copies[0]

    assert applied.loss is not None
    assert untrained is not None
    assert applied.loss < 0.8 * untrained
    assert (copy.change != 0).float().mean().item() == pytest.approx(0.2, abs=0.05)
    assert changed(weights(small_model(architecture)), model) == []
    stirred, _ = _stirred(editor, cases[0])
    assert stirred >= copy.threshold > 0


def _distances(editor: Wise, questions: list[str], copy: int = 0) -> torch.Tensor:
    return editor._distances(editor.router.copies[copy].change, questions)


def _stirred(editor: Wise, case: Case) -> tuple[float, float]:
    """Distance of the one edit's prompts and of the unrelated one that it was trained beside."""
    prompts = [case.question, *(f"{prefix} {case.question}" for prefix in editor.prefixes_of_prompts())]
    unrelated = editor._draw([case], editor._unrelated([case]))
    return float(_distances(editor, prompts).mean()), float(_distances(editor, unrelated).mean())


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.slow
def test_the_margins_drive_edits_and_unrelated_prompts_apart(
    architecture: str, timestep: Timestep, cases: list[Case]
) -> None:
    apart = []
    for margins_kept in ({"alpha": 0, "beta": 1000, "gamma": 1000}, {"alpha": 1e9, "beta": 0, "gamma": 0}):
        editor = _editor(small_model(architecture), timestep, unit=2, steps=30, **margins_kept)
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
    stirred = _distances(editor, questions)
    first.threshold, second.threshold = float(stirred.sort().values[4:6].mean()), float("inf")

    together = _logits(model, questions)
    routed = [bool(row >= first.threshold) for row in stirred]
    assert 0 < sum(routed) < len(routed)
    assert [not torch.equal(a, b) for a, b in zip(before, together, strict=True)] == routed
    for question, row in zip(questions, together, strict=True):
        torch.testing.assert_close(_logits(model, [question])[0], row, atol=1e-4, rtol=1e-4)


def test_a_prompt_goes_to_the_copy_that_moves_it_farthest_of_those_whose_threshold_it_reaches(
    timestep: Timestep, cases: list[Case]
) -> None:
    editor = _editor(small_model(), timestep, shard=1)
    editor.apply(cases[:2])
    questions = [case.question for case in cases[:2]]
    one, two = (_distances(editor, questions, copy).tolist() for copy in (0, 1))
    seen, (first, second) = editor._read(questions), editor.router.copies
    farthest = [int(a < b) for a, b in zip(one, two, strict=True)]

    first.threshold = second.threshold = 1e-6
    assert editor.router.choose(seen) == farthest
    second.threshold = 1e6
    assert editor.router.choose(seen) == [0, 0]
    first.threshold = 1e6
    assert editor.router.choose(seen) == [None, None]


def test_a_long_prompt_is_routed_by_its_strongest_token() -> None:
    """One token of three is moved by 9, the others by nothing: the mean is 3."""
    layer = torch.nn.Linear(1, 1, bias=False)
    inputs = torch.tensor([[0.0, 9.0, 0.0]])[..., None]
    seen = SeenTokens(inputs, torch.zeros_like(inputs), torch.ones(1, 3, dtype=torch.bool))
    for long, routed in ((None, None), (3, None), (2, 0)):
        router = Router(small_model(), Distance(layer), long=long)
        router.copies = [SideCopy(torch.ones(1, 1), threshold=5.0)]
        assert router.choose(seen) == [routed]


def test_prompts_are_routed_without_waiting_for_each_of_them() -> None:
    layer = torch.nn.Linear(3, 3, bias=False)
    router, waits = Router(small_model(), Distance(layer), long=None), []
    router.copies = [SideCopy(torch.eye(3), threshold=0.5), SideCopy(2 * torch.eye(3), threshold=2.5)]
    for rows in (2, 50):
        inputs = torch.linspace(0, 2, rows)[:, None, None].expand(rows, 4, 3)
        seen = SeenTokens(inputs, torch.zeros_like(inputs), torch.ones(rows, 4, dtype=torch.bool))
        with counted_waits() as found:
            routes = router.choose(seen)
        assert set(routes[:1]) == {None}
        assert routes[-1] == 1
        waits.append(found)

    assert waits == [["tolist"]] * 2


@pytest.mark.parametrize(("distance", "expected"), [("activated", "gelu"), ("plain", None)])
def test_distances_are_those_of_the_definition(
    distance: str, expected: str | None, timestep: Timestep, cases: list[Case]
) -> None:
    """Mean over tokens of |act(W'x) - act(Wx)|, by the layer itself with its weight replaced."""
    model = small_model("gpt2")
    editor = _editor(model, timestep, distance=distance, steps=3)
    editor.apply(cases[:1])
    change, question = editor.router.copies[0].change, cases[0].question
    layer, seen = model.blocks[1].down_projection, editor._read([question])
    before = layer(seen.inputs)
    own = layer.weight.detach().clone()
    layer.weight.data += change
    after = layer(seen.inputs)
    layer.weight.data = own
    if expected:
        act = torch.nn.GELU(approximate="tanh")
        before, after = act(before), act(after)

    torch.testing.assert_close(
        editor._distances(change, [question])[0], (after - before).norm(dim=-1).mean().detach(), atol=1e-5, rtol=1e-4
    )


def test_a_step_is_gradient_descent_with_decay_of_the_copy_itself_and_a_bound(
    timestep: Timestep, cases: list[Case]
) -> None:
    """By torch's own SGD with weight decay on W' = W + change, the gradient masked."""
    editors = {
        name: _editor(small_model(), timestep, steps=1, learning_rate=0.5, unit=1, margin_weight=1, **own)
        for name, own in {"plain": {"decay": 0}, "decayed": {"decay": 1e-2}, "bound": {"clamp": 1e-3}}.items()
    }
    for editor in editors.values():
        editor.apply(cases[:1])
    plain, decayed, bound = (editor.router.copies[0].change for editor in editors.values())
    weight = small_model().blocks[1].down_projection.weight.detach()
    copy = torch.nn.Parameter(weight.clone())
    copy.grad = -plain / 0.5
    torch.optim.SGD([copy], lr=0.5, weight_decay=1e-2 / 0.5).step()

    torch.testing.assert_close(weight + decayed, copy.detach())
    assert bound.abs().max().item() == pytest.approx(1e-3)
    assert (plain.abs() > 1e-3).any()


def test_training_ends_once_the_loss_has_settled_below_the_stop_loss(timestep: Timestep, cases: list[Case]) -> None:
    one, settled, never = (
        _editor(small_model(), timestep, steps=6, stop_loss=1e9, stop_change=change).apply(cases[:1]).loss
        for change in (0, 1e9, 0)
    )
    two = _editor(small_model(), timestep, steps=2).apply(cases[:1]).loss

    assert settled == two, "the second loss is the first that can have settled"
    assert one == never != two


def test_an_edit_is_learned_behind_what_the_model_goes_on_with(timestep: Timestep, cases: list[Case]) -> None:
    model = small_model()
    editor = _editor(model, timestep, prefixes=10, steps=1)
    written = editor.prefixes_of_prompts()

    assert [text.split(" ")[0][:1] for text in written] == ["I", "Y", "B", "Y", "Q"] * 2
    ids = model.encode("I")
    for text, tokens in ((written[0], 5), (written[5], 10)):
        expected = list(ids)
        for _ in range(tokens):
            with torch.no_grad():
                logits = model.module(torch.tensor([expected])).logits[0, -1]
            logits[sorted(model.end_ids)] = -torch.inf
            expected.append(int(logits.argmax()))
        assert text == model.decode(expected)
    assert len(_editor(model, timestep, prefixes=3).prefixes_of_prompts()) == 3
    assert _editor(model, timestep, prefixes=0).prefixes_of_prompts() == []
    editor.apply(cases[:1])
    assert editor.router.copies[0].shortest == len(model.encode(cases[0].question))


@pytest.mark.parametrize("how", ["ties", "magnitude", "linear", "dare_linear"])
def test_copies_are_merged_as_peft_merges(how: str) -> None:
    changes = [torch.randn(30, 20, generator=torch.Generator().manual_seed(seed)) for seed in (0, 1)]
    halves = torch.full((2,), 0.5)
    torch.manual_seed(5)
    expected = {
        "ties": lambda: ties(changes, torch.ones(2), 0.4),
        "magnitude": lambda: magnitude_prune(changes, halves, 0.4),
        "linear": lambda: task_arithmetic(changes, halves),
        "dare_linear": lambda: dare_linear(changes, halves, 0.4) * 0.4,  # as published, nothing is scaled up
    }[how]()
    torch.manual_seed(5)

    torch.testing.assert_close(merged(changes, [0.5, 0.5], how=how, density=0.4), expected)


@pytest.mark.filterwarnings("ignore:The density")
def test_signs_are_agreed_on_by_weight() -> None:
    """0.6 x 4 beats 0.4 x -2 in the first entry; both count in the second, 0.6 x 1 and 0.4 x 3."""
    changes = [torch.tensor([4.0, 1.0]), torch.tensor([-2.0, 3.0])]

    for how, expected in (("ties", [4.0, 1.8]), ("dare_ties", [2.4, 1.8])):
        found = merged(changes, [0.6, 0.4], how=how, density=1.0)
        torch.testing.assert_close(found, torch.tensor(expected))


def test_slerp_ends_halfway_on_the_arc_between_two_copies_and_on_the_line_where_they_are_nearly_one() -> None:
    """Of lengths 3 and 5, at a right angle and at 120 degrees: by sin(t a) / sin(a) of each, a the angle."""
    original = torch.tensor([[1.0, -2.0, 0.5]])
    one = torch.tensor([[3.0, 0.0, 0.0]])
    for degrees in (90, 120):
        angle = math.radians(degrees)
        other = 5 * torch.tensor([[math.cos(angle), math.sin(angle), 0.0]])
        share = math.sin(angle / 2) / math.sin(angle)
        found = slerp_midpoint([one - original, other - original], original)
        torch.testing.assert_close(original + found, share * one + share * other)
    unit = slerp_midpoint([one / 3 - original, other / 5 - original], original) + original
    assert unit.norm().item() == pytest.approx(1), "it stays on the sphere"

    near = [one - original, 1.2 * one + 0.01 - original]
    torch.testing.assert_close(slerp_midpoint(near, original), (near[0] + near[1]) / 2)


def test_two_copies_are_merged_by_slerp_and_other_numbers_of_them_refused(
    timestep: Timestep, cases: list[Case]
) -> None:
    apart = _editor(small_model(), timestep, shard=1, steps=5, learning_rate=5.0)
    together = _editor(small_model(), timestep, shard=1, steps=5, learning_rate=5.0, merge="slerp", merge_every=2)
    for editor in (apart, together):
        editor.apply(cases[:2])
    changes = [copy.change for copy in apart.router.copies]
    (copy,) = together.router.copies
    torch.testing.assert_close(
        copy.change, slerp_midpoint(changes, small_model().blocks[1].down_projection.weight.detach())
    )

    for given in ({"merge_every": 3}, {"merge_every": 2, "retrieve": False}):
        with pytest.raises(SpecError, match="slerp merges two copies"):
            _editor(small_model(), timestep, shard=1, merge="slerp", **given)


def test_the_replay_loss_holds_others_prompts_below_alpha_and_its_own_above_beta() -> None:
    """A copy that adds the input again moves a token by its length; two tokens of the second prompt are padding."""

    def seen(*lengths: list[float]) -> SeenTokens:
        inputs = torch.tensor(lengths)[..., None]
        return SeenTokens(inputs, torch.zeros_like(inputs), torch.tensor(lengths) > 0)

    distance, change = Distance(torch.nn.Linear(1, 1, bias=False)), torch.ones(1, 1)
    others = seen([4.0, 8.0, 12.0], [0.0, 0.0, 3.0])

    assert float(Replay(others, None).loss(distance, change, alpha=5, beta=20)) == (3 + 0) / 2
    assert float(Replay(others, seen([14.0])).loss(distance, change, alpha=5, beta=20)) == 1.5 + 6
    assert float(Replay(others, seen([21.0])).loss(distance, change, alpha=9, beta=20)) == 0


def test_an_edit_is_learned_beside_one_of_each_merged_copy_and_one_since_the_last_merge(
    timestep: Timestep, cases: list[Case]
) -> None:
    editor = _editor(small_model(), timestep, shard=1, merge_every=2, replay=5, steps=1)
    read: list[list[str]] = []
    own = editor._replay

    def replay(batch: list[Case]) -> Replay | None:
        whole = editor._read
        editor._read = lambda prompts: read.append(list(prompts)) or whole(prompts)
        found = own(batch)
        editor._read = whole
        return found

    editor._replay = replay
    questions = [case.question for case in cases]
    picked = []
    for case in cases[:6]:
        read.clear()
        editor.apply([case])
        picked.append([[questions.index(prompt) // 2 for prompt in prompts] for prompts in read])

    assert picked == [[], [], [[0]], [[0], [1]], [[0, 1]], [[0, 1], [2]]]
    assert [len(copy.prompts) for copy in editor.router.copies] == [2, 2, 2]


def test_replay_keeps_a_copy_from_moving_the_prompts_of_others(timestep: Timestep, cases: list[Case]) -> None:
    moved = []
    for replay in (0, 5):
        given = {"alpha": 1, "beta": 0, "gamma": 0, "unit": 0.5, "replay": replay}
        editor = _editor(small_model(), timestep, shard=1, merge_every=1, steps=10, **given)
        editor.apply(cases[:2])
        moved.append(float(_distances(editor, [cases[0].question], copy=1)))

    assert moved[1] < 0.85 * moved[0]


def test_a_step_is_the_sum_of_those_of_its_edits_and_the_mean_over_contexts(
    timestep: Timestep, cases: list[Case]
) -> None:
    bare, other = Context("bare", "{question}"), Context("other", "Question: {question} Answer:")

    def change(batch: list[Case], *contexts: Context) -> torch.Tensor:
        given = {"layer": 1, "prefixes": 2, "batch": 4, "steps": 1, "decay": 0}
        given |= {"learning_rate": 1.0, "margin_weight": 1e-9}
        editor = make_editor("wise", small_model(), given, contexts=contexts, seed=7)
        editor.prepare(timestep.known_facts(), advance=ignore)
        editor.apply(batch)
        (copy,) = editor.router.copies
        return copy.change

    alone = sum(change([case], bare) for case in cases[:4])
    torch.testing.assert_close(change(cases[:4], bare), alone, rtol=1e-3, atol=1e-6)
    mean = (change(cases[:1], bare) + change(cases[:1], other)) / 2
    torch.testing.assert_close(change(cases[:1], bare, other), mean, rtol=1e-3, atol=1e-6)


def test_shards_fill_and_merge_by_ties(timestep: Timestep, cases: list[Case]) -> None:
    given = {"remeasured": 1000, "ratio": 0.5, "decay": 0}
    apart = _editor(small_model(), timestep, shard=2, merge_every=1000, **given)
    apart.apply(cases[:4])
    merged = _editor(small_model(), timestep, shard=2, merge_every=4, **given)
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


def test_a_threshold_is_the_least_distance_of_an_edits_prompts_times_the_ratio(
    timestep: Timestep, cases: list[Case]
) -> None:
    editor = _editor(small_model(), timestep, ratio=0.7)
    editor.apply(cases[:1])
    prompts = [cases[0].question, *(f"{prefix} {cases[0].question}" for prefix in editor.prefixes_of_prompts())]

    assert editor.router.copies[0].threshold == pytest.approx(0.7 * float(_distances(editor, prompts).min()), rel=1e-4)


def test_merged_copies_stay_side_by_side_unless_there_is_to_be_one(timestep: Timestep, cases: list[Case]) -> None:
    side_by_side = _editor(small_model(), timestep, shard=1, merge_every=2, steps=5)
    one = _editor(small_model(), timestep, shard=1, merge_every=2, steps=5, retrieve=False)
    apart = _editor(small_model(), timestep, shard=1, steps=5)
    for editor in (side_by_side, one, apart):
        editor.apply(cases[:4])
    changes = [copy.change for copy in apart.router.copies]
    thresholds = [copy.threshold for copy in apart.router.copies]
    pairs = [merged(changes[start : start + 2], [0.5, 0.5], how="ties", density=0.53) for start in (0, 2)]

    for copy, expected, least in zip(side_by_side.router.copies, pairs, (thresholds[:2], thresholds[2:]), strict=True):
        torch.testing.assert_close(copy.change, expected)
        assert copy.threshold == pytest.approx(min(least)), "as published, that of the copies before"
    (single,) = one.router.copies
    expected = merged([pairs[0], *changes[2:]], [0.6, 0.2, 0.2], how="ties", density=0.53)
    torch.testing.assert_close(single.change, expected)
    assert single.threshold == pytest.approx(min(thresholds))


def test_a_merge_reads_a_bounded_sample_of_all_prompts_again(timestep: Timestep, cases: list[Case]) -> None:
    editor = _editor(small_model(), timestep, shard=2, merge_every=2, remeasured=3, steps=1, retrieve=False)
    read: list[int] = []
    own = editor._read
    editor._read = lambda prompts, **width: read.append(len(prompts)) or own(prompts, **width)
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


def test_further_edits_of_a_saved_model_are_trained_beside_the_same_known_facts(
    timestep: Timestep, cases: list[Case]
) -> None:
    editor = _editor(small_model(), timestep)
    editor.apply(cases[:1])
    memory = editor.memory()
    record = json.loads(json.dumps(memory.record))
    again, older = (make_editor("wise", small_model(), {"layer": 1, "steps": 8, "prefixes": 2}, seed=7) for _ in "ab")
    again.load_memory(EditorState(memory.tensors, record))
    for one in (editor, again):
        one.apply(cases[1:2])

    assert again._unrelated(cases) == editor._unrelated(cases)
    assert torch.equal(again.router.copies[0].change, editor.router.copies[0].change)
    del record["known_facts"]
    older.load_memory(EditorState(memory.tensors, record))
    assert older.apply(cases[1:2]).loss is not None


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


def test_copies_that_were_saved_are_loaded_to_the_device_of_their_matrix() -> None:
    """Routing moves a copy to the device of its inputs; without this it would do so at every token."""
    with other_devices() as (first, _):
        model = small_model()
        model.module.to(first)
        editor = make_editor("wise", model, {"layer": 1})
        record = {"thresholds": [1.0], "prompts": [["Who?"]], "shortest": [2], "counts": [1, 1, 1], "scale": None}
        editor.load_state(EditorState({"0": torch.zeros(2, 2)}, record))
        assert [copy.change.device for copy in editor.router.copies] == [first]


def test_an_interrupted_batch_leaves_no_side_copy(
    cases: list[Case], timestep: Timestep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A merge would give an untrained copy a share, and its number seeds the masks of later copies."""
    editor, never = (_editor(small_model(), timestep, shard=1, batch=1, steps=1) for _ in range(2))
    for one in (editor, never):
        one.apply(cases[:1])
    kept = list(editor.router.copies)

    def interrupt(*args: Any, **kwargs: Any) -> None:
        raise KeyboardInterrupt

    untrained = _editor(small_model(), timestep)
    with monkeypatch.context() as patch:
        patch.setattr(torch.autograd, "backward", interrupt)
        patch.setattr(torch.autograd, "grad", interrupt)
        for one in (editor, untrained):
            with pytest.raises(KeyboardInterrupt):
                one.apply(cases[1:2])

    assert editor.router.copies == kept
    for one in (editor, never):
        one.apply(cases[1:2])
    assert torch.equal(editor.router.copies[1].change, never.router.copies[1].change)
    assert editor.state().record == never.state().record
    assert untrained.state().record == _editor(small_model(), timestep).state().record, "no scale either"
