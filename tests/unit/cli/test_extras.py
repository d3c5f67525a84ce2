"""Messages of a light install about missing packages. Packages are hidden from the import system of a new process."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from kgedit.errors import EXTRAS

ROOT = Path(__file__).resolve().parents[3]

HIDE = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in sys.argv[1].split(","):
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)
sys.meta_path.insert(0, Hidden())
from kgedit.cli import main
main(sys.argv[2:], prog_name="kgedit")
"""


def without(packages: str, *arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", HIDE, packages, *arguments],
        cwd=home,
        env={"KGEDIT_HOME": str(home), "KGEDIT_CACHE": str(home), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("extra", "command"),
    [
        ("models", "run-edit --timestep absent --model tiny --method ft_m"),
        ("models", "stats --model tiny --layers 1 --text notes.txt"),
        ("neo4j", "graph install"),
    ],
)
@pytest.mark.slow
def test_a_command_that_lacks_a_package_names_its_extra_in_one_line(tmp_path: Path, extra: str, command: str) -> None:
    (tmp_path / "notes.txt").write_text("Text.", encoding="utf-8")
    ran = without(",".join(EXTRAS[extra]), *command.split(), home=tmp_path)
    assert ran.returncode == 1
    assert len(ran.stderr.splitlines()) == 1, ran.stderr
    assert f"pip install 'kgedit[{extra}]'" in ran.stderr


def test_a_module_that_no_extra_brings_is_not_explained_away(tmp_path: Path) -> None:
    ran = without("duckdb", "relations", "--date", "2021-01-04", home=tmp_path)
    assert "Traceback" in ran.stderr


def test_configs_are_listed_without_any_extra(tmp_path: Path) -> None:
    hidden = ",".join(name for names in EXTRAS.values() for name in names)
    assert "memit/gpt2-xl" in without(hidden, "configs", "ls", "--method", "memit", home=tmp_path).stdout


@pytest.mark.slow
def test_configs_are_copied_and_checked_without_any_extra(tmp_path: Path) -> None:
    hidden = ",".join(name for names in EXTRAS.values() for name in names)
    assert without(hidden, "configs", "cp", "memit/gpt2-xl", "spec.yaml", home=tmp_path).returncode == 0
    good = without(hidden, "configs", "validate", "spec.yaml", home=tmp_path)
    assert (good.returncode, good.stdout) == (0, "ok spec.yaml: a run spec for memit\n"), good.stderr

    (tmp_path / "wrong.yaml").write_text("method: memit\nsettings: {steps: 0}\ndevice: cpu\n", encoding="utf-8")
    (tmp_path / "theirs.yaml").write_text("alg_name: ROME\nlayers: [5]\ndevice: 0\n", encoding="utf-8")
    wrong = without(hidden, "configs", "validate", "wrong.yaml", "theirs.yaml", home=tmp_path)
    assert wrong.returncode == 1
    assert "wrong.yaml: settings.steps: must be at least 1" in wrong.stderr
    assert "wrong.yaml: not checked without torch (pip install 'kgedit[models]'): device" in wrong.stderr
    assert "ok theirs.yaml: EasyEdit's ROME" in wrong.stdout


def test_every_extra_of_the_project_is_known_and_the_other_way_round() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(EXTRAS) == set(project["optional-dependencies"]) - {"all"}
