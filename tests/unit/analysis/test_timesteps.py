"""Collapse, accuracy matrix and means over timesteps of runs whose numbers can be checked by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from world.small_runs import T1, T2, answer, write_run

from kgedit.analysis.runs import Run
from kgedit.analysis.tables import table_to_csv
from kgedit.analysis.timesteps import (
    Measured,
    collapse_point,
    collapse_table,
    edit_curve,
    falls_to,
    lifelong_table,
    retention_table,
)
from kgedit.records.runs import Answer
from kgedit.runs.run_files import read_runs
from kgedit.runs.scoring import write_scores


def points(*values: float) -> list[Measured]:
    return [Measured(10 * number, value) for number, value in enumerate(values, start=1)]


@pytest.mark.parametrize(
    ("values", "edits"),
    [
        ((0.9, 0.8, 0.4, 0.1), 30),
        ((0.9, 0.8, 0.5, 0.6), None),
        ((0.9, 0.3, 0.6, 0.2), 40),
        ((0.4, 0.9, 0.45, 0.4), 30),
        ((0.1, 0.2, 0.9), None),
        ((0.0, 0.0), None),
        ((0.9,), None),
    ],
)
def test_a_method_has_collapsed_where_it_never_rises_above_half_its_best_again(
    values: tuple[float, ...], edits: int | None
) -> None:
    found = collapse_point(points(*values))
    assert (found and found.edits) == edits


@given(st.lists(st.floats(0, 1), max_size=8), st.floats(0.1, 0.9))
def test_after_the_collapse_every_score_is_below_the_share_and_before_it_there_is_a_best(
    values: list[float], share: float
) -> None:
    found = collapse_point(points(*values), share=share)
    if found is not None:
        index = found.edits // 10 - 1
        assert max(values[index:]) <= share * max(values[:index])
        assert index == 1 or max(values[index - 1 :]) > share * max(values[: index - 1])


def test_down_to_a_level_is_where_scores_stay() -> None:
    assert falls_to(points(0.9, 0.2, 0.5, 0.3, 0.1), 0.3) == Measured(40, 0.3)
    assert falls_to(points(0.9, 0.5), 0.3) is None
    assert falls_to(points(0.1, 0.2), 0.3) == Measured(10, 0.1)


def asked(right: str, **changes: object) -> list[Answer]:
    return [
        answer(f"Q{number}:P{number % 2}:Q9", text="Justin Trudeau" if ok == "1" else "Ottawa", **changes)
        for number, ok in enumerate(right)
    ]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Two timesteps of four and two cases, asked after two edits, at each end, and again at the end."""
    answers = [
        *asked("0001", after=None, timestep=T1),
        *asked("00", after=None, timestep=T2),
        *asked("11", after=T1, timestep=T1, edits=2),
        *asked("1110", after=T1, timestep=T1),
        *asked("1000", after=T2, timestep=T1),
        *asked("10", after=T2, timestep=T2),
    ]
    folder = write_run(tmp_path / "run", answers, protocol="sequential", batch_size=1)
    write_scores(folder)
    return read_runs([folder])[0]


def test_the_curve_counts_edits_over_timesteps_and_weighs_questions(run: Run) -> None:
    assert edit_curve(run, "wild") == [
        Measured(2, 1.0),
        Measured(4, 0.75),
        Measured(6, pytest.approx((0.25 * 4 + 0.5 * 2) / 6, abs=1e-6)),
    ]


def test_the_collapse_table_names_the_edits(run: Run) -> None:
    table = collapse_table([run], "wild")
    assert table is not None
    row = dict(zip([column.name for column in table.columns], table.texts()[0], strict=True))
    assert (row["best"], row["best at edits"], row["last"], row["last at edits"]) == ("100.0", "2", "33.3", "6")
    assert (row["collapse at edits"], row["down to unedited at edits"]) == ("6", "never")
    assert collapse_table([run], "synthetic") is None


def test_means_over_timesteps_weigh_questions_and_the_matrix_is_in_csv(run: Run) -> None:
    lifelong, matrix = lifelong_table([run], "wild"), retention_table([run], "wild")
    assert lifelong is not None
    assert matrix is not None
    row = dict(zip([column.name for column in lifelong.columns], lifelong.texts()[0], strict=True))
    assert (row["weighted mean"], row["spread"], row["lowest"], row["highest"]) == ("66.7", "12.5", "50.0", "75.0")
    assert (row["forgetting"], row["backward transfer"]) == ("+50.0", "-50.0")
    first, second = table_to_csv(matrix).splitlines()[1:]
    assert first == "1,ft-m,update,20211230 20221230,0.75,"
    assert second == "1,ft-m,update,20221230 20231230,0.25,0.5"
