"""Facts dated up to a model's knowledge cutoff and later ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from world.small_cases import plain_case
from world.small_runs import T1, T2, answer, write_run

import kgedit
from kgedit.analysis.breakdowns import breakdown_table, cutoff_groups, published_cutoff
from kgedit.analysis.runs import Run
from kgedit.analysis.tables import Estimate
from kgedit.cli import main
from kgedit.errors import TimestepError
from kgedit.pages.report_page import report_page
from kgedit.records.cases import Case, Fact, Specificity
from kgedit.records.runs import UNEDITED
from kgedit.runs.run_files import read_runs, write_edited_cases
from kgedit.runs.scoring import write_scores

DATES = ("-0044-03", "2021", "2023-09-30", "2023", "2023-10", None)
GROUPS = ("by 2023-09", "by 2023-09", "by 2023-09", "in 2023, month not given", "later than 2023-09")


def case(number: int, date: str | None) -> Case:
    fact = Fact(f"Q{number}", "Canada", f"P{number % 2}", "head of government", "Q9", "Justin Trudeau")
    old = {"old_objects": ("Q8",), "old_answers": ("Stephen Harper",)}
    return plain_case(fact, timestep=T1, point_in_time=date, **old)


def write(folder: Path, **spec: object) -> Path:
    """A run whose unedited model answers two of three facts by the cutoff, and none of the later ones."""
    cases = [case(number, date) for number, date in enumerate(DATES)]
    known = ("Justin Trudeau", "Justin Trudeau", *["nobody"] * 4)
    edited = [answer(one.case_id) for one in cases]
    unedited = [replace(one, model_state=UNEDITED, text=text) for one, text in zip(edited, known, strict=True)]
    write_run(folder, [*unedited, *edited], **spec)
    write_edited_cases(folder, cases)
    write_scores(folder)
    return folder


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return replace(read_runs([write(tmp_path / "run")])[0], knowledge_cutoff="2023-09")


def test_a_date_of_the_cutoffs_year_alone_is_in_neither_group(run: Run) -> None:
    assert tuple(cutoff_groups(run).values()) == GROUPS
    assert cutoff_groups(replace(run, knowledge_cutoff=None)) == {}


def test_means_before_and_after_the_cutoff_have_intervals(run: Run) -> None:
    table = breakdown_table([run], "cutoff", preset="wild")
    assert table is not None
    found = {row[3]: row[4:] for row in table.rows if row[2] == "update"}
    assert list(found) == sorted(set(GROUPS))
    cases, before, after = found["by 2023-09"]
    assert isinstance(before, Estimate)
    assert isinstance(after, Estimate)
    assert (cases, before.mean, after.mean) == (3, pytest.approx(2 / 3), 1.0)
    assert before.low is not None
    assert before.high is not None
    assert 0 < before.low < 2 / 3 < before.high < 1
    assert found["later than 2023-09"][1] == Estimate(0.0, None, None, 1)
    by_year = breakdown_table([run], "year", preset="wild")
    assert by_year is not None
    assert by_year.note.endswith("Knowledge cutoff: 2023-09.")


def test_a_report_takes_the_cutoff_from_the_user_or_the_published_model(tmp_path: Path) -> None:
    folder = write(tmp_path / "run")
    with pytest.raises(TimestepError, match="No knowledge cutoff"):
        kgedit.report(folder, by=["cutoff"])
    with pytest.raises(TimestepError, match="'2023' is not a month"):
        kgedit.report(folder, by=["cutoff"], knowledge_cutoff="2023")
    shown = CliRunner().invoke(
        main, ["report", str(folder), "--brief", "--by", "cutoff", "--knowledge-cutoff", "2023-09"]
    )
    assert shown.exit_code == 0, shown.output
    assert "later than 2023-09" in shown.stdout
    published = kgedit.report(write(tmp_path / "published", model="meta-llama/Llama-2-7b-hf"), by=["cutoff"])
    assert published.runs[0].knowledge_cutoff == "2022-09"


def test_only_listed_models_have_a_cutoff() -> None:
    assert published_cutoff("/models/Meta-Llama-3-8B/") == "2023-03"
    assert published_cutoff("mistralai/Mistral-7B-v0.1") is None
    assert published_cutoff("someone/Llama-2-7b-hf-finetuned") is None


def test_the_page_draws_years_with_the_cutoff_and_tenths_over_timesteps(tmp_path: Path) -> None:
    cases = [
        replace(case(number, f"{2015 + number}"), timestep=step, specificity=Specificity(subject_views=10**number))
        for step in (T1, T2)
        for number in range(8)
    ]
    edited = [answer(one.case_id, timestep=one.timestep, after=one.timestep) for one in cases]
    unedited = [
        replace(one, model_state=UNEDITED, text="Justin Trudeau" if number % 8 < 4 else "nobody")
        for number, one in enumerate(edited)
    ]
    write_run(tmp_path / "run", [*unedited, *edited])
    write_edited_cases(tmp_path / "run", cases)
    write_scores(tmp_path / "run")
    run = replace(read_runs([tmp_path / "run"])[0], knowledge_cutoff="2018-12")
    figures = {figure.title: figure for figure in report_page([run]).figures}
    before, after = figures["Updates by the year of the fact"].panels
    assert "2018 100 %" in before.title
    assert "Cutoff 2018-12: up to it 100 %" in before.title
    assert "later 0 %" in before.title
    assert "later 100 %" in after.title
    views = figures["Updates by subject views"]
    assert [panel.title.partition(".")[0] for panel in views.panels] == [
        "All timesteps",
        "Before any edit",
        "After: ft-m",
    ]
    assert "tenth 1: 1 100 %, 2 100 %" in views.panels[1].title
    assert "tenth 10: 1 0 %, 2 0 %" in views.panels[1].title
    assert "2 is 2022-12-30" in views.note
