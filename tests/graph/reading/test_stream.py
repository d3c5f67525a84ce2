"""`export-timestep --all` in the WikiBigEdit profile, on the sample world."""

from __future__ import annotations

from pathlib import Path

import pytest
from world.dumps import hashes

from graph.worlds import kgedit
from kgedit.timesteps.stream import Stream

pytestmark = pytest.mark.graph


def test_a_stream_is_the_timesteps_as_exported_alone_and_their_links(sample_home: Path, tmp_path: Path) -> None:
    together = tmp_path / "together"
    kgedit(sample_home, "export-timestep", "--all", "--out", together)
    name = "20230227_20240603"
    kgedit(sample_home, "export-timestep", "--from", "2023-02-27", "--to", "2024-06-03", "--out", tmp_path / name)
    assert hashes(together / name) == hashes(tmp_path / name)
    stream = Stream.open(together / "stream")
    first, second = stream.timesteps()
    cases = [{(row["subject"], row["property"]) for row in one.table("cases").to_pylist()} for one in (first, second)]
    again = stream.table("edited_again").to_pylist()
    assert {(row["subject"], row["property"]) for row in again} == cases[0] & cases[1] != set()
    by_id = {row["case_id"] for row in first.table("cases").to_pylist()}
    assert {name for row in again for name in row["earlier_case_ids"]} <= by_id
    before = hashes(together)
    kgedit(sample_home, "export-timestep", "--all", "--out", together)
    assert hashes(together) == before
