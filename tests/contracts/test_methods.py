"""Contract of every editing method, on random models of a dozen architectures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import cpu_offload, dispatch_model
from world.other_devices import KIND, gpus, other_devices, spread_over
from world.quick_settings import QUICK
from world.small_models import ALL_ARCHITECTURES, ARCHITECTURES, changed, small_model, weights
from world.small_timestep import write_timestep

from kgedit.editing import METHODS, make_editor, settings_type_of
from kgedit.editing.editor import AppliedEdits, Editor, EditorState, Prefix, RunContext
from kgedit.editing.hparams.settings import Settings, meanings
from kgedit.llm import devices
from kgedit.llm.contexts import read_context
from kgedit.llm.generation import Question, ask
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.presets import PRESETS
from kgedit.llm.shared_reading import shares_beginnings
from kgedit.llm.surgery.matrices import named_values
from kgedit.progress import ignore
from kgedit.records.cases import Case, KnownFact
from kgedit.records.runs import PROTOCOLS
from kgedit.runs.checkpoints import CallCheckpoint, Checkpoint, Checkpoints
from kgedit.timesteps.timestep import Timestep

SAME_LAYERS = {
    **dict.fromkeys(("ft_l", "ft_m"), "ft"),
    **dict.fromkeys(("r_rome", "c_rome"), "rome"),
    **dict.fromkeys(("encore", "rlsedit", "lyaplock"), "memit"),
    **dict.fromkeys(("ike", "graph_rag", "rag", "prompt"), "none"),
    "anyedit": "alphaedit",
    "si": "ewc",
    "stableedit": "ultraedit",
}
"""Methods that find layers and read activations with the code of another method, or, like "none", do neither.

Like every method they are tested on the three architectures that differ most. The other ten differ in the names and
shapes of their layers, so there the method with that code is tested alone.
"""

EVERY_PAIR = [
    pytest.param(name, architecture, marks=[] if architecture in ARCHITECTURES else pytest.mark.slow)
    for architecture in ALL_ARCHITECTURES
    for name in METHODS
    if architecture in ARCHITECTURES or name not in SAME_LAYERS
]
"""For parametrize: plain pytest takes every method on three architectures, `make test` those that differ on all."""

IN_FLOAT64 = (
    "rome", "r_rome", "c_rome", "memit", "encore", "rlsedit", "lyaplock", "anyedit", "alphaedit", "unke",
    "crispedit", "mend", "stableedit", "ultraedit", "grace",
)  # fmt: skip
"""Methods that convert numbers to float64: on the model's device, or in main memory if the device has no such format.

