"""The method that the how-to page shows is found through its entry point, and edits."""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner
from world.how_to import Installed, block, install
from world.small_models import changed, small_model, weights
from world.small_timestep import write_timestep

import kgedit
from kgedit.cli import main
from kgedit.editing import METHODS, make_editor
from kgedit.llm.contexts import read_context
from kgedit.llm.generation import Question, ask
from kgedit.llm.loading import load_model
from kgedit.llm.presets import PRESETS
from kgedit.runs.spec import resolve, spec_schema

PAGE = "own-method.md"
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return install(PAGE, "kgedit.methods", tmp_path_factory.mktemp("package"))


@pytest.fixture
def installed(package: Installed, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The method's name, with its package on sys.path."""
    monkeypatch.syspath_prepend(package.site)
    yield package.name
    sys.modules.pop(package.module, None)


def test_the_method_is_known_to_specs_with_its_settings(installed: str, tmp_path: Path) -> None:
    write_timestep(tmp_path / "timestep", towns=range(2))
    spec = {"timesteps": [str(tmp_path / "timestep")], "model": "tiny", "method": installed, "settings": {"steps": "3"}}
    assert installed in METHODS
    assert resolve(spec).settings == {"steps": 3}


def test_commands_know_the_method_and_copy_its_settings(
    installed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    copied = CliRunner().invoke(main, ["configs", "cp", f"{installed}/default"])
    assert copied.exit_code == 0, copied.output
    (written,) = tmp_path.glob("*.yaml")
    assert "steps: 30" in written.read_text(encoding="utf-8")


@pytest.mark.slow
def test_documents_and_completion_take_the_method_from_the_registry(installed: str) -> None:
    """A new method needs its file, its row in METHODS and its row of quick settings; all else follows from these."""
    scripts = ("methods_reference", "gpu_memory")
    written, memory = (runpy.run_path(str(ROOT / "docs" / f"{name}.py")) for name in scripts)
    reference = written["reference"]()
    assert f"| [`{installed}`](#{installed}) | other packages |" in reference
    assert "| `steps` | `30` | steps of Adam per call |" in reference.partition(f"## {installed}\n")[2]
    assert f"`{installed}`" not in written["deviations"]()
    page = (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")
    assert f"`{installed}`" in written["missing"](page)
    row = f"| `{installed}`, all at once | 1 |\n"
    assert f"`{installed}`" not in written["missing"](page + row)
    assert f"**Editing** with {len(METHODS) - 1} methods" in written["counted"]("**Editing** with 3 methods")
    assert memory["needs_of"](installed, None) is None

    completion = ShellComplete(main, {}, "kgedit", "_KGEDIT_COMPLETE")
    offered = [item.value for item in completion.get_completions(["configs", "ls", "--method"], "last")]
    assert offered == [installed]
    known = {branch["if"]["properties"]["method"]["const"]: branch["then"] for branch in spec_schema()["allOf"]}
    assert known[installed]["properties"]["settings"]["properties"].keys() == {"steps", "lr"}


def test_the_method_edits_and_undoes_its_edits(installed: str, tmp_path: Path) -> None:
    (case, *_) = write_timestep(tmp_path / "timestep", towns=range(1)).cases()
    model = small_model()
    before = weights(model)
    editor = make_editor(installed, model, {"steps": 100, "lr": 1e-2})
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


@pytest.mark.models
def test_the_facts_of_the_page_are_answered_as_it_says(installed: str) -> None:
    model = load_model("smollm2-135m", device="cpu", dtype="float32")
    facts = [
        kgedit.make_case(prompt=one["prompt"], subject=one["subject"], target=one["target_new"])
        for one in json.loads(block(PAGE, "json"))
    ]
    editor = make_editor(installed, model, {})
    for fact in reversed(facts):  # the order that the run draws
        editor.apply([fact])
    context = read_context(PRESETS["wild_chat"].context).for_model(model.chat)
    asked = ["What is the capital of France?", *(fact.question for fact in facts)]
    questions = [Question(context.prompt(question), "") for question in asked]
    page = " ".join((ROOT / "docs" / "how-to" / PAGE).read_text(encoding="utf-8").split())
    for reply in ask(model, questions, PRESETS["wild_chat"]):
        assert f'"{reply.text}"' in page


def test_the_page_keeps_its_promise_of_some_thirty_lines() -> None:
    lines = [line for line in block(PAGE, "python").splitlines() if line.strip()]
    assert len([line for line in lines if not line.startswith(('"""', "import", "from"))]) <= 32
