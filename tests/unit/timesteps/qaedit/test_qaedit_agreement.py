"""How far the rules agree with the published QAEdit file is what the measurement says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import qaedit
from world.shared_data import SHARED

DOCS = Path(__file__).resolve().parents[4] / "docs" / "measurements" / "2026-11-25-qaedit.md"


@pytest.mark.parametrize(
    ("ours", "theirs", "difference"),
    [
        ("the old pier", "the old pier", "the same"),
        ("Old Pier", '"The old pier"', "only article, case or marks"),
        ("", "the old pier", "none found"),
        ("pier", "the old pier", "a part of theirs"),
        ("old pier burned", "old pier", "theirs and more"),
        ("old mill", "old pier", "overlapping"),
        ("pier of Lowick", "mill of Dunmore", "another thing"),
    ],
)
def test_subjects_differ_in_one_way(ours: str, theirs: str, difference: str) -> None:
    assert qaedit.difference(ours, theirs) == difference


def test_rows_of_one_id_are_in_one_half() -> None:
    halves = {number: qaedit.half_of({"id": number}) for number in range(200)}
    assert set(halves.values()) == {"look", "report"}
    assert halves == {number: qaedit.half_of({"id": number, "source": "x"}) for number in range(200)}


@pytest.mark.shared
def test_the_documented_agreement_is_the_measured_one() -> None:
    rows = json.loads((SHARED / "editing_sets" / "QAEdit_inter_1k.json").read_text(encoding="utf-8"))
    result = qaedit.agreement([row for row in rows if qaedit.half_of(row) == "report"], None)
    exact = sum(row["difference"] == "the same" for row in result)
    assert f"| without a store | {exact} of {len(result)}, {exact / len(result):.1%}".replace(
        "%", " %"
    ) in DOCS.read_text(encoding="utf-8")
