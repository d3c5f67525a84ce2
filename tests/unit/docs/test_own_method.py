"""The method that the how-to page shows is found through its entry point, and edits."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from world.how_to import block, install
from world.small_models import changed, small_model, weights
from world.small_timestep import write_timestep

from kgedit.editing import METHODS, make_editor
from kgedit.llm.generation import Question, ask
from kgedit.llm.presets import PRESETS
from kgedit.runs.spec import resolve

PAGE = "own-method.md"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The page's package, installed; gives the method's name."""
    name, module = install(PAGE, "kgedit.methods", tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield name
    sys.modules.pop(module, None)


def test_the_method_is_known_to_specs_with_its_settings(installed: str, tmp_path: Path) -> None:
    write_timestep(tmp_path / "timestep", towns=range(2))
    spec = {"timesteps": [str(tmp_path / "timestep")], "model": "tiny", "method": installed, "settings": {"steps": "3"}}
    assert installed in METHODS
    assert resolve(spec).settings == {"steps": 3}


def test_the_method_edits_and_undoes_its_edits(installed: str, tmp_path: Path) -> None:
    (case, *_) = write_timestep(tmp_path / "timestep", towns=range(1)).cases()
    model = small_model()
    before = weights(model)
    editor = make_editor(installed, model, {"steps": 100})
    applied = editor.apply([case])
    assert applied.loss is not None
    (reply,) = ask(model, [Question(case.question, case.answer)], PRESETS["question_only"])
    assert reply.text.strip().startswith(case.answer)
    (edited,) = changed(before, model)
    assert "layers.2.mlp" in edited
    state = editor.state()
    editor.restore()
    assert changed(before, model) == []
    editor.load_state(state)
    assert changed(before, model) == [edited]


def test_the_page_keeps_its_promise_of_some_thirty_lines() -> None:
    lines = [line for line in block(PAGE, "python").splitlines() if line.strip()]
    assert len([line for line in lines if not line.startswith(('"""', "import", "from"))]) <= 32
