"""Two-hop questions by retrieved facts, and compared with the single hops."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from world.small_cases import plain_case
from world.small_runs import T1, answer, write_run

from kgedit.analysis.runs import Run
from kgedit.analysis.tables import Table
from kgedit.analysis.two_hops import found_hops_table, single_hops_table, specificity_table
from kgedit.records.cases import Case, Fact
from kgedit.records.runs import Answer
from kgedit.runs.run_files import read_runs, write_edited_cases
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


def known(number: int, hop: int, subject: str, middle: str) -> Case:
    fact = Fact(f"Q{number}", subject, f"P{hop}", "b", "Q9", middle)
    return plain_case(fact, timestep=T1, case_id=(FIRST, SECOND)[hop - 1].format(number), answer="Justin Trudeau")


def test_both_hops_and_the_chain_are_scored_by_how_well_known_each_entity_is(tmp_path: Path) -> None:
    """Two chains: the first begins at a rare subject and passes a common entity, the second the other way round."""
    folder = tmp_path / "run"
    write_run(folder, [*pair(1, "10", both=False), *pair(2, "01", both=True)])
    chains = [(1, "rare", "common", "answer one"), (2, "common", "rare", "answer two")]
    write_edited_cases(
        folder,
        [known(number, hop, *(entities[hop - 1 : hop + 1])) for number, *entities in chains for hop in (1, 2)],
    )
    write_scores(folder)
    runs = read_runs([folder])
    counts = {"rare": 3, "common": 900, "answer one": 5}

    table = specificity_table(runs, "two_hop_count", preset="wild", counts=counts)

    assert table is not None
    assert [(*row[2:5], *(cell.mean for cell in row[5:])) for row in table.rows] == [
        ("first subject", "3", 1, 1.0, 0.0, 0.0),
        ("first subject", "8", 1, 0.0, 1.0, 1.0),
        ("middle", "3", 1, 0.0, 1.0, 1.0),
        ("middle", "8", 1, 1.0, 0.0, 0.0),
        ("answer", "6", 1, 1.0, 0.0, 0.0),
        ("answer", "not known", 1, 0.0, 1.0, 1.0),
    ]
    assert specificity_table(runs, "two_hop_count", preset="synthetic", counts=counts) is None


def test_views_of_entities_are_read_from_the_cases_where_they_have_them(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    write_run(folder, [*pair(1, "10", both=False), *pair(2, "01", both=True)])
    write_edited_cases(folder, [known(number, hop, "a", "b") for number in (1, 2) for hop in (1, 2)])
    write_scores(folder)
    (run,) = read_runs([folder])
    without = specificity_table([run], "two_hop_views", preset="wild")
    assert without is not None
    assert {row[3] for row in without.rows} == {"not known"}
    seen = run.cases.drop_columns(["subject_views", "object_views"]).append_column(
        "subject_views", pa.array([70, 1, 5, 1], pa.int64())
    )
    table = specificity_table(
        [replace(run, cases=seen.append_column("object_views", pa.array([None] * 4, pa.int64())))],
        "two_hop_views",
        preset="wild",
    )
    assert table is not None
    tenths = {(row[2], row[3]): row[7].mean for row in table.rows}
    assert tenths == {("first subject", "3"): 1.0, ("first subject", "8"): 0.0} | {
        (name, "not known"): 0.5 for name in ("middle", "answer")
    }
