"""Append-only files of lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgedit.llm.jsonl import append_lines, cut_half_line, read_lines


@pytest.mark.parametrize("half", [0, 3, 65_536, 150_000])
@pytest.mark.parametrize("whole", [[], ["a"], ["b" * 70_000, "c"]])
def test_what_stands_behind_the_last_whole_line_is_cut_off_however_long(
    whole: list[str], half: int, tmp_path: Path
) -> None:
    path = tmp_path / "lines.jsonl"
    append_lines(path, whole)
    with path.open("ab") as file:
        file.write(b"x" * half)
    cut_half_line(path)

    assert read_lines(path) == whole
    assert path.stat().st_size == sum(len(line) + 1 for line in whole)
