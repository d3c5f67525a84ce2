"""Bleedover on nearest and random neighbours, and by how similar and how popular they are."""

from __future__ import annotations

from pathlib import Path

import pytest
from world.small_runs import SYNTHETIC, answer, write_run

from kgedit.analysis.breakdowns import breakdown_table
from kgedit.analysis.report import report_tables
from kgedit.analysis.runs import Run
from kgedit.analysis.tables import Estimate
from kgedit.analysis.wikifactdiff import bleedover_split_table, bleedover_table
from kgedit.records.runs import Answer, Neighbour
from kgedit.runs.run_files import read_runs, read_scores
from kgedit.runs.scoring import write_scores

# Probability before and after the edit, similarity and popularity, of two relations.
NEAREST = [
    ("P6", 0.5, 0.1, 0.1, 1.0), ("P54", 0.5, 0.4, 0.2, 2.0), ("P6", 0.2, 0.3, 0.3, None), ("P54", 0.4, 0.4, 0.4, 8.0)
]  # fmt: skip
RANDOM = [("P6", 0.3, 0.1, None, 3.0)]


def asked(axis: str, rows: list[tuple[str, float, float, float | None, float | None]]) -> list[Answer]:
    answers = []
    for number, (relation, before, after, similarity, popularity) in enumerate(rows):
        neighbour = Neighbour(
            subject=f"Q{number}", label=f"label {number}", similarity=similarity, popularity=popularity
        )
        same = {"axis": axis, "of": SYNTHETIC, "neighbour": neighbour, "question": f"{axis} {number}"}
        case_id = f"Q{100 + number}:{relation}:Q1"
        answers += [
            answer(case_id, after=None, probability=before, **same),
            answer(case_id, probability=after, **same),
        ]
    return answers


@pytest.fixture
def run(tmp_path: Path) -> Run:
    folder = write_run(tmp_path / "ft", asked("locality", NEAREST) + asked("random_locality", RANDOM))
    write_scores(folder)
    return read_runs([folder])[0]


def test_losses_count_and_gains_do_not_and_the_two_kinds_stand_apart(run: Run) -> None:
    table = bleedover_table([run], "synthetic")
    assert table is not None
    near, drawn = table.rows
    assert near[2:4] == ("nearest", 4)
    assert drawn[2:4] == ("random", 1)
    estimate, before, after = near[4:]
    assert isinstance(estimate, Estimate)
    assert estimate.mean == pytest.approx((0.4 + 0.1 + 0 + 0) / 4)
    assert estimate.low is not None
    assert (before, after) == pytest.approx((0.4, 0.3))
    assert isinstance(drawn[4], Estimate)
    assert drawn[4].mean == pytest.approx(0.2)
    scores = {(one.axis, one.metric, one.stage): one.mean for one in read_scores(run.folder).scores}
    assert scores["locality", "bleedover", "own"] == pytest.approx(0.125)
    assert scores["random_locality", "bleedover", "own"] == pytest.approx(0.2)
    assert "Bleedover, preset synthetic" in [one.title for one in report_tables([run])]


def test_it_is_split_by_fourths_of_similarity_and_popularity(run: Run) -> None:
    table = breakdown_table([run], "neighbour_similarity", preset="synthetic")
    assert table is not None
    (row,) = table.rows
    assert row[2:4] == ("nearest", 4)
    assert [cell.mean for cell in row[4:] if isinstance(cell, Estimate)] == pytest.approx([0.4, 0.1, 0.0, 0.0])
    assert bleedover_split_table([run], "neighbour_popularity", preset="synthetic") is None, "three know theirs"

    counts = {"Q0": 900, "label 1": 900, "Q2": 5, "Q3": 5}
    counted = bleedover_split_table([run], "neighbour_popularity", preset="synthetic", counts=counts)
    assert counted is not None
    parts = [cell.mean if isinstance(cell, Estimate) else None for cell in counted.rows[0][4:]]
    assert parts == [None, pytest.approx(0.0), None, pytest.approx(0.25)], "equals fall into the same fourth"
    assert "counts that were given" in counted.note


def test_free_answers_have_no_bleedover(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "free", [answer(axis="locality", after=None), answer(axis="locality")])
    write_scores(folder)
    (free,) = read_runs([folder])
    assert bleedover_table([free], "wild") is None
    assert free.answers["bleedover"].null_count == 2
