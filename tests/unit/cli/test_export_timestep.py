"""`kgedit export-timestep` on a disk that refuses; its output is tested on a real graph."""

from __future__ import annotations

import errno
from contextlib import nullcontext
from pathlib import Path

import pytest
from click.testing import CliRunner
from world.dumps import entity, write_dump

from kgedit.cli import main


def test_a_disk_that_fills_up_is_one_sentence_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "cases.parquet"))

    monkeypatch.setenv("KGEDIT_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("kgedit.timesteps.export.export_timestep", full)
    monkeypatch.setattr("kgedit.verbs.exporting.open_finished", lambda home: nullcontext())
    dump = write_dump(tmp_path / "dump.json", [entity("Q1")])
    for date in ("2021-01-04", "2023-02-27"):
        loaded = CliRunner().invoke(main, ["load-dump", str(dump), "--date", date, "--no-graph"])
        assert loaded.exit_code == 0, loaded.output
    ran = CliRunner().invoke(main, ["export-timestep", "--from", "2021-01-04", "--to", "2023-02-27"])
    assert ran.exit_code == 1
    folder = tmp_path / "home" / "timesteps" / "20210104_20230227"
    assert ran.stderr == f"Error: The disk of {folder} is full. Make room and give the same command again.\n"
