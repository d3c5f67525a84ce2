"""docs/api.md: it lists every public name, and its examples run unchanged."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from world.documented import PAGE, examples
from world.small_models import save, small_model
from world.small_timestep import write_timestep

import kgedit


def test_every_public_name_is_documented_and_nothing_else() -> None:
    rows = dict(re.findall(r"^\| `kgedit\.(\w+)` \| (.*) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    assert sorted(rows) == kgedit.__all__
    for part in (kgedit.Home, kgedit.EditedModel):
        public = {name for name in dir(part) if not name.startswith("_") and callable(getattr(part, name))}
        assert {name for name in public if f"`{name}`" not in rows[part.__name__]} == set()


def test_the_first_example_is_ten_lines_at_most() -> None:
    first = examples(graph=False).split("editor.restore()")[0].splitlines()
    statements = [line for line in first if line and not line.startswith((" ", ")"))]
    assert len(statements) + 1 <= 10


def _run(program: str, model: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("KGEDIT_HOME", str(folder / "kgedit-data"))
    namespace = {"MODEL": str(model), "timestep": write_timestep(folder / "timestep", towns=range(3))}
    exec(compile(program, str(PAGE), "exec"), namespace)
    return namespace


@pytest.mark.slow
def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    namespace = _run(examples(graph=False), save(small_model(), tmp_path / "model"), tmp_path, monkeypatch)
    assert namespace["folder"] == Path("germany")
    assert len(namespace["own"]) > 2


@pytest.mark.models
@pytest.mark.slow
def test_the_examples_give_the_edited_answers_on_a_real_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    loaded = kgedit.load_model("smollm2-135m", device="cpu")
    # A run and its report have the same code for any model.
    edits, run, _ = examples(graph=False).partition("spec = {")
    assert run
    namespace = _run(edits, save(loaded, tmp_path / "model"), tmp_path, monkeypatch)
    assert "Olaf Scholz" in namespace["tokenizer"].decode(namespace["output"][0])
    assert capsys.readouterr().out.count("Olaf Scholz") >= 3
