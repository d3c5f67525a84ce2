"""The method that the how-to page shows is found through its entry point, and edits."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from world.small_models import changed, small_model, weights
from world.small_timestep import write_timestep

from kgedit.editing import METHODS, make_editor
from kgedit.llm.generation import Question, ask
from kgedit.llm.presets import PRESETS
from kgedit.runs.spec import resolve

PAGE = (Path(__file__).resolve().parents[3] / "docs/how-to/own-method.md").read_text(encoding="utf-8")


def _block(language: str) -> str:
    found = re.search(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The page's package as pip would leave it in a site folder; gives the method's name."""
    project = tomllib.loads(_block("toml"))["project"]
    (entry,) = project["entry-points"]["kgedit.methods"].items()
    module = entry[1].partition(":")[0]
    (tmp_path / f"{module}.py").write_text(_block("python"), encoding="utf-8")
    info = tmp_path / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    info.joinpath("METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n", encoding="utf-8"
    )
    info.joinpath("entry_points.txt").write_text(f"[kgedit.methods]\n{entry[0]} = {entry[1]}\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield entry[0]
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
    lines = [line for line in _block("python").splitlines() if line.strip()]
    assert len([line for line in lines if not line.startswith(('"""', "import", "from"))]) <= 32
