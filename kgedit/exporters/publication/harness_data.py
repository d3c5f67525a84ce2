"""Reads the questions of this folder for the tasks of lm-evaluation-harness beside it.

The harness would look for a file from where it is started; this looks from where the tasks are.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import datasets
import pyarrow.parquet as pq

DATA = Path(__file__).parent.parent / "data"


def questions(config: str, axis: str, **_: Any) -> dict[str, datasets.Dataset]:
    """The questions of one axis, with every accepted answer."""
    return {"test": datasets.Dataset.from_list(_rows(config, axis))}


def new_or_old(config: str, **_: Any) -> dict[str, datasets.Dataset]:
    """The updates that replaced one or more answers: the old ones, then the new one, which is right."""
    rows = [row | {"choices": _choices(row)} for row in _rows(config, "update") if row["old_answers"]]
    return {"test": datasets.Dataset.from_list([row | {"right": len(row["choices"]) - 1} for row in rows])}


def _choices(row: dict[str, Any]) -> list[str]:
    """The new answer is the last, so that a tie is no point for it."""
    return [*(old for old in dict.fromkeys(row["old_answers"]) if old != row["edit_answer"]), row["edit_answer"]]


def _rows(config: str, axis: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(DATA / config / f"{axis}.parquet").to_pylist()
    return rows
