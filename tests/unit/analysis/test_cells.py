"""Cells: values that are drawn in words and written as numbers."""

from __future__ import annotations

import pytest

from kgedit.analysis.tables import (
    Cell,
    Column,
    Estimate,
    MeanChange,
    Table,
    Unit,
    as_text,
    as_values,
    flattened,
    with_counts,
)


@pytest.mark.parametrize(
    ("cell", "unit", "wanted"),
    [
        (None, "percent", "–"),
        ("word", "percent", "word"),
        (0.625, "percent", "62.5"),
        (-0.051, "points", "-5.1"),
        (1234567, "count", "1,234,567"),
        (0.0001, "seconds", "0"),
        (96980.4, "plain", "96,980"),
        (0.33333, "plain", "0.3333"),
        (12.345, "seconds", "12.3"),
        (0.0004, "p", "<0.001"),
        (0.05, "p", "0.050"),
        (Estimate(0.5, 0.25, 0.75, 8), "percent", "50.0 [25.0, 75.0]"),
        (Estimate(0.5, None, None, 8), "percent", "50.0"),
        (MeanChange(None, Estimate(0.5)), "percent", "–→50.0"),
        (MeanChange(0.25, None), "percent", "25.0→–"),
    ],
)
def test_a_cell_in_words(cell: Cell, unit: Unit, wanted: str) -> None:
    assert as_text(cell, unit) == wanted


def test_a_cell_in_numbers() -> None:
    change = MeanChange(0.25, Estimate(1 / 3, 0.2, 0.5, 8))
    assert as_values(change) == {"before": 0.25, "after": {"mean": 0.333333, "low": 0.2, "high": 0.5, "n": 8}}
    assert flattened(change) == {" before": 0.25, "": 0.333333, " low": 0.2, " high": 0.5, " n": 8}
    assert flattened(MeanChange(0.25, None)) == {" before": 0.25, "": None}


def test_counts_stand_in_the_heading_where_all_rows_agree_and_else_in_cells() -> None:
    columns = (Column("same", "percent"), Column("other", "percent"), Column("word"))
    rows = ((Estimate(0.5, n=8), Estimate(0.5, n=8), "a"), (Estimate(1.0, n=8), Estimate(1.0, n=7), "b"))
    table = with_counts(Table("t", columns, rows))
    assert [column.title for column in table.columns] == ["same n=8", "other", "word"]
    assert table.texts() == [("50.0", "50.0 n=8", "a"), ("100.0", "100.0 n=7", "b")]
