"""Table 6 and figure 2 of WikiFactDiff, from the answers of runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from world.small_runs import answer, cost, write_run

from kgedit.analysis.report import report_tables
from kgedit.analysis.runs import Run
from kgedit.analysis.tables import Estimate, Table
from kgedit.analysis.wikifactdiff import ALL, PARTS, neighbours_table, wikifactdiff_table
from kgedit.llm.presets import PRESETS
from kgedit.pages.report_figures import exhibits_of
from kgedit.pages.report_views import views_of
from kgedit.records.runs import Answer, Neighbour
from kgedit.runs.run_files import read_runs
from kgedit.runs.scoring import write_scores

CLOZE, TEXT = PRESETS["cloze"], PRESETS["cloze_text"]
NEAR = [(0.1, 1.0), (0.2, 3.0), (0.3, 2.0), (0.4, 4.0)]
"""Similarity and popularity of four neighbours."""


def pair(before: dict[str, Any], after: dict[str, Any], **same: Any) -> list[Answer]:
    """The same question asked before any edit and after the edits."""
    return [answer(after=None, **same, **before), answer(**same, **after)]


def asked(lost: list[float]) -> list[Answer]:
    answers = pair({"probability": 0.1, "old_probability": 0.3}, {"probability": 0.9, "old_probability": 0.2}, of=CLOZE)
    for number, after in enumerate((0.4, 0.1)):
        measured = {"probability": after, "old_probability": 0.2}
        answers += pair(measured, measured, of=CLOZE, axis="rephrase", question=f"cloze {number}")
    answers += pair({"text": "a b c d"}, {"text": "a a a a"}, of=TEXT, axis="rephrase", question="text")
    for number, ((similarity, popularity), loss) in enumerate(zip(NEAR, lost, strict=True)):
        neighbour = Neighbour(subject=f"Q{number}", label="", similarity=similarity, popularity=popularity)
        same = {"of": CLOZE, "axis": "locality", "question": f"near {number}", "neighbour": neighbour}
        answers += pair({"probability": 0.5}, {"probability": 0.5 - loss}, **same)
    return answers


def write(folder: Path, answers: list[Answer], **spec: Any) -> Run:
    write_run(folder, answers, [cost()], **({"presets": (CLOZE, TEXT)} | spec))
    write_scores(folder)
    return read_runs([folder])[0]


def means(table: Table | None) -> list[list[float | None]]:
    assert table is not None
    return [[cell.mean if isinstance(cell, Estimate) else None for cell in row] for row in table.rows]


def test_a_run_in_clozes_is_a_row_of_table_6_below_the_unedited_model(tmp_path: Path) -> None:
    run = write(tmp_path / "ft", asked([0.4, 0.0, 0.0, 0.2]))
    table = wikifactdiff_table([run])
    assert table is not None
    assert [column.name for column in table.columns] == [
        *("#", "method", "efficacy D", "efficacy S", "generalization D", "generalization S"),
        *("bleedover random", "bleedover nearest", "fluency", "s/edit"),
    ]
    unedited, edited = means(table)
    assert [row[1] for row in table.rows] == ["unedited", "ft-m"]
    assert unedited[2:6] == pytest.approx([-0.2, 0.0, 0.05, 0.5])
    assert edited[2:6] == pytest.approx([0.7, 1.0, 0.05, 0.5])
    assert (edited[6], edited[7]) == (None, pytest.approx(0.15))
    # H2 of four words is log2(3), H3 is 1.
    assert unedited[8] == pytest.approx(1 / 3 * 1.584963 + 2 / 3)
    assert edited[8] == 0.0
    assert table.rows[1][9] == 2.0
    assert table.title in [other.title for other in report_tables([run])]


def test_runs_that_ask_no_clozes_have_no_table_6(tmp_path: Path) -> None:
    run = write(tmp_path / "ft", [answer()], presets=(PRESETS["synthetic"], PRESETS["wild"]))
    assert wikifactdiff_table([run]) is None


def test_bleedover_by_neighbour_weighs_each_method_alike(tmp_path: Path) -> None:
    """One method damages ten times as much as the other, yet both count alike."""
    runs = [
        write(tmp_path / "one", asked([0.04, 0.0, 0.0, 0.02])),
        write(tmp_path / "two", asked([0.0, 0.0, 0.2, 0.4]), method="rag"),
        write(tmp_path / "none", asked([0.0] * 4), method="none"),
    ]
    table = neighbours_table(runs, "cloze")
    assert table is not None
    assert [row[0] for row in table.rows] == [ALL, *PARTS]
    grid = [row[1:] for row in means(table)]
    assert grid[0][0] == pytest.approx(1.0), "of all neighbours: the average"
    # Ratios to the method's mean: 8/3, 0, 0, 4/3 and 0, 0, 4/3, 8/3; a mean over the two methods.
    assert [row[0] for row in grid[1:]] == pytest.approx([4 / 3, 0.0, 2 / 3, 2.0])
    assert grid[0][1:] == pytest.approx([4 / 3, 2 / 3, 0.0, 2.0]), "columns go by popularity"
    assert grid[1][1:] == [pytest.approx(4 / 3), None, None, None]
    (figure,) = [one.figure for view in views_of(runs) for one in exhibits_of(view) if "neighbour" in one.choice]
    assert "2.00" in figure.panels[0].title


def test_neighbours_that_are_equally_popular_make_no_figure(tmp_path: Path) -> None:
    same = [one if one.neighbour is None else replace_popularity(one, 2.0) for one in asked([0.4, 0.0, 0.0, 0.2])]
    assert neighbours_table([write(tmp_path / "ft", same)], "cloze") is None


def replace_popularity(given: Answer, popularity: float) -> Answer:
    assert given.neighbour is not None
    return replace(given, neighbour=replace(given.neighbour, popularity=popularity))
