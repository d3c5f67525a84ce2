"""Files of tables that are read one at a time, in Arrow's form and in that of kgedit-native."""

from __future__ import annotations

import random
import uuid
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from world.parsers import HAS_COMPILED

from kgedit.errors import StoreError
from kgedit.store.compiled import CompiledFrames, find_compiled_frames
from kgedit.store.frames import FrameReader, count_rows, write_frames

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("number", pa.int64()),
        ("small", pa.int8()),
        ("block", pa.int32()),
        ("names", pa.list_(pa.string())),
    ]
)

needs_native = pytest.mark.skipif(not HAS_COMPILED, reason="kgedit-native is not installed: make native")


def _table(count: int) -> pa.Table:
    """A table of several chunks, with nulls."""
    rows = [
        {
            "id": f"Q{number // 3}" if number % 5 else None,
            "number": number if number % 3 else None,
            "small": -1 if number % 4 else None,
            "block": number // 8,
            "names": ["a"] * (number % 4) if number % 7 else None,
        }
        for number in range(count)
    ]
    return pa.concat_tables(
        pa.Table.from_pylist(rows[start : start + 4], schema=SCHEMA) for start in range(0, count, 4)
    )


@pytest.fixture(params=["Arrow", pytest.param("compiled", marks=needs_native)])
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "Arrow":
        monkeypatch.setattr("kgedit.store.frames.find_compiled_frames", lambda: None)
    return str(request.param)


@pytest.mark.usefixtures("form")
def test_tables_are_read_by_number_in_any_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kgedit.store.frames._ROWS_AT_ONCE", 5)
    rows, path = _table(16), tmp_path / "tables.frames"
    order = np.array([15, 3, 4, 5, 0, 1, 2, 6, 7, 8, 9, 10, 11, 12, 13, 14])
    write_frames(path, rows, order, [1, 4, 4, 16])
    assert count_rows(path) == [1, 3, 0, 12]
    for number, (first, end) in enumerate([(0, 1), (1, 4), (4, 4), (4, 16)]):
        found = FrameReader().read(path, number, SCHEMA)
        assert found.schema == SCHEMA
        assert found.to_pylist() == rows.take(order[first:end]).to_pylist()


@pytest.mark.usefixtures("form")
def test_some_columns_of_several_tables_are_read_together(tmp_path: Path) -> None:
    rows, reader = _table(12), FrameReader()
    write_frames(tmp_path / "a", rows, np.arange(12), [5, 12])
    write_frames(tmp_path / "b", rows, np.arange(12), [0, 12])
    frames = [reader.fetch(tmp_path / "a", 1), reader.fetch(tmp_path / "b", 0), reader.fetch(tmp_path / "b", 1)]
    expected = [*rows.to_pylist()[5:], *rows.to_pylist()]
    for columns in (("id", "names"), ("small",), None):
        names = SCHEMA.names if columns is None else list(columns)
        found = reader.table(frames, SCHEMA, columns)
        assert found.to_pylist() == [{name: row[name] for name in names} for row in expected]


@needs_native
def test_an_interrupted_load_may_have_tables_in_both_forms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = _table(8)
    write_frames(tmp_path / "compiled", rows, np.arange(8), [8])
    with monkeypatch.context() as without:
        without.setattr("kgedit.store.frames.find_compiled_frames", lambda: None)
        write_frames(tmp_path / "arrow", rows, np.arange(8), [8])
        with pytest.raises(StoreError, match="Install it here too"):
            FrameReader().read(tmp_path / "compiled", 0, SCHEMA)
    reader = FrameReader()
    both = [reader.fetch(tmp_path / name, 0) for name in ("arrow", "compiled")]
    assert reader.table(both, SCHEMA).to_pylist() == rows.to_pylist() * 2


UUIDS = st.uuids().map(str)
TEXTS = st.one_of(
    st.none(),
    st.text(max_size=4),
    st.builds("{}${}".format, st.sampled_from(["Q1", "q2", "é"]), UUIDS.map(str.upper) | UUIDS | st.text(max_size=40)),
)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "id": TEXTS,
            "number": st.none() | st.sampled_from([0, -(2**63), 2**63 - 1]),
            "small": st.none() | st.sampled_from([-1, 11]),
            "block": st.integers(0, 3),
            "names": st.none() | st.lists(st.text(max_size=3), max_size=3),
        }
    ),
    max_size=30,
)


def _compiled() -> CompiledFrames:
    found = find_compiled_frames()
    assert found is not None
    return found


def _with_ids(*ids: str | None) -> list[dict[str, object]]:
    return [{"id": text, "number": None, "small": None, "block": 0, "names": []} for text in ids]


SOME, LETTERLESS = str(uuid.UUID(int=0xABC << 100)), str(uuid.UUID(int=1))


@needs_native
@given(ROWS, st.randoms(use_true_random=False), st.data())
@example(_with_ids(f"Q1${SOME}", f"Q1${SOME.upper()}", f"Q2${LETTERLESS}"), None, None)
@example(_with_ids(f"Q1${SOME}", None), None, None)
@example(_with_ids(f"Q1${SOME[:-1]}G", SOME, f"${SOME[:-2]}aA"), None, None)
def test_packed_rows_are_those_that_were_given(
    rows: list[dict[str, object]], chance: random.Random | None, data: st.DataObject | None
) -> None:
    table, compiled = pa.Table.from_pylist(rows, schema=SCHEMA), _compiled()
    order, cut = list(range(len(rows))), len(rows) // 2
    if chance is not None and data is not None:
        chance.shuffle(order)
        cut = data.draw(st.integers(0, len(rows)))
    first = table.slice(1)  # whose buffers begin before its rows
    packed = [bytes(one) for one in compiled.pack(table, np.array(order, np.int64), [cut, len(rows)])]
    contents = [(packed[0], cut), (packed[1], len(rows) - cut)]
    found = compiled.unpack(contents, SCHEMA, SCHEMA.names)
    assert found.to_pylist() == [rows[place] for place in order]
    found.validate(full=True)
    assert compiled.unpack(contents, SCHEMA, ["names", "id"]).to_pylist() == [
        {"id": rows[place]["id"], "names": rows[place]["names"]} for place in order
    ]
    (rest,) = compiled.pack(first, np.arange(first.num_rows), [first.num_rows])
    assert compiled.unpack([(bytes(rest), first.num_rows)], SCHEMA, SCHEMA.names).to_pylist() == rows[1:]


@needs_native
@given(ROWS.filter(bool), st.binary(min_size=1, max_size=3), st.data())
def test_damaged_bytes_are_refused_or_give_other_rows(
    rows: list[dict[str, object]], noise: bytes, data: st.DataObject
) -> None:
    compiled, table = _compiled(), pa.Table.from_pylist(rows, schema=SCHEMA)
    content = bytes(compiled.pack(table, np.arange(len(rows)), [len(rows)])[0])
    place = data.draw(st.integers(0, len(content)))
    for damaged in (content[:place] + noise + content[place + len(noise) :], content[:place], content + noise):
        try:
            found = compiled.unpack([(damaged, len(rows))], SCHEMA, SCHEMA.names)
        except ValueError:
            continue
        assert found.num_rows == len(rows)