Both ways are tested. All other methods are tested on devices that refuse float64.
"""

OFFLOADED = [
    pytest.param(name, architecture, disk, marks=[] if name in ("ft", "memit") else pytest.mark.slow)
    for architecture, disk in (("llama", False), ("gpt2", True))
    for name in METHODS
    if disk or name not in SAME_LAYERS
]
"""For parametrize: every method with weights on disk, those that differ in their layers also with weights in main
memory. Plain pytest takes two methods."""

ASKED = tuple(read_context(name) for name in ("question_only", "instruction"))


TWO_STEPS = {
    name: {
        key: min(value, 2) if key in ("steps", "epochs", "train_steps", "prompts") else value
        for key, value in settings.items()
    }
    for name, settings in QUICK.items()
}
"""A second step uses what the first has left, such as the optimizer's moments; a third does nothing else. Only a call
that resumes half way needs more."""


def _editor(
    name: str,
    model: LanguageModel,
    known: list[KnownFact],
    *,
    settings: Mapping[str, dict[str, Any]] = TWO_STEPS,
    **given: object,
) -> Editor[Any]:
    editor = make_editor(name, model, {**settings.get(name, {}), **given}, contexts=ASKED, seed=7)
    if editor.capabilities.needs_known_facts:
        editor.prepare(known, advance=ignore)
    return editor


def _answers(editor: Editor[Any], cases: list[Case], *, tokens: int = 2) -> list[str]:
    """Answers of a random model, which never ends one. Tokens after the first are computed with the cache."""
    prefixes = editor.prefixes([case.question for case in cases])
    questions = [Question(p.worded(ASKED[0]) + c.question, c.answer) for p, c in zip(prefixes, cases, strict=True)]
    return [reply.text for reply in ask(editor.model, questions, replace(PRESETS["wild_line"], max_new_tokens=tokens))]


@dataclass(frozen=True)
class PlainEdit:
    """A model of one architecture before and after an edit of the first two cases, on the CPU.

    Attributes:
        unedited: First tokens of the answers before the edit.
        beginnings: First tokens of the answers after it. Another state is recognised by them; that later tokens, which
            are computed with the cache, are the same is seen once per place, in `answers`.
        answers: Answers after the edit.
    """

    before: dict[str, torch.Tensor]
    unedited: list[str]
    after: dict[str, torch.Tensor]
    beginnings: list[str]
    answers: list[str]


@pytest.fixture(scope="module")
def plain_edit(cases: list[Case], known: list[KnownFact]) -> Callable[[str, str], PlainEdit]:
    """Computed once for each method and architecture, because models placed in several ways are compared with it."""

    @cache
    def edited(name: str, architecture: str) -> PlainEdit:
        model = small_model(architecture)
        before, editor = weights(model), _editor(name, model, known)
        unedited = _answers(editor, cases, tokens=1)
        editor.apply(cases[:2])
        beginnings = _answers(editor, cases, tokens=1)
        return PlainEdit(before, unedited, weights(model), beginnings, _answers(editor, cases))

    return edited


def _hooks(model: LanguageModel) -> int:
    modules = list(model.module.modules())
    return sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in modules)


@pytest.fixture(scope="module")
def timestep(tmp_path_factory: pytest.TempPathFactory) -> Timestep:
    return write_timestep(tmp_path_factory.mktemp("timestep"), towns=range(4))


@pytest.fixture(scope="module")
def cases(timestep: Timestep) -> list[Case]:
    return list(timestep.cases())


@pytest.fixture(scope="module")
def known(timestep: Timestep) -> list[KnownFact]:
    return timestep.known_facts()


@pytest.fixture(autouse=True)
def _own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGEDIT_HOME", str(tmp_path_factory.getbasetemp() / "contracts-home"))


@pytest.mark.parametrize("name", METHODS)
def test_a_method_declares_what_it_can_do(name: str) -> None:
    method = METHODS[name]

    assert method.capabilities.protocols
    assert set(method.capabilities.protocols) <= set(PROTOCOLS)
    assert method.__doc__ is not None
    assert issubclass(method.settings_type, Settings)
    assert all(meanings(method.settings_type).values())
    assert settings_type_of(name) is method.settings_type


@pytest.mark.parametrize("name", METHODS)
def test_making_an_editor_changes_nothing(name: str, cases: list[Case], known: list[KnownFact]) -> None:
    model = small_model()
    before = weights(model)
    editor = _editor(name, model, known)

    assert changed(before, model) == []
    assert editor.prefixes(["Who?"]) == [Prefix()]
    assert isinstance(editor.details(), dict)


@pytest.mark.parametrize(("name", "architecture"), EVERY_PAIR)
def test_an_edit_touches_what_is_declared_and_restoring_gives_every_bit_back(
    name: str, architecture: str, cases: list[Case], known: list[KnownFact]
) -> None:
    model = small_model(architecture)
    editor, before, hooks = _editor(name, model, known), weights(model), _hooks(model)
    unedited = _answers(editor, cases)

    assert isinstance(editor.apply(cases[:2]), AppliedEdits)
    declared = editor.capabilities
    assert bool(changed(before, model)) == (declared.changes_weights or declared.adds_modules)
    prefixed = any(prefix.parts for prefix in editor.prefixes([cases[0].question]))
    assert prefixed == declared.changes_prompt or (declared.changes_weights and not prefixed)

    editor.restore()
    assert changed(before, model) == []
    assert _hooks(model) == hooks
    assert not model.module.training
    assert all(parameter.grad is None and not parameter.requires_grad for parameter in model.module.parameters())
    assert _answers(editor, cases) == unedited


@pytest.mark.parametrize(
    ("name", "architecture", "spread"),
    [*((name, "gptj", False) for name in IN_FLOAT64), *((name, "llama", True) for name in METHODS)],
)
@pytest.mark.slow
def test_a_model_on_a_device_without_float64_or_spread_over_two_others_takes_the_same_edit(
    name: str,
    architecture: str,
    spread: bool,
    cases: list[Case],
    known: list[KnownFact],
    plain_edit: Callable[[str, str], PlainEdit],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No method combines tensors of two devices, not even after its state is loaded from a file.

    Apple's GPUs have no float64: equations in it are solved in main memory.
    """
    plain = plain_edit(name, architecture)
    if not spread:
        monkeypatch.setattr(devices, "_WITHOUT_FLOAT64", {KIND})
    without = [] if spread and name in IN_FLOAT64 else [torch.float64]
    with gpus(without=without) if spread else other_devices(without=without) as (first, second):
        placed = small_model(architecture)
        if spread:
            spread_over(placed.module, first, second)
        else:
            placed.module.to(first)
        before = weights(placed)
        editor = _editor(name, placed, known)
        editor.apply(cases[:2])
        assert {tensor.device for tensor in placed.module.parameters()} == ({first, second} if spread else {first})
        for key, weight in weights(placed).items():
            torch.testing.assert_close(weight.cpu(), plain.after[key], rtol=1e-3, atol=1e-4)
        assert _answers(editor, cases) == plain.answers

        checkpoints = Checkpoints(tmp_path)
        checkpoints.save(Checkpoint("t", 2, 1, editor.state()))
        editor.restore()
        assert changed(before, placed) == []
        found = checkpoints.newest()
        assert found is not None
        editor.load_state(found.state)
        assert _answers(editor, cases, tokens=1) == plain.beginnings


