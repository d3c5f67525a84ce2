"""Files of tables that are read one at a time."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from kgedit.store.frames import FrameReader, write_frames

SCHEMA = pa.schema([("id", pa.string()), ("number", pa.int64()), ("names", pa.list_(pa.string()))])


def _table(first: int, count: int) -> pa.Table:
    """A table of several chunks, with nulls."""
    rows = [
        {"id": f"Q{number}", "number": number if number % 3 else None, "names": ["a"] * (number % 4)}
        for number in range(first, first + count)
    ]
    return pa.concat_tables(pa.Table.from_pylist(rows[start : start + 4], schema=SCHEMA) for start in range(0, 12, 4))


def test_tables_are_read_by_number_in_any_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kgedit.store.frames._ROWS_AT_ONCE", 5)
    tables = [_table(0, 12), _table(12, 3), SCHEMA.empty_table(), _table(15, 1)]
    path = tmp_path / "tables.frames"
    write_frames(path, tables)
    for number in (3, 0, 2, 1):
        found = FrameReader().read(path, number, SCHEMA)
        assert found.schema == SCHEMA
        assert found.to_pylist() == tables[number].to_pylist()
