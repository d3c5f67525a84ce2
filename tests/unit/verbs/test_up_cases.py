"""`kgedit up` on data without cases: it names a profile, or timesteps, that have some, before it loads a model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from world.dumps import Json
from world.two_days import NEW, OLD, about, item, two_snapshots

import kgedit
from kgedit.cli import main
from kgedit.errors import TimestepError
from kgedit.verbs.up_estimates import estimate
from kgedit.verbs.up_inputs import THIRD_RUN, UpInputs, read_inputs
from kgedit.verbs.up_steps import check_has_cases


def _people() -> list[Json]:
    return [item("P6", label="head of government"), item("Q2", label="Ada"), item("Q3", label="Grace")]


def _inputs(home: Path, older: str, newer: str, profile: str) -> UpInputs:
    kgedit.Home(home).export_timestep(older, newer, profile=profile, engine="store")
    return read_inputs(
        home,
        older,
        newer,
        older_date=None,
        newer_date=None,
        models=("smollm2-135m",),
        methods=("rag",),
        run={},
        redirects=None,
        profile=profile,
        graph=False,
    )


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A town whose head of government changed; without constraints, wikifactdiff knows no relation with one value."""
    town = {officer: item("Q1", about("P6", officer), label="Somewhere") for officer in ("Q2", "Q3")}
    old, _ = two_snapshots(tmp_path, [*_people(), town["Q2"]], [*_people(), town["Q3"]])
    return old.folder.parent.parent


def test_each_run_is_estimated_with_the_questions_of_its_own_axes(home: Path) -> None:
    tiny, smollm2 = {"model": "tiny", "method": "ft_m"}, {"model": "smollm2-135m", **THIRD_RUN}
    inputs = replace(_inputs(home, OLD, NEW, "wikibigedit"), runs=(tiny, smollm2))
    assert [probe.axis for case in kgedit.Timestep.open(inputs.timestep).cases() for probe in case.probes] == [
        "update",
        "rephrase",
        "personas",
    ]
    _, of_tiny, of_smollm2, pages = estimate(inputs)
    assert (of_tiny.questions, of_smollm2.questions) == (2 * (3 + 3), 2 * (1 + 2))
    assert pages.basis == "18 answers"


@pytest.mark.slow
def test_the_other_profile_is_named_with_its_number_of_cases(home: Path) -> None:
    check_has_cases(_inputs(home, OLD, NEW, "wikibigedit"))
    before = sorted(path for path in home.rglob("*"))
    inputs = _inputs(home, OLD, NEW, "wikifactdiff")
    with pytest.raises(TimestepError, match="wikibigedit has 1: add profile wikibigedit to the same command"):
        check_has_cases(inputs)
    left = {path for path in home.rglob("*") if inputs.timestep not in (path, *path.parents)}
    assert sorted(left) == before, "the attempt leaves nothing"


@pytest.mark.slow
def test_an_export_without_cases_names_the_other_profile_too(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGEDIT_HOME", str(home))
    for window in (["--from", OLD, "--to", NEW], ["--all"]):
        given = ["export-timestep", *window, "--profile", "wikifactdiff", "--engine", "store"]
        assert (
            f"No change between {OLD} and {NEW} became a case of the profile wikifactdiff. wikibigedit has 1: add "
            "--profile wikibigedit to the same command."
        ) in CliRunner().invoke(main, given).stderr
        again = CliRunner().invoke(main, ["export-timestep", *window, "--engine", "store"])
        assert "No change" not in again.stderr


@pytest.mark.slow
def test_timesteps_with_cases_are_named_if_no_profile_has_any(home: Path) -> None:
    same = kgedit.Home(home)
    same.load_dump(home.parent / f"{NEW}.json", "2024-06-03", graph=False)
    _inputs(home, OLD, NEW, "wikibigedit")
    with pytest.raises(TimestepError, match=r"have cases: 20210104_20230227\. Give their two dates"):
        check_has_cases(_inputs(home, NEW, "2024-06-03", "wikibigedit"))


@pytest.mark.slow
def test_without_any_the_message_says_what_to_change(tmp_path: Path) -> None:
    old, _ = two_snapshots(tmp_path, _people(), _people())
    with pytest.raises(TimestepError, match=r"further apart or contain more items; .*timestep\.json counts"):
        check_has_cases(_inputs(old.folder.parent.parent, OLD, NEW, "wikibigedit"))
