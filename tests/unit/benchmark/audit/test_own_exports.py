"""What kgedit exports passes its own audit, in every form and as a timestep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from world.audited import snapshots
from world.two_days import GraphOfDays

from kgedit.benchmark.audit import audit_edits
from kgedit.benchmark.edit_files import open_edits
from kgedit.benchmark.export import Settings, export_timestep
from kgedit.exporters.easyedit import export as easyedit
from kgedit.exporters.wikibigedit import export as wikibigedit


def test_every_case_of_an_export_is_valid(tmp_path: Path) -> None:
    old, new = snapshots(tmp_path)
    graph: Any = GraphOfDays(old, new)
    timestep = export_timestep(
        graph, old, new, tmp_path / "timestep", settings=Settings(), writers=(easyedit, wikibigedit)
    )
    cases = len(list(timestep.cases()))
    assert cases > 5
    for path in (timestep.folder, timestep.folder / "easyedit.json", timestep.folder / "wikibigedit.json"):
        audit = audit_edits(open_edits(path), old, new, spill=tmp_path / "spill")
        rows = audit.rows.to_pylist()
        assert [row["reasons"] for row in rows] == [[]] * cases, path
        assert {row["locality"] for row in rows} == {"valid"}
