"""Every shipped config is valid, a copy of it runs unchanged, and every error in a file is reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from world.small_timestep import write_timestep

from kgedit.cli import main
from kgedit.editing import METHODS, settings_type_of
from kgedit.editing.hparams.settings import CONFIGS, defaults, meanings, read_config, spec_text
from kgedit.errors import SpecError
from kgedit.runs.spec import read_spec, resolve
from kgedit.runs.spec_files import check

FILES = sorted(str(path.relative_to(CONFIGS).with_suffix("")) for path in CONFIGS.glob("*/*.yaml"))
NAMES = [*FILES, *(f"{name}/default" for name in METHODS)]


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["configs", *arguments])


@pytest.mark.parametrize("name", FILES)
def test_every_shipped_config_validates(name: str) -> None:
    found = check(CONFIGS / f"{name}.yaml")
    assert (found.kind, found.problems) == (f"a published config for {name.partition('/')[0]}", ())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.slow
def test_a_copy_resolves_to_what_is_published_and_else_to_the_defaults(name: str, tmp_path: Path) -> None:
    write_timestep(tmp_path / "step")
    file, method = tmp_path / "copy.yaml", name.partition("/")[0]
    assert _run("cp", name, str(file)).stdout == f"{file}\n"
    published: Any = {} if name.endswith("/default") else read_config(CONFIGS / f"{name}.yaml").settings

    spec = resolve(read_spec(file).raw | {"model": "tiny", "timesteps": [str(tmp_path / "step")]})

    assert spec.settings == {
        name: value for name, value in {**defaults(settings_type_of(method)), **published}.items() if value is not None
    }
    assert check(file).problems == ()
    text = file.read_text(encoding="utf-8")
    assert text.startswith(f"# {method} ")
    assert f"# kgedit run-edit {file} --model FOLDER --timestep FOLDER\n" in text


@pytest.mark.parametrize("name", list(METHODS))
def test_a_copy_tells_what_each_setting_means_and_what_an_open_one_becomes(name: str) -> None:
    kind = settings_type_of(name)
    lines = spec_text(kind, name, "default", file="x.yaml").splitlines()
    for own, meaning in meanings(kind).items():
        line = next(line for line in lines if line.startswith(f"  {own}: "))
        assert line.endswith(f"  # {meaning}")
        is_open = defaults(kind).get(own) is None
        assert line.startswith(f"  {own}: null ") == is_open
        assert ("null: " in line) == is_open


def test_the_list_has_every_file_and_every_methods_defaults() -> None:
    shown = [line.split("  ")[0] for line in _run("ls").stdout.splitlines()]
    assert sorted(shown) == sorted(NAMES)
    rows = _run("ls", "--method", "alphaedit").stdout.splitlines()
    applies_to = "model_type gpt2, hidden_size 1600, num_hidden_layers 48"
    assert rows[1].split(maxsplit=1) == ["alphaedit/gpt2-xl", applies_to]
    assert rows[-1].split() == ["alphaedit/default", "any", "other", "model"]
    assert "Did you mean 'memit'" in _run("ls", "--method", "memitt").stderr


def test_a_copy_replaces_nothing_unless_it_is_told_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert _run("cp", "grace/default").stdout == "grace-default.yaml\n"
    file = tmp_path / "grace-default.yaml"
    file.write_text("mine", encoding="utf-8")

    refused = _run("cp", "grace/default")

    assert (refused.exit_code, file.read_text(encoding="utf-8")) == (1, "mine")
    assert "Replace it: --overwrite" in refused.stderr
    assert _run("cp", "grace/default", "--overwrite").exit_code == 0
    assert file.read_text(encoding="utf-8") == _run("cp", "grace/default", "-").stdout
    assert [path.name for path in tmp_path.iterdir()] == ["grace-default.yaml"]


def test_a_config_that_is_not_there_is_met_with_the_nearest() -> None:
    assert "Did you mean 'memit/gpt2-xl'?" in _run("cp", "memit/gpt2xl", "-").stderr
    assert "Did you mean 'memit'?" in _run("cp", "memitt/gpt2-xl", "-").stderr


def test_every_problem_of_every_file_is_told_at_once(tmp_path: Path) -> None:
    preset = {"name": "x", "context": "question_only", "generation": "greedy", "truncation": "newline"}
    files: dict[str, dict[str, Any]] = {
        "spec.yaml": {
            "method": "memit",
            "settings": {"steps": "many", "clamp": -1, "learning_rte": 1, "layers": "four"},
            "protocol": "single",
            "batch_size": 3,
            "presets": [preset | {"metric": "exact_math"}],
        },
        "good.yaml": {"method": "ft_m", "settings": {"learning_rate": "5e-4"}},
        "theirs.yaml": {"alg_name": "MEMIT", "v_lr": "fast", "mom2_dataset": "wikipedia"},
        "ft_l/model.yaml": {"applies_to": {}, "settings": {"steps": 3, "norm": "wide"}, "setting": 1},
        "memits/model.yaml": {"applies_to": {"n": 1}, "settings": {}},
        "none.yaml": {"method": "lora", "protocol": "sequentially", "model": "", "timesteps": ["nowhere"]},
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(yaml.safe_dump(content), encoding="utf-8")
    (tmp_path / "list.yaml").write_text("- 1\n", encoding="utf-8")
    twice = "method: ft_m\nsettings: {steps: 1, steps: 2}\nmethod: ft_l\n"
    (tmp_path / "twice.yaml").write_text(twice, encoding="utf-8")
    # EasyEdit's own files repeat a key with the same value.
    theirs_twice = "alg_name: ROME\nv_lr: 1e-3\nv_lr: 5e-1\nmodel_parallel: false\nmodel_parallel: false\n"
    (tmp_path / "theirs_twice.yaml").write_text(theirs_twice, encoding="utf-8")

    written = [*files, "list.yaml", "twice.yaml", "theirs_twice.yaml"]
    result = _run("validate", *(str(tmp_path / name) for name in written))

    outcome = [line.removeprefix(f"{tmp_path}/") for line in result.stderr.splitlines()]
    expected = [
        ("spec.yaml", "settings.steps: expected a whole number"),
        ("spec.yaml", "settings.clamp: must be greater than 0"),
        ("spec.yaml", "did you mean 'learning_rate'"),
        ("spec.yaml", "expected layers such as 4-8"),
        ("spec.yaml", "batch_size is for the protocol 'sequential'"),
        ("spec.yaml", "did you mean 'exact_match'"),
        ("theirs.yaml", "ignored: mom2_dataset"),
        ("theirs.yaml", "settings.learning_rate: expected a number"),
        ("ft_l/model.yaml", "applies_to must name"),
        ("ft_l/model.yaml", "settings.norm: expected a number"),
        ("ft_l/model.yaml", "did you mean 'settings'"),
        ("memits/model.yaml", "did you mean 'memit'"),
        ("none.yaml", "did you mean 'sequential'"),
        ("none.yaml", "model is missing"),
        ("none.yaml", "timesteps: There is no timestep nowhere."),
        ("list.yaml", "must be a mapping"),
        ("twice.yaml", "twice.yaml:2: settings.steps: is given twice; the first is ignored"),
        ("twice.yaml", "twice.yaml:3: method: is given twice; the first is ignored"),
        ("theirs_twice.yaml", "theirs_twice.yaml:3: v_lr: is given twice; the first is ignored"),
    ]
    missing = [(file, part) for file, part in expected if not any(x.startswith(file) and part in x for x in outcome)]
    assert missing == []
    assert len(outcome) == len(expected), outcome
    assert result.stdout == f"ok {tmp_path / 'good.yaml'}: a run spec for ft_m\n"
    assert result.exit_code == 1


def test_good_files_of_each_kind_say_what_they_are(tmp_path: Path) -> None:
    (tmp_path / "theirs.yaml").write_text("{alg_name: R-ROME, layers: [5], v_lr: 5e-1}", encoding="utf-8")
    result = _run("validate", str(tmp_path / "theirs.yaml"), str(CONFIGS / "memit/gpt2-xl.yaml"))
    assert result.exit_code == 0
    assert [line.partition(".yaml: ")[2] for line in result.stdout.splitlines()] == [
        "EasyEdit's R-ROME, read as r_rome",
        "a published config for memit",
    ]


def test_the_schemas_of_specs_and_of_published_configs_are_printed() -> None:
    own = json.loads(_run("schema", "--published", "memit").stdout)
    assert set(own["properties"]) == {"applies_to", "settings"}
    assert own["properties"]["settings"]["properties"].keys() == settings_type_of("memit").model_fields.keys()
    assert json.loads(_run("schema").stdout)["required"] == ["method"]
    assert "Did you mean 'memit'?" in _run("schema", "--published", "memitt").stderr


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("method: ft_m\nmethod: ft_l\n", r"spec\.yaml:2: method: is given twice"),
        ("alg_name: FT\nlr: 1e-3\nlr: 5e-1\n", r"spec\.yaml:3: lr: is given twice"),
    ],
)
def test_a_run_is_not_made_of_a_file_with_a_key_twice(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "spec.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(SpecError, match=problem):
        read_spec(tmp_path / "spec.yaml")
