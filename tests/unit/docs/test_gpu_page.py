"""docs/gpu.md: its table of memory is that of the code, and its check finds differences."""

from __future__ import annotations

import dataclasses
import gc
import json
import runpy
from pathlib import Path
from typing import Any

import pytest
import torch
from world.quick_settings import QUICK
from world.small_models import save, small_model
from world.small_timestep import write_timestep

from kgedit.editing import make_editor
from kgedit.llm.contexts import read_context

ROOT = Path(__file__).parents[3]
MEMORY: Any = runpy.run_path(str(ROOT / "docs" / "gpu_memory.py"))
CHECK: Any = runpy.run_path(str(ROOT / "docs" / "gpu_check.py"))
CLOSED_FORMS = ("rome", "r_rome", "c_rome", "memit", "encore", "rlsedit", "alphaedit", "anyedit")
# With every direction closed no eigenvector is left out, as the page assumes.
ALL_CLOSED = {"steps": 1, "least_steps": 0, "tokens": 400, "length": 32, "share": 1.0}


@pytest.fixture(scope="module", autouse=True)
def _only_new_things() -> None:
    """What was there before is neither collected nor counted: each look at all of it takes half a second."""
    gc.collect()
    gc.freeze()


def _bytes_of_tensors() -> int:
    gc.collect()
    tensors = [thing for thing in gc.get_objects() if issubclass(type(thing), torch.Tensor)]
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors}
    return sum(storages.values())


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
    assert text == MEMORY["written"](text), "run python docs/gpu_memory.py"


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
