"""`kgedit score`: stored answers judged by further metrics, kept when a run is measured again."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from world.small_runs import SYNTHETIC, T1, WILD, answer, write_run

from kgedit.analysis.results_files import score_table
from kgedit.checksums import SUMS
from kgedit.cli import main
from kgedit.runs.run_files import read_runs, read_scores, write_edited_cases
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
    (row,) = [line.split() for line in shown.stdout.splitlines() if "33.3" in line]
    assert row == ["ft", "ft-m", "wild", "update", "33.3", "33.3", "[0.2,", "99.3]", "3"]
    assert "higher is better. Mean in %." in shown.stdout
    assert read_scores(run).also == ("first_line", "fluency")
    assert command("report", run).exit_code == 0
    command("report", run, "--rescore")
    assert {"first_line", "fluency"} <= {score.metric for score in read_scores(run).scores}


def test_score_and_report_print_the_same_scale(run: Path) -> None:
    command("score", run, "--metric", "contains")
    for table in (command("score", run, "--metric", "contains").stdout, command("report", run).stdout):
        assert "33.3" in table
        assert "0.3333" not in table
    (row,) = json.loads(command("score", run, "--metric", "contains", "--format", "json").stdout)["tables"][0]["rows"]
    assert row["after"]["mean"] == 0.333333, "files and JSON hold fractions"


def test_what_is_no_share_is_never_printed_as_a_percentage(tmp_path: Path) -> None:
    """An entropy of 1.9 bits, as the metric of a separate preset and beside the others."""
    free_text = replace(WILD, name="free_text", metric="fluency")
    answers = [
        answer(f"Q{number}:P{number % 2}:Q9", text="one two three four", after=after, of=preset, axis=axis)
        for number in range(4)
        for after in (None, T1)
        for preset in (WILD, free_text)
        for axis in ("update", "locality")
    ]
    run = write_run(tmp_path / "ft", answers, presets=(WILD, free_text))
    write_scores(run, also=("fluency",))
    wanted = 2 / 3 * math.log2(3) + 4 / 3
    page = tmp_path / "page.html"
    shown = [
        command("score", run, "--metric", "fluency").stdout,
        command("report", run, "--html", page, "--by", "relation").stdout,
        command("leaderboard", run, "--format", "markdown").stdout,
        page.read_text(encoding="utf-8"),
    ]
    assert all(f"{100 * wanted:.1f}" not in text and f"{100 * wanted:.0f} %" not in text for text in shown)
    assert f"{wanted:.4g}" in shown[0]
    assert f"{wanted:.4g}" in shown[1]
    means = {row["mean"] for row in score_table(read_runs([run])).to_pylist() if not row["is_share"]}
    assert means == {round(wanted, 6)}


def test_scoring_twice_gives_the_same_bytes(run: Path) -> None:
    command("score", run, "--metric", "fluency")
    once = (run / "scores.json").read_bytes()
    command("score", run, "--metric", "fluency")
    assert (run / "scores.json").read_bytes() == once


def test_files_that_were_changed_since_are_refused_and_only_rescoring_accepts_them(run: Path) -> None:
    path = run / "answers.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-2]))
    files = {path.name: path.read_bytes() for path in run.iterdir()}
    for given in (("report",), ("score", "--metric", "contains_any"), ("score", "--metric", "judge")):
        shown = command(*given, run)
        assert shown.exit_code == 1
        assert "answers.jsonl is damaged" in shown.stderr
        assert "kgedit report --rescore" in shown.stderr
    assert {path.name: path.read_bytes() for path in run.iterdir()} == files
    assert command("report", run, "--rescore").exit_code == 0
    assert command("score", run, "--metric", "contains_any").exit_code == 0


def test_a_run_of_a_version_without_checksums_is_scored(run: Path) -> None:
    (run / SUMS).unlink()
    assert command("score", run, "--metric", "contains_any").exit_code == 0
    assert read_scores(run).also == ("contains_any",)


def test_an_unknown_metric_and_one_that_judges_nothing_are_told(run: Path) -> None:
    before = (run / "scores.json").read_bytes()
    unknown = command("score", run, "--metric", "fluencey")
    assert unknown.exit_code == 1
    assert "fluency" in unknown.stderr
    assert (run / "scores.json").read_bytes() == before
    assert "probability can judge no answer" in command("score", run, "--metric", "probability").stderr


@pytest.mark.parametrize("given", [("score", "--metric", "contains_any"), ("report", "--rescore")])
def test_a_file_that_cannot_be_written_is_named(given: tuple[str, ...], run: Path) -> None:
    (run / ".answers.parquet.aside").mkdir()
    shown = command(*given, run)
    assert shown.exit_code == 1
    assert ".answers.parquet.aside: Is a directory. Check the path" in shown.stderr


def test_cases_that_cannot_be_written_name_their_file(tmp_path: Path) -> None:
    (tmp_path / ".cases.parquet.aside").mkdir()
    with pytest.raises(OSError, match="Is a directory") as caught:
        write_edited_cases(tmp_path, [])
    assert caught.value.filename is not None
