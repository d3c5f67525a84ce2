"""Scores by relation, year and corpus counts; error classes; questions that no model answers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from world.small_cases import plain_case
from world.small_runs import T1, T2, answer, write_run

import kgedit
from kgedit.analysis.breakdowns import breakdown_table, over_time_table, tenths
from kgedit.analysis.overviews import runs_table
from kgedit.analysis.report import report_tables
from kgedit.analysis.runs import Run
from kgedit.analysis.tables import Table
from kgedit.analysis.wrong_answers import error_table, unsolved_table
from kgedit.errors import TimestepError
from kgedit.records.cases import SPECIFICITY, Case, Fact, Specificity
from kgedit.records.runs import UNEDITED, Neighbour
from kgedit.runs.run_files import read_runs, write_edited_cases
from kgedit.runs.scoring import write_scores

TOLD = [("Q1", "P6", "2021-05", "update"), ("Q2", "P6", "2023", "backfill"), ("Q3", "P54", None, None)]


def case(subject: str, relation: str, begun: str | None, kind: str | None) -> Case:
    fact = Fact(subject, f"label of {subject}", relation, f"name of {relation}", "Q9", "Justin Trudeau")
    old = {"old_objects": ("Q8",), "old_answers": ("Stephen Harper",)}
    return plain_case(fact, timestep=T1, start_time=begun, kind=kind, **old)


def write(
    folder: Path,
    said: list[str],
    *,
    before: str = "nobody",
    topics: tuple[str | None, ...] = (None,) * 3,
    **spec: object,
) -> Path:
    cases = [replace(case(*row), category=topic) for row, topic in zip(TOLD, topics, strict=True)]
    answers = [answer(one.case_id, text=text) for one, text in zip(cases, said, strict=True)]
    unedited = [replace(one, model_state=UNEDITED, text=before) for one in answers]
    write_run(folder, [*unedited, *answers], **spec)
    write_edited_cases(folder, cases)
    write_scores(folder)
    return folder


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return read_runs([write(tmp_path / "run", ["Justin Trudeau", "Stephen Harper", "Justin Trudeau"])])[0]


def shown(table: Table | None, name: str) -> dict[str, str]:
    """The group's name -> its cell without the interval."""
    assert table is not None
    index = [column.name for column in table.columns].index(name)
    return {str(row[2]): row[index].partition(" [")[0] for row in table.texts()}


def test_scores_are_broken_down_by_what_the_run_knows_of_its_cases(run: Run) -> None:
    by_relation = breakdown_table([run], "relation", preset="wild")
    assert shown(by_relation, "update") == {
        "name of P54 (P54)": "0.0→100.0",
        "name of P6 (P6)": "0.0→50.0",
    }
    assert shown(breakdown_table([run], "year", preset="wild"), "update") == {
        "2021": "0.0→100.0",
        "2023": "0.0→0.0",
        "not known": "0.0→100.0",
    }
    assert list(shown(breakdown_table([run], "kind", preset="wild"), "update")) == ["backfill", "update", "not known"]


def test_the_timesteps_own_popularity_puts_cases_into_tenths(tmp_path: Path) -> None:
    cases = [
        replace(case(*row), popularity=popularity) for row, popularity in zip(TOLD, (0.5, 7.25, None), strict=True)
    ]
    folder = write_run(tmp_path / "run", [answer(one.case_id) for one in cases])
    write_edited_cases(folder, cases)
    write_scores(folder)
    table = breakdown_table(read_runs([folder]), "popularity", preset="wild")
    assert list(shown(table, "update")) == ["3", "8", "not known"]


def test_corpus_counts_are_found_by_id_or_label(run: Run) -> None:
    counts = {"Q1": 5, "label of Q2": 900}
    table = breakdown_table([run], "subject_count", preset="wild", counts=counts)
    assert list(shown(table, "update")) == ["3", "8", "not known"]
    assert list(shown(breakdown_table([run], "object_count", preset="wild", counts=counts), "update")) == ["not known"]