def _offload(module: Any, folder: Path, device: torch.device) -> None:
    """Let accelerate keep every weight in main memory, or, with a folder, those of two of three blocks on disk.

    Args:
        device: Device that computes.
    """
    if not folder.is_dir():
        cpu_offload(module, device)
        return
    blocks = next(name for name, part in module.named_modules() if isinstance(part, torch.nn.ModuleList))
    leaves = [name for name, part in module.named_modules() if name and not any(True for _ in part.children())]
    on_disk = (f"{blocks}.0.", f"{blocks}.2.")
    places = {name: "disk" if name.startswith(on_disk) else "cpu" for name in leaves}
    dispatch_model(module, places, main_device=str(device), offload_dir=str(folder))


@pytest.mark.parametrize(("name", "architecture", "disk"), OFFLOADED)
def test_a_model_whose_weights_are_offloaded_takes_the_same_edit(
    name: str,
    architecture: str,
    disk: bool,
    cases: list[Case],
    known: list[KnownFact],
    plain_edit: Callable[[str, str], PlainEdit],
    tmp_path: Path,
) -> None:
    """Weights are on the meta device between forward passes; the matrices that are edited are kept loaded.

    A GPU computes with weights from main memory; those on disk are computed with on the CPU, to the same bits. In both,
    accelerate replaces the forward of each module by one that moves tensors.
    """
    plain = plain_edit(name, architecture)
    with nullcontext((torch.device("cpu"),)) if disk else gpus() as (device, *_):
        offloaded = small_model(architecture)
        _offload(offloaded.module, tmp_path if disk else tmp_path / "none", device)
        editor = _editor(name, offloaded, known)
        if disk:
            assert _answers(editor, cases, tokens=1) == plain.unedited
        editor.apply(cases[:2])
        _assert_equal(offloaded, plain.after, exactly=disk)
        assert _answers(editor, cases) == plain.answers
        state = editor.state()
        editor.restore()
        _assert_equal(offloaded, plain.before, exactly=True)
        editor.load_state(state)
        assert _answers(editor, cases, tokens=1) == plain.beginnings


def _assert_equal(model: LanguageModel, expected: dict[str, torch.Tensor], *, exactly: bool) -> None:
    found = {name: tensor.cpu() for name, tensor in named_values(model.module)}
    assert found.keys() == expected.keys()
    tolerance = {"rtol": 0.0, "atol": 0.0} if exactly else {"rtol": 1e-3, "atol": 1e-4}
    for key, weight in found.items():
        torch.testing.assert_close(weight, expected[key], **tolerance)


