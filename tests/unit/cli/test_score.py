"""`kgedit score`: stored answers judged by further metrics, kept when a run is measured again."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from world.small_runs import SYNTHETIC, T1, answer, write_run

from kgedit.cli import main
from kgedit.runs.run_files import read_scores
from kgedit.runs.scoring import write_scores


def command(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments], env={"COLUMNS": "120"})


@pytest.fixture
def run(tmp_path: Path) -> Path:
    said = {"Q1:P6:Q2": "Justin Trudeau\nQ: Who?", "Q3:P6:Q2": "Ottawa", "Q4:P54:Q2": "one two three four"}
    answers = [answer(case_id, text=text, after=after) for case_id, text in said.items() for after in (None, T1)]
    folder = write_run(tmp_path / "ft", [*answers, answer(of=SYNTHETIC)])
    write_scores(folder)
    return folder


def test_a_metric_is_added_to_the_scores_and_shown(run: Path) -> None:
    assert not [score for score in read_scores(run).scores if score.metric == "first_line"]
    shown = command("score", run, "--metric", "first_line", "--metric", "fluency")

    assert shown.exit_code == 0, shown.output
    (row,) = [line.split() for line in shown.stdout.splitlines() if "0.3333" in line]
    assert row == ["ft", "ft-m", "wild", "update", "0.3333", "0.3333", "[0,", "0.5]", "3"]
    assert "higher is better" in shown.stdout
    assert read_scores(run).also == ("first_line", "fluency")
    assert command("report", run).exit_code == 0
    command("report", run, "--rescore")
    assert {"first_line", "fluency"} <= {score.metric for score in read_scores(run).scores}


def test_scoring_twice_gives_the_same_bytes(run: Path) -> None:
    command("score", run, "--metric", "fluency")
    once = (run / "scores.json").read_bytes()
    command("score", run, "--metric", "fluency")
    assert (run / "scores.json").read_bytes() == once


def test_an_unknown_metric_and_one_that_judges_nothing_are_told(run: Path) -> None:
    before = (run / "scores.json").read_bytes()
    unknown = command("score", run, "--metric", "fluencey")
    assert unknown.exit_code == 1
    assert "fluency" in unknown.stderr
    assert (run / "scores.json").read_bytes() == before
    assert "probability can judge no answer" in command("score", run, "--metric", "probability").stderr