@given(st.lists(st.integers(0, 50), min_size=1, max_size=60))
def test_tenths_keep_the_order_of_counts_and_equal_counts_together(counts: list[int]) -> None:
    found = dict(zip(counts, tenths(counts), strict=True))
    ordered = [int(found[count]) for count in sorted(found)]
    assert ordered == sorted(ordered)
    assert set(ordered) <= set(range(1, 11))


def test_a_hundred_different_counts_fill_every_tenth_with_ten() -> None:
    found = tenths(list(range(100)))
    assert {name: found.count(name) for name in set(found)} == {str(number): 10 for number in range(1, 11)}


def test_a_run_that_knows_no_cases_has_no_breakdown(tmp_path: Path) -> None:
    write_scores(write_run(tmp_path / "old", [answer()]))
    assert breakdown_table(read_runs([tmp_path / "old"]), "year", preset="wild") is None


def test_errors_are_shares_of_all_answers_before_and_after(run: Run) -> None:
    table = error_table([run], "wild")
    assert table is not None
    rows = [dict(zip([column.name for column in table.columns], row, strict=True)) for row in table.texts()]
    assert [row["method"] for row in rows] == ["unedited", "ft-m"]
    before, after = rows
    assert (before["right"], before["incorrect"], before["n"]) == ("0.0", "100.0", "3")
    assert (after["right"], after["old answer"], after["incorrect"]) == ("66.7", "33.3", "0.0")
    assert error_table([run], "synthetic") is None


def test_unsolved_is_what_no_model_and_no_run_answers(tmp_path: Path, run: Run) -> None:
    other = write(tmp_path / "other", ["nobody", "nobody", "Justin Trudeau"], before="Justin Trudeau", model="big")
    third = write(tmp_path / "third", ["nobody", "Justin Trudeau", "nobody"], model="zzz")
    assert unsolved_table([run]) is None
    table = unsolved_table(read_runs([run.folder, other]))
    assert table is not None
    row = dict(zip([column.name for column in table.columns], table.texts()[0], strict=True))
    assert (row["axis"], row["n"], row["models"], row["unsolved before"]) == ("update", "3", "2", "0.0")
    assert (row["runs"], row["unsolved after"]) == ("2", "33.3")
    every = unsolved_table(read_runs([run.folder, other, third]))
    assert every is not None
    assert every.texts()[0][-2:] == ("3", "0.0"), "each solves what the others do not"


def test_scores_by_the_category_of_a_qaedit_file(tmp_path: Path) -> None:
    said = ["Justin Trudeau", "Stephen Harper", "Justin Trudeau"]
    folder = write(tmp_path / "run", said, topics=("Sports", "Sports", "Others"))
    found = shown(breakdown_table(read_runs([folder]), "category", preset="wild"), "update")
    assert found == {"Sports": "0.0→50.0", "Others": "0.0→100.0"}


def test_scores_by_scenario_are_in_every_report_of_cases_of_several(tmp_path: Path) -> None:
    names = ("ReplaceObject", "AddRelation", "ReplaceObject")
    cases = [replace(case(*row), scenario=name) for row, name in zip(TOLD, names, strict=True)]
    said = ["Justin Trudeau", "Stephen Harper", "nobody"]
    answers = [answer(one.case_id, text=text) for one, text in zip(cases, said, strict=True)]
    folder = write_run(tmp_path / "run", answers)
    write_edited_cases(folder, cases)
    write_scores(folder)
    runs = read_runs([folder])
    table = breakdown_table(runs, "scenario", preset="wild")
    assert shown(table, "update") == {"AddRelation": "–→0.0", "ReplaceObject": "–→50.0"}
    assert table is not None
    for by in ((), ("scenario",)):
        assert [other.title for other in report_tables(runs, by=by)].count(table.title) == 1


def test_a_report_of_cases_without_scenarios_has_no_such_table(run: Run) -> None:
    assert not [table.title for table in report_tables([run]) if table.title.startswith("By scenario")]


def test_a_report_says_which_kinds_of_change_were_measured(run: Run) -> None:
    (row,) = runs_table([run]).rows
    kinds = [column.name for column in runs_table([run]).columns].index("kinds of change")
    assert row[kinds] == "backfill 33 %, unknown 33 %, update 33 %"


