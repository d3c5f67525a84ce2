"""docs/gpu.md: its table of memory is that of the code, and its check finds differences."""

from __future__ import annotations

import copy
import dataclasses
import gc
import json
import runpy
import types
import weakref
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from world.quick_settings import QUICK
from world.small_models import save, small_model, tokenizer
from world.small_timestep import write_timestep

from kgedit.editing import METHODS, make_editor
from kgedit.llm.contexts import read_context
from kgedit.llm.language_model import LanguageModel

ROOT = Path(__file__).parents[3]
MEMORY: Any = runpy.run_path(str(ROOT / "docs" / "gpu_memory.py"))
LARGE: Any = runpy.run_path(str(ROOT / "docs" / "gpu_large.py"))
CHECK: Any = runpy.run_path(str(ROOT / "docs" / "gpu_check.py"))
CLOSED_FORMS = ("rome", "r_rome", "c_rome", "memit", "encore", "rlsedit", "alphaedit", "anyedit")
# With every direction closed no eigenvector is left out, as the page assumes.
ALL_CLOSED = {"steps": 1, "least_steps": 0, "tokens": 400, "length": 32, "share": 1.0, "chunk": 100}
PROMPTS = {"wise": 11, "memoir": 3, "stableedit": 3, "mend": 3}
"""Prompts that a method trains on together, where they are more than the edit's own."""


@pytest.fixture(scope="module", autouse=True)
def _everything_is_imported() -> None:
    """Import all methods before memory is looked at: each look at what peft imports takes half a second."""
    for name in MEMORY["NEEDS"]:
        assert METHODS[name]


@pytest.fixture(autouse=True)
def _only_new_things(_everything_is_imported: None) -> None:
    """What was there before a test is neither collected nor counted in it."""
    gc.collect()
    gc.freeze()


@cache
def _prototype() -> Any:
    torch.manual_seed(0)
    config = {"hidden_size": 256, "intermediate_size": 1024, "num_hidden_layers": 3, "num_attention_heads": 4}
    ends = {"bos_token_id": None, "eos_token_id": 0, "pad_token_id": 0}
    module = transformers.AutoModelForCausalLM.from_config(
        transformers.LlamaConfig(**config, **ends, num_key_value_heads=2, vocab_size=len(tokenizer())),
        dtype=torch.bfloat16,
    )
    return module.eval().requires_grad_(False)


def _wider_model() -> LanguageModel:
    """Matrices are much larger than what is kept of a prompt, as in large models."""
    return LanguageModel("", "", copy.deepcopy(_prototype()), tokenizer())


def _tensors() -> list[torch.Tensor]:
    gc.collect()
    return [thing for thing in gc.get_objects() if issubclass(type(thing), torch.Tensor)]


def _bytes_of_tensors() -> int:
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in _tensors()}
    return sum(storages.values())


class LiveBytes(TorchDispatchMode):
    """Counts the bytes of tensors that are created in its context, now and at most."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing is compiled here, and turning the compiler off takes longer than many an operation

    def __init__(self) -> None:
        super().__init__()
        self.now = self.most = 0
        self._known: set[int] = set()  # addresses, which are used again
        for tensor in _tensors():
            self._note(tensor.untyped_storage(), 0)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation, and count its results if their storage is new."""
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor) and leaf.layout is torch.strided:  # a CPU also packs matrices
                storage = leaf.untyped_storage()
                self._note(storage, storage.nbytes())
        return result

    def _note(self, storage: torch.UntypedStorage, count: int) -> None:
        if storage._cdata not in self._known:
            self._known.add(storage._cdata)
            self.now += count
            self.most = max(self.most, self.now)
            weakref.finalize(storage, self._freed, storage._cdata, count)

    def _freed(self, address: int, count: int) -> None:
        self._known.discard(address)
        self.now -= count


