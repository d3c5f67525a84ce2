"""Tables that are written in batches, and timesteps that are read in parts."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from world.small_timestep import write_timestep

from kgedit.exporters.easyedit import export as easyedit
from kgedit.exporters.unke import export as unke
from kgedit.exporters.wikibigedit import export as wikibigedit
from kgedit.timesteps.tables import TableFile, write_table

SCHEMA = pa.schema([("name", pa.string()), ("aliases", pa.list_(pa.string()))])
ROWS = pa.table(
    {
        "name": [f"Q{number}" for number in range(10)],
        "aliases": [[f"alias {number % 3}"] for number in range(10)],
        "other": list(range(10)),
    }
)


def written(folder: Path, sizes: list[int]) -> bytes:
    """Bytes of the rows, written in batches of these sizes."""
    path, start = folder / "rows.parquet", 0
    with TableFile(path, SCHEMA) as file:
        for size in sizes:
            file.add(ROWS.slice(start, size))
            start += size
        assert file.finish()["rows"] == start
    return path.read_bytes()


def test_the_bytes_do_not_depend_on_the_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = tmp_path / "at once.parquet"
    pq.write_table(ROWS.select(SCHEMA.names).cast(SCHEMA), at_once, compression="zstd")
    assert written(tmp_path, [10]) == written(tmp_path, [1] * 10) == at_once.read_bytes()
    monkeypatch.setattr("kgedit.timesteps.tables.ROWS_IN_GROUP", 4)
    grouped = written(tmp_path, [10])
    assert grouped == written(tmp_path, [3, 0, 6, 1]) != at_once.read_bytes()
    metadata = pq.read_metadata(tmp_path / "rows.parquet")
    assert [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)] == [4, 4, 2]
    assert pq.read_table(tmp_path / "rows.parquet") == ROWS.select(SCHEMA.names)


@pytest.mark.parametrize("parts", [[], [ROWS.slice(0, 0)]])
def test_a_table_without_rows_is_that_of_a_single_write(tmp_path: Path, parts: list[pa.Table]) -> None:
    pq.write_table(SCHEMA.empty_table(), tmp_path / "at once.parquet", compression="zstd")
    entry = write_table(tmp_path / "parts.parquet", SCHEMA, parts)
    assert entry["rows"] == 0
    assert (tmp_path / "parts.parquet").read_bytes() == (tmp_path / "at once.parquet").read_bytes()


def test_a_timestep_read_in_parts_has_the_same_cases_and_forms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    timestep = write_timestep(tmp_path / "20200101_20210101", towns=range(8))
    cases = list(timestep.cases(two_hop_rephrases=True))
    assert len(cases) > 5
    assert {probe.axis for case in cases for probe in case.probes} >= {"update", "rephrase", "locality", "mhop"}
    forms = {write: write(timestep).read_bytes() for write in (easyedit, unke, wikibigedit)}
    monkeypatch.setattr("kgedit.timesteps.tables._ROWS_AT_ONCE", 3)
    monkeypatch.setattr("kgedit.exporters.unke._ROWS_AT_ONCE", 2)
    assert list(timestep.cases(two_hop_rephrases=True)) == cases
    assert {write: write(timestep).read_bytes() for write in forms} == forms
