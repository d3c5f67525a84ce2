"""The wheel holds what a checkout holds: queries, prompts, loaders, the sample and the lock of the jars."""

from __future__ import annotations

import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest
from uv import find_uv_bin

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built the long way, checkout -> sdist -> wheel, as a release is."""
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--installer", "uv", "--outdir", folder, ROOT]
    subprocess.run(build, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


def test_every_data_file_is_in_the_wheel(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder in ("cypher", "prompts"):
        for path in (ROOT / folder).rglob("*"):
            if path.is_file():
                assert f"kgedit/_data/{path.relative_to(ROOT)}" in names
    assert "kgedit/_data/CITATION.cff" in names
    for path in (ROOT / "loaders").glob("*.py"):
        assert f"kgedit/loaders/{path.name}" in names
    for path in (ROOT / "kgedit").rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            assert str(path.relative_to(ROOT)) in names
    assert not [name for name in names if not name.startswith(("kgedit/", "kgedit-"))]


def test_an_installed_wheel_answers_as_the_checkout_does(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    venv.create(environment)
    python = environment / "bin" / "python"
    # Packages come from uv's cache as links; pip would unpack 300 MB again.
    uv = [find_uv_bin(), "pip", "install", "--quiet", "--python", python]
    subprocess.run([*uv, wheel], check=True, cwd=tmp_path)
    listing = ["-m", "kgedit", "query", "--list"]
    installed = subprocess.run([python, *listing], check=True, cwd=tmp_path, capture_output=True, text=True)
    checkout = subprocess.run([sys.executable, *listing], check=True, cwd=tmp_path, capture_output=True, text=True)
    assert installed.stdout == checkout.stdout
    assert "changed_edges" in installed.stdout
    # The light install reads dumps: the sample goes through without any extra.
    sample, home = tmp_path / "sample", {"KGEDIT_HOME": str(tmp_path / "home")}
    command = [python, "-m", "kgedit"]
    subprocess.run([*command, "write-sample", sample], check=True, cwd=tmp_path)
    load = [*command, "load-dump", sample / "20210104.json.gz", "--date", "2021-01-04", "--no-graph"]
    loaded = subprocess.run(load, check=True, cwd=tmp_path, env=home, capture_output=True, text=True)
    assert "Snapshot 2021-01-04:" in loaded.stderr
    subprocess.run([*command, "configs", "cp", "memit/gpt2-xl", "spec.yaml"], check=True, cwd=tmp_path)
    subprocess.run([*command, "configs", "validate", "spec.yaml"], check=True, cwd=tmp_path)
    # What needs more says which extra brings it.
    (tmp_path / "notes.txt").write_text("Text.", encoding="utf-8")
    for arguments, said in {
        "run-edit --timestep absent --model tiny --method ft_m": "pip install 'kgedit[models]'",
        "stats --model tiny --layers 1 --text notes.txt": "pip install 'kgedit[models]'",
        "export-timestep --from 2021-01-04 --to 2021-01-05": "kgedit load-dump",
    }.items():
        ran = subprocess.run(
            [*command, *arguments.split()], cwd=tmp_path, env=home, capture_output=True, text=True, check=False
        )
        assert (ran.returncode, len(ran.stderr.splitlines())) == (1, 1), ran.stderr
        assert said in ran.stderr