@pytest.mark.parametrize("name", MEMORY["NEEDS"])
@pytest.mark.slow
def test_an_edit_needs_no_more_memory_than_the_page_computes(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tensors of a call must be free before the next one, without Python looking for cycles."""
    monkeypatch.setenv("KGEDIT_HOME", str(tmp_path / "home"))
    timestep, model = write_timestep(tmp_path / "timestep"), _wider_model()
    given = {**QUICK, "crispedit": ALL_CLOSED}.get(name, {})
    needs = MEMORY["needs_of"](name, model, given)
    row = MEMORY["activations"](model, needs.trains_from) if needs.trains_from is not None else 0
    editor = make_editor(name, model, given, contexts=(read_context("question_only"),), seed=0)
    if editor.capabilities.needs_known_facts:
        editor.prepare(timestep.known_facts(), advance=lambda *_: None)
    with LiveBytes() as live:
        for case in list(timestep.cases())[:3]:
            editor.apply([case])
    computed = needs.held + needs.step + PROMPTS.get(name, 1) * row
    assert live.most <= 1.02 * computed
    assert live.most >= 0.25 * computed, "the page may be far from what is needed"


@pytest.mark.parametrize("name", MEMORY["NEEDS"])
@pytest.mark.slow
def test_a_method_holds_as_many_bytes_as_the_page_computes(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGEDIT_HOME", str(tmp_path / "home"))
    timestep, model = write_timestep(tmp_path / "timestep"), small_model()
    given = {**QUICK, "crispedit": ALL_CLOSED}.get(name, {})
    cases, known = list(timestep.cases())[:1], timestep.known_facts()
    needs = MEMORY["needs_of"](name, model, given)
    before = _bytes_of_tensors()

    editor = make_editor(name, model, given, contexts=(read_context("question_only"),), seed=0)
    if editor.capabilities.needs_known_facts:
        editor.prepare(known, advance=lambda *_: None)
    editor.apply(cases)

    held = _bytes_of_tensors() - before
    first_rows = 8  # a codebook has room for as many from the beginning
    assert held == pytest.approx(needs.held + first_rows * needs.each, rel=0.02, abs=256)


@pytest.mark.slow
def test_the_pages_table_is_that_of_the_code() -> None:
    text = (ROOT / "docs" / "gpu.md").read_text(encoding="utf-8")
    assert text == MEMORY["with_section"](text, "gpu_memory.py", MEMORY["table"]()), "run python docs/gpu_memory.py"


@pytest.mark.slow
def test_the_check_compares_two_runs_answer_by_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGEDIT_HOME", str(tmp_path / "home"))
    write_timestep(tmp_path / "timestep")
    model = str(save(small_model(), tmp_path / "model"))
    same = CHECK["run_both"](tmp_path / "timestep", model, "ft_m", tmp_path / "out", devices=("cpu", "cpu"))
    assert (same.equal, same.apart, same.agrees) == (1.0, 0.0, True)
    assert same.answers > 10
    assert "| `ft_m` |" in CHECK["table"]([same], device="a machine")

    first, second = sorted((tmp_path / "out").iterdir())
    lines = [json.loads(line) for line in (second / "answers.jsonl").read_text(encoding="utf-8").splitlines()]
    lines[0]["text"] = "something else"
    (second / "answers.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    other = CHECK["compare"](model, "ft_m", first, second)
    assert other.equal == 1 - 1 / other.answers
    assert not dataclasses.replace(other, equal=0.9).agrees
    assert "**differs**" in CHECK["table"]([dataclasses.replace(other, apart=0.2)], device="a machine")


@pytest.mark.parametrize("fits", [True, False])
def test_memory_and_seconds_are_measured_method_by_method(
    fits: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With CUDA's counters replaced: no GPU is needed to find out what is in which column."""
    monkeypatch.setenv("KGEDIT_HOME", str(tmp_path / "home"))
    for name in ("synchronize", "empty_cache", "reset_peak_memory_stats"):
        monkeypatch.setattr(torch.cuda, name, lambda: None)
    monkeypatch.setattr(torch.cuda, "memory_allocated", iter((100, 100 + 3 * 2**30)).__next__)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", iter((100 + 4 * 2**30, 100 + 5 * 2**30)).__next__)
    total = 10 << 40 if fits else 0
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda _: types.SimpleNamespace(total_memory=total), raising=True
    )
    timestep, model = write_timestep(tmp_path / "timestep"), small_model()
    before = {name: weight.clone() for name, weight in model.module.state_dict().items()}

    found = LARGE["measure"](model, "ft_m", list(timestep.cases())[:2], timestep.known_facts())

    assert all(torch.equal(weight, before[name]) for name, weight in model.module.state_dict().items())
    row = LARGE["table"]([found], device="a GPU", speed=7.0).splitlines()[-1]
    if not fits:
        assert row == "| `ft_m` | 0.00 | does not fit | 0.00 | – | – | – | – |"
        return
    assert row.startswith("| `ft_m` | 0.00 | 3.00 | 0.00 | 5.00 | 4.00 | 0.0 | ")
    assert found.seconds > 0
