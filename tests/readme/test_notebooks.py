"""The notebooks of examples/ run from top to bottom, and the outputs in them are those of that run.

KGEDIT_UPDATE_GOLDEN=1 pytest -m "" tests/readme/test_notebooks.py writes their outputs again.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import nbformat
import pytest
from graph.class_archive import quick_java
from nbclient import NotebookClient

from kgedit.graph.managed.server import ManagedServer

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def _outputs(notebook: nbformat.NotebookNode) -> list[str]:
    """Text of every output; a table also has its HTML, which says the same."""
    return [
        output.get("text") or output["data"]["text/plain"]
        for cell in notebook.cells
        for output in cell.get("outputs", [])
    ]


def _executed(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> nbformat.NotebookNode:
    """A notebook after a run in an empty folder; a cell that fails raises its error."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("KGEDIT_HOME", raising=False)
    notebook = nbformat.read(EXAMPLES / name, as_version=4)
    resources = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, timeout=600, kernel_name="python3", record_timing=False, resources=resources).execute()
    if os.environ.get("KGEDIT_UPDATE_GOLDEN"):
        nbformat.write(notebook, EXAMPLES / name)
    return notebook


@pytest.mark.models
@pytest.mark.slow
def test_quickstart_edits_a_model_and_restores_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executed = _executed("quickstart.ipynb", tmp_path, monkeypatch)
    committed = nbformat.read(EXAMPLES / "quickstart.ipynb", as_version=4)
    assert _outputs(executed) == _outputs(committed)
    assert any("Olaf Scholz" in output and "Paris" in output for output in _outputs(executed))


@pytest.mark.graph
@pytest.mark.slow
def test_changes_of_an_item_come_from_a_real_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JDK_JAVA_OPTIONS", quick_java())
    try:
        executed = _executed("changes_of_an_item.ipynb", tmp_path, monkeypatch)
    finally:
        ManagedServer(tmp_path / "kgedit-data").stop()
    committed = nbformat.read(EXAMPLES / "changes_of_an_item.ipynb", as_version=4)
    assert _outputs(executed) == _outputs(committed)
    assert any("head of government" in output and "Olaf Scholz" in output for output in _outputs(executed))


def test_every_notebook_is_run_by_a_test_and_has_its_outputs() -> None:
    found = {path.name for path in EXAMPLES.glob("*.ipynb")}
    assert found == {"quickstart.ipynb", "changes_of_an_item.ipynb"}
    for name in found:
        notebook = nbformat.read(EXAMPLES / name, as_version=4)
        assert _outputs(notebook), name
        assert all(cell.execution_count for cell in notebook.cells if cell.cell_type == "code"), name