@dataclass(frozen=True)
class EditedModel:
    """An edited model that several tests read, and that is in the same state after each of them.

    Attributes:
        parameters: Its own parameters, without those that the method added.
        once: Its weights after the first two cases were edited.
        asked: Whether any of these wanted a gradient, for each forward pass up to then.
    """

    editor: Editor[Any]
    parameters: list[torch.nn.Parameter]
    once: dict[str, torch.Tensor]
    asked: list[bool]


@pytest.fixture(scope="module")
def edited_model(cases: list[Case], known: list[KnownFact]) -> Callable[[str], EditedModel]:
    """One of each method, made once."""

    @cache
    def edited(name: str) -> EditedModel:
        model = small_model()
        parameters = list(model.module.parameters())
        asked: list[bool] = []

        def look(module: torch.nn.Module, inputs: Any, output: Any) -> None:
            asked.append(any(parameter.requires_grad for parameter in parameters))

        with model.module.get_output_embeddings().register_forward_hook(look):
            editor = _editor(name, model, known)
            editor.apply(cases[:2])
            _answers(editor, cases)
        return EditedModel(editor, parameters, weights(model), asked)

    return edited


@pytest.mark.parametrize("name", METHODS)
def test_the_same_edits_after_restoring_give_the_same_weights(
    name: str, cases: list[Case], edited_model: Callable[[str], EditedModel]
) -> None:
    edited = edited_model(name)
    edited.editor.restore()
    edited.editor.apply(cases[:2])

    assert changed(edited.once, edited.editor.model) == []


