"""Rows as columns, without a server."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kgedit.errors import GraphError
from kgedit.graph.connection import table_from_batches


def test_integers_become_floats_where_a_later_batch_has_floats_and_nulls_take_the_type_of_the_rest() -> None:
    batches = [[(1, None, []), (2, None, None)], [(2.5, "text", ["a"])]]
    table = table_from_batches(["number", "text", "texts"], batches)
    assert table.schema == pa.schema(
        [("number", pa.float64()), ("text", pa.string()), ("texts", pa.list_(pa.string()))]
    )
    assert table.to_pydict() == {
        "number": [1.0, 2.0, 2.5],
        "text": [None, None, "text"],
        "texts": [[], None, ["a"]],
    }


def test_without_rows_the_names_are_kept() -> None:
    assert table_from_batches(["a", "b"], []).column_names == ["a", "b"]


@pytest.mark.parametrize(
    "batches", [[[(1,)], [("text",)]], [[(1,), ("text",)]], [[({"a": 1},)]]], ids=["two batches", "one batch", "map"]
)
def test_a_column_of_several_types_or_of_maps_is_refused(batches: list[list[tuple[object, ...]]]) -> None:
    with pytest.raises(GraphError, match="column"):
        table_from_batches(["mixed"], batches)
