"""Answers judged by hand, and their table in docs/measurements/2026-11-25-agreement-of-judges.md."""

from __future__ import annotations

import importlib.util
from collections import Counter
from pathlib import Path

DOCS = Path(__file__).resolve().parents[3] / "docs"

spec = importlib.util.spec_from_file_location("measure", DOCS / "judge-agreement" / "measure.py")
assert spec is not None
assert spec.loader is not None
measure = importlib.util.module_from_spec(spec)
spec.loader.exec_module(measure)

PAGE = (DOCS / "measurements" / "2026-11-25-agreement-of-judges.md").read_text(encoding="utf-8")


def test_the_page_shows_what_is_measured() -> None:
    rows = [row.cells() for row in measure.rows()]
    assert len(rows) == 9
    table = PAGE.partition("| Judged by |")[2].partition("\n\n")[0].splitlines()[2:]
    assert table == rows


def test_every_answer_was_judged_once_and_every_wrong_one_has_a_reason() -> None:
    answers = measure.answers()
    assert len(answers) == len({(row["asked"], row["question"]) for row in answers}) == 210
    assert all(bool(row["why"]) != row["right"] for row in answers)
    reasons = Counter(row["why"] for row in answers)
    for count, words in (
        (reasons[""], "are right"),
        (reasons["something else"], "name something else"),
        (reasons["contradiction"], "contradict themselves"),
        (reasons["no answer"], "give none"),
        (reasons["repetition"], "repeat themselves"),
        (reasons["partial"], "are partial"),
    ):
        assert f"{count} {words}" in " ".join(PAGE.split())
