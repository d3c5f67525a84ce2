"""`kgedit sweep`: what it lists, prints and plans, and its exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result
from world.small_models import save, small_model
from world.small_timestep import write_timestep

from kgedit.cli import main

pytestmark = pytest.mark.slow


def command(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["sweep", *map(str, arguments)], env={"COLUMNS": "120"})


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KGEDIT_HOME", str(tmp_path / "home"))
    save(small_model(), tmp_path / "model")
    write_timestep(tmp_path / "step", towns=range(3))
    base = {"model": str(tmp_path / "model"), "presets": ["synthetic"], "device": "cpu"}
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({"base": base, "grid": {"method": ["none"], "seed": [0, 1]}}), encoding="utf-8")
    return path


def test_the_shipped_specs_are_listed_with_their_commands_and_printed() -> None:
    listed = command("--list")
    assert "module-study" in listed.stdout
    assert "kgedit sweep smoke" in listed.stdout
    assert yaml.safe_load(command("module-study", "--print").stdout)["grid"]["method"] == ["ft_m", "rome"]


def test_a_dry_run_counts_and_makes_nothing(spec: Path, tmp_path: Path) -> None:
    planned = command(spec, "--timestep", tmp_path / "step", "--limit", 2, "--dry-run")
    assert planned.exit_code == 0, planned.output
    rows = [line.split() for line in planned.stdout.splitlines()]
    assert ["none-seed=0", "new", "2", "10", "10", "10"] in rows
    assert ["none-seed=1", "new", "2", "10", "0", "10"] in rows
    assert ["all", "4", "20", "10", "20"] in rows
    assert not (tmp_path / "home" / "sweeps").exists()


def test_a_sweep_prints_its_report_and_stays_in_the_home(spec: Path, tmp_path: Path) -> None:
    done = command(spec, "--timestep", tmp_path / "step", "--limit", 1)
    assert done.exit_code == 0, done.output
    assert "Presets side by side" in done.stdout
    assert "Paired comparison" not in done.stdout, "the summary, as report prints it"
    assert "none-seed=1" in (tmp_path / "home" / "sweeps" / "mine" / "report.md").read_text(encoding="utf-8")
    assert (tmp_path / "home" / "sweeps" / "mine" / "report.csv").is_file()


def test_a_failed_run_makes_the_exit_code_1(spec: Path, tmp_path: Path) -> None:
    (tmp_path / "model" / "model.safetensors").unlink()
    done = command(spec, "--timestep", tmp_path / "step")
    assert done.exit_code == 1
    assert "Failed: none-seed=0: The folder" in done.stderr


def test_a_missing_spec_is_a_usage_error_that_says_where_to_look() -> None:
    assert "kgedit sweep --list" in command().stderr
    assert "Did you mean 'smoke'" in command("smok").stderr


def test_the_smoke_sweep_runs_on_the_bundled_edits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGEDIT_HOME", str(tmp_path))
    done = command("smoke")
    assert done.exit_code == 0, done.output
    assert "grace-steps=20" in done.stdout
