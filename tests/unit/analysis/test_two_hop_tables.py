"""Two-hop questions by what was found, and against the single hops."""

from __future__ import annotations

from pathlib import Path

import pytest
from world.small_runs import T1, answer, write_run

from kgedit.analysis.runs import Run
from kgedit.analysis.tables import Table
from kgedit.analysis.two_hops import found_hops_table, single_hops_table
from kgedit.records.runs import Answer
from kgedit.runs.run_files import read_runs
from kgedit.runs.scoring import write_scores

FIRST, SECOND = "Q{}:P1:Q9", "Q{}:P2:Q9"


def pair(number: int, hops: str, *, both: bool, found: str = "", after: str | None = T1) -> list[Answer]:
    """Two cases that a two-hop question joins: `hops` has a 1 for each update answered right."""
    first, second = FIRST.format(number), SECOND.format(number)
    text = {True: "Justin Trudeau", False: "Ottawa"}
    retrieved = tuple(case for case, ok in zip((first, second), found, strict=False) if ok == "1")
    return [
        answer(first, text=text[hops[0] == "1"], after=after),
        answer(second, text=text[hops[1] == "1"], after=after),
        answer(
            first,
            axis="mhop",
            question="Who?",
            text=text[both],
            after=after,
            second_case_id=second,
            retrieved=retrieved,
        ),
    ]


def read(folder: Path, answers: list[Answer], **spec: object) -> Run:
    write_scores(write_run(folder, answers, **spec))
    return read_runs([folder])[0]


def cells(table: Table | None, row: int = 0) -> dict[str, str]:
    assert table is not None
    names = [column.name for column in table.columns]
    return {name: cell.partition(" [")[0] for name, cell in zip(names, table.texts()[row], strict=True)}


@pytest.fixture
def answers() -> list[Answer]:
    return [
        *pair(1, "11", both=True, found="11"),
        *pair(2, "11", both=False, found="11"),
        *pair(3, "10", both=True, found="10"),
        *pair(4, "01", both=False, found="01"),
        *pair(5, "00", both=True, found="00"),
    ]


def test_accuracy_by_what_was_found(tmp_path: Path, answers: list[Answer]) -> None:
    found = cells(found_hops_table([read(tmp_path / "run", answers, method="rag")], "wild"))
    assert found["n"] == "5"
    assert {name: found[name] for name in ("both", "first only", "second only", "neither")} == {
        "both": "50.0",
        "first only": "100.0 n=1",
        "second only": "0.0 n=1",
        "neither": "100.0 n=1",
    }


def test_accuracy_by_the_single_hops_and_the_share_of_shortcuts(tmp_path: Path, answers: list[Answer]) -> None:
    more = [*answers, answer(FIRST.format(7), axis="mhop", question="Where?", second_case_id="Q8:P2:Q9")]
    table = single_hops_table([read(tmp_path / "run", more)], "wild")
    found = cells(table)
    assert found["n"] == "5", "the sixth has a second hop that was never asked"
    assert (found["both"], found["first only"], found["neither"]) == ("50.0", "100.0 n=1", "100.0 n=1")
    assert found["shortcuts"] == "66.7", "of three right two have a wrong hop"
    assert [row[1] for row in table.rows] == ["ft-m"]


def test_hops_before_any_edit_are_compared_too_and_single_edits_are_not(tmp_path: Path, answers: list[Answer]) -> None:
    before = pair(1, "00", both=True, after=None)
    table = single_hops_table([read(tmp_path / "both", [*answers, *before])], "wild")
    assert cells(table, 0)["method"] == "unedited"
    assert cells(table, 0)["shortcuts"] == "100.0"
    alone = single_hops_table([read(tmp_path / "single", answers, protocol="single", batch_size=1)], "wild")
    assert alone is None


def test_what_retrieves_nothing_has_no_table_of_what_was_found(tmp_path: Path) -> None:
    run = read(tmp_path / "run", pair(1, "11", both=True))
    assert found_hops_table([run], "wild") is None
    assert single_hops_table([run], "synthetic") is None
