"""README's commands are run as they stand, in an empty folder."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kgedit.graph.managed.server import ManagedServer

README = Path(__file__).resolve().parents[2] / "README.md"

pytestmark = [pytest.mark.graph, pytest.mark.models, pytest.mark.slow]


@pytest.fixture(scope="module")
def text() -> str:
    return README.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory, text: str) -> tuple[Path, str]:
    """The folder in which the commands were run, and what they wrote to stdout."""
    folder = tmp_path_factory.mktemp("readme")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "KGEDIT_HOME": str(folder / "kgedit-data")}
    script = "set -eu\n" + "\n".join(re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE))
    try:
        done = subprocess.run(
            ["sh", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
    finally:
        ManagedServer(folder / "kgedit-data").stop()
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


def test_every_stage_leaves_what_the_next_one_needs(walked: tuple[Path, str]) -> None:
    folder, stdout = walked
    assert "Angela Merkel" in (folder / "kgedit-data/benchmark/20210104_20230227/wikibigedit.json").read_text("utf-8")
    assert (folder / "runs/ft_m/scores.json").is_file()
    assert "ft_m" in stdout


def test_the_annotated_record_is_what_the_export_wrote(walked: tuple[Path, str], text: str) -> None:
    shown = re.search(r"^```jsonc\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert shown is not None
    record = json.loads(re.sub(r"\s+// .*$", "", shown[1], flags=re.MULTILINE))
    path = walked[0] / "kgedit-data/benchmark/20210104_20230227/wikibigedit.json"
    written = {row["case_id"]: row for row in json.loads(path.read_text(encoding="utf-8"))}
    assert written[record["case_id"]] == record