@pytest.mark.parametrize("name", METHODS)
def test_an_interrupted_call_keeps_earlier_edits_and_can_be_restored(
    name: str, cases: list[Case], edited_model: Callable[[str], EditedModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C in the first step of a further call: edits that are hooks still answer, and no module is left over."""
    editor = edited_model(name).editor
    answers = _answers(editor, cases[:2], tokens=1)

    def interrupt(*args: Any, **kwargs: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, suppress(KeyboardInterrupt):
        for function in ("backward", "grad"):
            patched.setattr(torch.autograd, function, interrupt)
        editor.apply(cases[2:])

    assert not editor.model.module.training
    if editor.capabilities.changes_forward:
        assert _answers(editor, cases[:2], tokens=1) == answers
    editor.restore()
    assert changed(weights(small_model()), editor.model) == []
    editor.apply(cases[:2])
    assert changed(edited_model(name).once, editor.model) == []
    assert _answers(editor, cases[:2], tokens=1) == answers


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.slow
def test_a_saved_state_goes_on_as_if_nothing_had_happened(
    name: str, cases: list[Case], known: list[KnownFact], tmp_path: Path
) -> None:
    unbroken = _editor(name, small_model(), known)
    unbroken.apply(cases[:2])
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(Checkpoint("t", 2, 1, unbroken.state()))
    answers = _answers(unbroken, cases, tokens=4)
    unbroken.apply(cases[2:])

    resumed = _editor(name, small_model(), known)
    found = checkpoints.newest()
    assert found is not None
    resumed.load_state(found.state)
    assert _answers(resumed, cases, tokens=4) == answers
    resumed.apply(cases[2:])

    assert changed(weights(unbroken.model), resumed.model) == []
    assert resumed.prefixes([cases[0].question]) == unbroken.prefixes([cases[0].question])


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.slow
def test_a_call_that_was_cut_short_resumes_from_any_of_its_checkpoints(
    name: str, cases: list[Case], known: list[KnownFact], tmp_path: Path
) -> None:
    whole = _editor(name, small_model(), known, settings=QUICK)
    checkpoints, kept = Checkpoints(tmp_path), []

    def checkpoint(state: Callable[[], EditorState]) -> None:
        saved = CallCheckpoint("t", 1, 2, seconds=1, cpu_seconds=1, state=state())
        checkpoints.save_call(saved)
        kept.append(checkpoints.of_call("t", 1, 2))

    whole.apply(cases[:1])
    before = whole.state()
    applied = whole.apply(cases[1:3], RunContext(checkpoint=checkpoint))

    assert bool(kept) == whole.capabilities.resumes_calls
    for saved in kept:
        resumed = _editor(name, small_model(), known, settings=QUICK)
        resumed.load_state(before)
        assert resumed.apply(cases[1:3], RunContext(resume=saved.state)) == applied
        assert changed(weights(whole.model), resumed.model) == []


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.slow
def test_a_case_that_cannot_be_edited_keeps_no_other_from_it(
    name: str, cases: list[Case], known: list[KnownFact]
) -> None:
    """ROME and related methods need the subject in the question; a failure names the case and the reason."""
    unusable = replace(cases[1], question="Who leads this town?")
    mixed, alone = small_model(), small_model()
    applied = _editor(name, mixed, known).apply([cases[0], unusable, *cases[2:]])
    if not applied.failures:
        return
    assert [failure.case_id for failure in applied.failures] == [unusable.case_id]
    assert "'Borgholm' is not in the question" in applied.failures[0].reason
    assert _editor(name, alone, known).apply([cases[0], *cases[2:]]).loss == applied.loss
    assert changed(weights(alone), mixed) == []


@pytest.mark.parametrize(
    ("name", "number_format"),
    [
        *((name, torch.bfloat16) for name in METHODS),
        *((name, torch.float16) for name in ("ft_m", "lora", "memit", "mend", "memoir", "wise")),
    ],
)
@pytest.mark.slow
def test_a_narrow_model_on_a_gpu_is_edited_and_restored_too(
    name: str, number_format: torch.dtype, cases: list[Case], known: list[KnownFact]
) -> None:
    """The formats that `--dtype auto` takes on GPUs. Whatever a method computes in another format, it converts."""
    with gpus() as (first, _):
        model = small_model()
        model.module.to(first, number_format)
        before, editor = weights(model), _editor(name, model, known)
        editor.apply(cases[:1])
        _answers(editor, cases[:2])
        editor.restore()

        assert changed(before, model) == []
        assert {tensor.device for tensor in model.module.parameters()} == {first}


@pytest.mark.parametrize("name", METHODS)
def test_texts_that_share_what_they_begin_with_get_the_answers_of_texts_read_whole(
    name: str, cases: list[Case], edited_model: Callable[[str], EditedModel]
) -> None:
    """A method whose hooks look at rows has declared so, and then nothing is shared."""
    editor = edited_model(name).editor
    model = editor.model
    assert shares_beginnings(model, 100) != editor.capabilities.changes_forward
    shared = _answers(editor, cases, tokens=4)
    model.row_readers.append("this test")
    whole = shares_beginnings(model, 100), _answers(editor, cases, tokens=4)
    model.row_readers.pop()

    assert whole == (False, shared)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.slow
def test_a_second_model_in_the_same_process_is_unaffected(name: str, cases: list[Case], known: list[KnownFact]) -> None:
    edited, other = small_model(), small_model(seed=3)
    before, fresh = weights(other), _editor(name, other, known)
    unedited = _answers(fresh, cases, tokens=4)
    _editor(name, edited, known).apply(cases[:2])

    assert changed(before, other) == []
    assert _answers(fresh, cases, tokens=4) == unedited
    alone, beside = small_model(seed=3), fresh
    same = _editor(name, alone, known)
    same.apply(cases[2:])
    beside.apply(cases[2:])
    assert changed(weights(alone), other) == []
    assert _answers(same, cases, tokens=4) == _answers(beside, cases, tokens=4)


@pytest.mark.parametrize("name", METHODS)
def test_an_edit_of_a_frozen_model_asks_no_gradient_of_other_modules(
    name: str, edited_model: Callable[[str], EditedModel]
) -> None:
    edited = edited_model(name)

    assert edited.asked
    assert not any(edited.asked)
    assert all(parameter.grad is None for parameter in edited.parameters)


@pytest.mark.parametrize("name", ["rome", "memit", "alphaedit"])
def test_equations_that_are_solved_in_main_memory_give_the_same_matrices(
    name: str, cases: list[Case], known: list[KnownFact]
) -> None:
    plain = small_model()
    _editor(name, plain, known).apply(cases[:2])
    with other_devices() as (first, _):
        placed = small_model()
        placed.module.to(first)
        editor = _editor(name, placed, known, solve_on="cpu")
        editor.apply(cases[:2])
        assert editor.solving_device(editor.layers[0]) == torch.device("cpu")
        for key, weight in weights(placed).items():
            torch.testing.assert_close(weight.cpu(), weights(plain)[key], rtol=1e-3, atol=1e-4)
