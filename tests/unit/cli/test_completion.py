"""Shell completions."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from kgedit.analysis.breakdowns import BREAKDOWNS
from kgedit.cli import main
from kgedit.editing import METHODS
from kgedit.exporters import EXPORTERS
from kgedit.llm.presets import PRESETS
from kgedit.loaders import LOADERS


def offered(*words: str, incomplete: str = "") -> list[str]:
    completion = ShellComplete(main, {}, "kgedit", "_KGEDIT_COMPLETE")
    return [item.value for item in completion.get_completions(list(words), incomplete)]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KGEDIT_HOME", str(tmp_path))
    for name in ("20230227", "20210104"):
        (tmp_path / "snapshots" / name).mkdir(parents=True)
        (tmp_path / "snapshots" / name / "manifest.json").touch()
    (tmp_path / "snapshots" / "20240603").mkdir()  # without a manifest it is not whole
    return tmp_path


def test_methods_presets_and_models() -> None:
    assert offered("run-edit", "--method") == list(METHODS)
    assert offered("run-edit", "--method", incomplete="ro") == ["rome"]
    assert offered("run-edit", "--preset") == list(PRESETS)
    assert offered("run-edit", "--protocol") == ["single", "sequential", "per_timestep"]
    assert offered("configs", "ls", "--method", incomplete="mem") == ["memit", "memoir"]


def test_configs() -> None:
    assert offered("configs", "cp", incomplete="memit/gpt2") == ["memit/gpt2-xl"]
    assert offered("configs", "cp", incomplete="prompt/") == ["prompt/default"]


def test_queries_and_their_parameters() -> None:
    assert offered("query", incomplete="changed") == ["changed_edges", "changed_statements"]
    assert offered("query", "changed_edges", "-p", incomplete="fr") == ["from="]
    assert offered("query", "no_such_query", "-p") == []


@pytest.mark.parametrize(
    "words",
    [("export-timestep", "--from"), ("browse", "--to"), ("drop-snapshot",), ("relations", "--date")],
    ids=lambda words: words[0],
)
def test_dates_of_snapshots(home: Path, words: tuple[str, ...]) -> None:
    assert offered(*words) == ["2021-01-04", "2023-02-27"]
    assert offered(*words, incomplete="2023") == ["2023-02-27"]


def test_runs_and_timesteps_beside_the_word_and_in_the_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)
    for path in ("runs/ft_m/spec.yaml", "runs/half/answers.jsonl", "benchmark/20210104_20230227/timestep.json"):
        (home / path).parent.mkdir(parents=True)
        (home / path).touch()
    (home / "mine").mkdir()
    (home / "mine" / "rome").mkdir()
    (home / "mine" / "rome" / "spec.yaml").touch()
    assert offered("report", incomplete="mine/") == ["mine/rome"]
    assert offered("submit", incomplete=f"{home}/r") == [f"{home}/runs/ft_m"]
    assert offered("describe") == ["20210104_20230227"]  # its name is enough
    assert offered("run-edit", "--timestep", incomplete="bench") == ["bench"]  # of type dir: the shell goes on
    assert offered("run-edit", "--timestep", incomplete="benchmark/") == ["benchmark/20210104_20230227"]


def test_properties_have_their_labels() -> None:
    completion = ShellComplete(main, {}, "kgedit", "_KGEDIT_COMPLETE")
    for words in (["memory", "build", "--property"], ["load-dump", "--property"], ["mine-templates", "--property"]):
        found = {item.value: item.help for item in completion.get_completions(words, "P6")}
        assert found["P6"] == "head of government"
    assert offered("memory", "build", "--property", incomplete="P")[0] == "P6"


def test_models_and_breakdowns() -> None:
    assert offered("run-edit", "--model", incomplete="sm") == ["smollm2-135m"]
    assert offered("report", "runs/a", "--by") == list(BREAKDOWNS)


def test_formats() -> None:
    assert offered("load-dump", "--source-format") == list(LOADERS)
    assert offered("export-timestep", "--form") == list(EXPORTERS)
    assert {"easyedit", "wikibigedit", "wikifactdiff"} <= set(EXPORTERS)


def test_nothing_heavy_is_imported_for_it() -> None:
    code = (
        "import sys; from click.shell_completion import ShellComplete; from kgedit.cli import main\n"
        "shell = ShellComplete(main, {}, 'kgedit', '_KGEDIT_COMPLETE')\n"
        "for words in (['run-edit', '--method'], ['run-edit', '--preset'], ['configs', 'cp'], ['query'],\n"
        "              ['export-timestep', '--from'], ['memory', 'build', '--property'], ['report'], ['describe'],\n"
        "              ['run-edit', '--timestep'], ['run-edit', '--model'], ['report', 'x', '--by'], ['sweep']):\n"
        "    assert words[1:] == ['--from'] or shell.get_completions(words, ''), words\n"
        "print([name for name in ('torch', 'transformers', 'neo4j', 'duckdb', 'pyarrow') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