def test_locality_is_split_by_how_the_probe_was_found(tmp_path: Path) -> None:
    answers = []
    for number, (basis, text) in enumerate([("graph", "Oslo"), ("graph", "Bergen"), ("label", "Oslo"), (None, "Oslo")]):
        neighbour = Neighbour(subject=f"Q{number}", label="", similarity=None, popularity=None, basis=basis)
        same = {"axis": "locality", "answers": ("Oslo",), "question": f"{number}?", "neighbour": neighbour}
        case_id = f"Q{100 + number}:P{number}:Q1"
        answers += [answer(case_id, after=None, text="Oslo", **same), answer(case_id, text=text, **same)]
    folder = write_run(tmp_path / "ft", answers)
    write_scores(folder)
    runs = read_runs([folder])
    table = breakdown_table(runs, "locality_basis", preset="wild")
    assert table is not None
    shown = [(row[2], row[3], row[4].before, row[4].after.mean) for row in table.rows]
    assert shown == [("graph", 2, 1.0, 0.5), ("label", 1, 1.0, 1.0)]
    assert table.title in [other.title for other in report_tables(runs)]


def test_views_and_counts_of_the_timestep_need_no_file(tmp_path: Path) -> None:
    known = [Specificity(5, 10, 0, None), Specificity(900, 10, 7, None), Specificity()]
    cases = [replace(case(*row), specificity=one) for row, one in zip(TOLD, known, strict=True)]
    folder = write_run(tmp_path / "run", [answer(one.case_id) for one in cases])
    write_edited_cases(folder, cases)
    write_scores(folder)
    runs = read_runs([folder])
    shown_as = {by: list(shown(breakdown_table(runs, by, preset="wild"), "update")) for by in SPECIFICITY}
    assert shown_as["subject_views"] == shown_as["subject_count"] == ["3", "8", "not known"]
    assert shown_as["object_views"] == ["6", "not known"], "equal ones share a tenth"
    assert kgedit.report(folder, by=["subject_count"], brief=True).tables
    with pytest.raises(TimestepError, match="object_count needs counts"):
        kgedit.report(folder, by=["object_count"])
    assert kgedit.report(folder, by=["two_hop_count", "two_hop_views"], brief=True).tables
    other = write(tmp_path / "other", ["nobody"] * 3)
    with pytest.raises(TimestepError, match="two_hop_count needs counts"):
        kgedit.report(other, by=["two_hop_count"])
    for name in ("object_views", "two_hop_views"):
        with pytest.raises(TimestepError, match=f"page views for {name}"):
            kgedit.report(other, by=[name])


def test_labels_of_a_run_are_counted_in_texts(tmp_path: Path, run: Run) -> None:
    (tmp_path / "corpus.txt").write_text("label of Q1; label of Q2 and label of Q2. Label of Q3", encoding="utf-8")
    report = kgedit.report(run.folder, by=["subject_count"], counts=tmp_path / "corpus.txt", brief=True)
    (table,) = (table for table in report.tables if table.title.startswith("By subject count"))
    assert list(shown(table, "update")) == ["2", "6", "9"], "Q3, Q1 and Q2: 0, 1 and 2 times"


def test_tenths_are_followed_over_timesteps(tmp_path: Path) -> None:
    cases = [
        replace(case(name, "P6", None, None), timestep=step, specificity=Specificity(subject_views=views))
        for name, step, views in (("Q1", T1, 5), ("Q2", T1, 900), ("Q3", T2, 5))
    ]
    answers = [answer(one.case_id, timestep=one.timestep, after=one.timestep) for one in cases]
    answers[1] = replace(answers[1], text="nobody")
    folder = write_run(tmp_path / "run", answers)
    write_edited_cases(folder, cases)
    write_scores(folder)
    runs = read_runs([folder])
    table = over_time_table(runs, "subject_views", preset="wild")
    assert table is not None
    assert [column.name for column in table.columns][2:] == ["subject views", T1, T2]
    rows = [(row[2], *(cell and cell.after and cell.after.mean for cell in row[3:])) for row in table.rows]
    assert rows == [("4", 1.0, 1.0), ("9", 0.0, None)]
    assert over_time_table(runs, "year", preset="wild") is None
    assert table.title in [other.title for other in report_tables(runs, by=["subject_views"])]
