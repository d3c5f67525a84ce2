"""A load and an export of 80,000 statements on machines with two and with sixty-four cores."""

from __future__ import annotations

from pathlib import Path

import pytest
from generated_dumps import DATES, write_dumps

import kgedit
from kgedit.store import bucket_files

STATEMENTS = 80_000
ROWS = 2_048
"""Rows per row group, which DuckDB reads with one thread: each table has 39 groups, as one of 4 million rows."""


@pytest.mark.slow
def test_an_export_is_the_same_with_any_number_of_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket_files, "ROW_GROUP_ROWS", ROWS)
    home = kgedit.Home(tmp_path / "home")
    monkeypatch.setenv("KGEDIT_STORE_THREADS", "64")
    for path, day in zip(write_dumps(tmp_path / "dumps", statements=STATEMENTS), DATES, strict=False):
        redirects = tmp_path / "dumps" / "redirects.tsv"
        loaded = home.load_dump(path, day, redirects=redirects, workers=2, graph=False)
        assert loaded.manifest["claims"] > STATEMENTS
    written = []
    for threads in (2, 64):
        monkeypatch.setenv("KGEDIT_STORE_THREADS", str(threads))
        out = tmp_path / f"with {threads}"
        home.export_timestep(*DATES[:2], out=out, engine="store", forms=())
        written.append({path.name: path.read_bytes() for path in out.iterdir()})
    assert len(written[0]) > 3
    assert written[1] == written[0]
