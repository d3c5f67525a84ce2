"""All commands of README and tutorial run unchanged, in one folder that was empty before."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner
from graph.class_archive import quick_java

from kgedit.cli import main
from kgedit.graph.managed.server import ManagedServer

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
INSTALL = (ROOT / "docs" / "how-to" / "install.md").read_text(encoding="utf-8")
TIMESTEP = (ROOT / "docs" / "reference" / "timestep.md").read_text(encoding="utf-8")
TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")


def steps(page: str) -> list[tuple[str, str]]:
    """Language and text of everything that a page has its reader run: single commands, and whole Python blocks."""
    blocks = re.findall(r"^```(sh|python)\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    return [
        (language, step)
        for language, text in blocks
        for step in (text.replace("\\\n", " ").splitlines() if language == "sh" else [text])
        if not step.startswith("#")
    ]


@dataclass(frozen=True)
class Walk:
    """Where the steps were run, and what each wrote to stdout."""

    folder: Path
    outputs: dict[str, str]


def run_step(language: str, step: str, folder: Path) -> str:
    """Run one step in a folder and return its stdout.

    Commands run in this process, which has imported torch; that `kgedit` starts is tested in tests/packaging.
    """
    if language == "sh":
        program, *arguments = shlex.split(step)
        assert program == "kgedit", step
        ran = CliRunner().invoke(main, arguments)
        assert ran.exit_code == 0, f"{step}\n{ran.output}\n{ran.exception!r}"
        return ran.stdout
    done = subprocess.run([sys.executable, "-c", step], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{step}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walk]:
    """Every step of both pages in their order; one that both have is run once."""
    folder = tmp_path_factory.mktemp("readme")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("KGEDIT_HOME", str(folder / "kgedit-data"))
        patch.setenv("JDK_JAVA_OPTIONS", quick_java())
        try:
            pages = dict.fromkeys([*steps(README), *steps(TUTORIAL)])
            yield Walk(folder, {step: run_step(language, step, folder) for language, step in pages})
        finally:
            ManagedServer(folder / "kgedit-data").stop()


@pytest.mark.graph
@pytest.mark.models
@pytest.mark.slow
class TestTheWalk:
    def test_every_stage_of_readme_leaves_what_the_next_one_needs(self, walk: Walk) -> None:
        exported = walk.folder / "kgedit-data/timesteps/20210104_20230227/wikibigedit.json"
        assert "Angela Merkel" in exported.read_text("utf-8")
        assert (walk.folder / "runs/tiny/scores.json").is_file()
        assert "locft_bf answers" in walk.outputs["kgedit report runs/tiny"]

    def test_one_command_takes_the_steps_that_are_left(self, walk: Walk) -> None:
        (said,) = (output for step, output in walk.outputs.items() if step.startswith("kgedit up "))
        assert "20 of these were drawn at random (seed 0)" in " ".join(said.split())
        assert "tiny, ft_m" in said
        page = Path(said.splitlines()[-1])
        assert page.is_relative_to(walk.folder / "kgedit-data" / "reports")
        assert page.is_file()

    def test_the_annotated_record_is_what_the_export_wrote(self, walk: Walk) -> None:
        shown = re.search(r"^```jsonc\n(.*?)^```", TIMESTEP, re.DOTALL | re.MULTILINE)
        assert shown is not None
        record = json.loads(re.sub(r"\s+// .*$", "", shown[1], flags=re.MULTILINE))
        path = walk.folder / "kgedit-data/timesteps/20210104_20230227/wikibigedit.json"
        written = {row["case_id"]: row for row in json.loads(path.read_text(encoding="utf-8"))}
        assert written[record["case_id"]] == record

    def test_retrieval_makes_smollm2_answer_as_the_tutorial_shows(self, walk: Walk) -> None:
        rows = re.findall(r"^\| (Who [^|]+\?) \| ([^|]+) \| ([^|]+) \|$", TUTORIAL, re.MULTILINE)
        lines = (walk.folder / "runs/graph_rag/answers.jsonl").read_text(encoding="utf-8").splitlines()
        written: dict[str, list[str]] = {}
        for answer in map(json.loads, lines):
            if answer["preset"] == "wild_chat" and answer["axis"] == "update":
                written.setdefault(answer["question"], []).append(answer["text"])
        assert len(rows) == 2
        assert {question: [before, after] for question, before, after in rows}.items() <= written.items()
        shown = re.search(r"^graph_rag reaches .*?(?=\n```)", TUTORIAL, re.DOTALL | re.MULTILINE)
        assert shown is not None
        assert " ".join(shown[0].split()) in " ".join(walk.outputs["kgedit report runs/graph_rag"].split())

    def test_editing_weights_gives_the_scores_that_the_tutorial_shows(self, walk: Walk) -> None:
        shown = re.search(r"^locft_bf answers .*?(?=\n```)", TUTORIAL, re.DOTALL | re.MULTILINE)
        assert shown is not None
        assert " ".join(shown[0].split()) in " ".join(walk.outputs["kgedit report runs/locft_bf"].split())

    def test_the_tutorial_ends_with_a_model_that_answers_a_new_fact_in_transformers(self, walk: Walk) -> None:
        (asked,) = (step for language, step in steps(TUTORIAL) if language == "python")
        assert walk.outputs[asked].strip() == "Michelle Wu"
        assert f"```text\n{walk.outputs[asked]}```" in TUTORIAL
        assert (walk.folder / "edited/model.safetensors").is_file()


def test_readme_shows_the_targets_of_the_makefile_on_its_first_screen() -> None:
    first_screen = "\n".join(README.splitlines()[:40])
    targets = re.findall(r"^\$ make (\w+)", first_screen, re.MULTILINE)
    assert targets == ["demo", "test"]
    for target in targets:
        assert f"\n{target}:" in (ROOT / "Makefile").read_text(encoding="utf-8")


@pytest.mark.parametrize(("page", "ways"), [(README, 1), (INSTALL, 3)], ids=["README", "install.md"])
def test_installing_from_the_checkout_names_extras_that_exist(page: str, ways: int) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    installs = re.findall(r"^\$ (?:uv )?pip install (.*\[.*)$", page, re.MULTILINE)
    assert len(installs) == ways
    for install in installs:
        extras = re.search(r"\[([\w,]+)\]", install)
        assert extras is not None
        assert set(extras[1].split(",")) <= set(project["optional-dependencies"])
        assert not install.strip("'\"").startswith("kgedit"), "the package is on no index"
