"""Counts of a corpus are read from what people have: JSON, tabs, commas, with or without a heading."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgedit.errors import TimestepError
from kgedit.timesteps.corpus_counts import read_counts


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("counts.json", '{"Canada": 12, "Q9": 3}'),
        ("counts.tsv", "label\tcount\nCanada\t12\nQ9\t3\n"),
        ("counts.csv", "Canada,12\n\nQ9,3\n"),
        ("counts.csv", "label,language,count\nCanada,en,12\nQ9,en,3\n"),
    ],
)
def test_a_label_and_its_count(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    assert read_counts(path) == {"Canada": 12, "Q9": 3}


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("counts.tsv", "Canada\t12\nFrance\tmany\n", "Line 2"),
        ("counts.tsv", "Canada\t12\nFrance\n", "Line 2"),
        ("counts.json", '{"Canada": "12"}', "The object"),
        ("counts.json", "{", "Line 1"),
    ],
)
def test_what_is_no_count_is_named(tmp_path: Path, name: str, text: str, told: str) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    with pytest.raises(TimestepError, match=told):
        read_counts(path)
