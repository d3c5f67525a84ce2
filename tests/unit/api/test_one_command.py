"""`kgedit up`: stopped anywhere it resumes to the same, and what is there is not made again.

On the bundled sample with the profile wikifactdiff, which needs no server, and a model of random weights.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from world.dumps import hashes
from world.page_runs import NAMES, write_page_run
from world.small_models import save, small_model

import kgedit
from kgedit.api.one_command import StepTaken
from kgedit.api.up_summary import _effects, _what_it_did
from kgedit.cli import main
from kgedit.errors import BenchmarkError, SourceError
from kgedit.runs.run_files import read_runs

COSTS = ("seconds", "cpu_seconds", "peak_memory_bytes")


class _KilledError(Exception):
    """Stands for a kill: nothing in kgedit catches it."""


def _up(home: Path, model: Path, *, progress: Any = None, told: Any = None) -> kgedit.Outcome:
    return kgedit.up(
        model=str(model),
        methods="ft_m",
        profile="wikifactdiff",
        graph=False,
        spec={"sample": 3, "presets": ["synthetic"], "settings": {"steps": 2}, "device": "cpu"},
        home=home,
        progress=progress,
        told=told,
    )


def _kill_in(title: str) -> Callable[[str, int, str], Callable[[int, int], None]]:
    """Progress that dies when a step of this title has begun."""

    def progress(shown: str, _total: int, _unit: str) -> Callable[[int, int], None]:
        def update(_done: int, _counted: int) -> None:
            if shown.startswith(title):
                raise _KilledError(shown)

        return update

    return progress


def _answers(outcome: kgedit.Outcome) -> list[dict[str, Any]]:
    lines = (outcome.runs[0] / "answers.jsonl").read_text(encoding="utf-8").splitlines()
    return [{key: value for key, value in json.loads(line).items() if key not in COSTS} for line in lines]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model") / "model"
    save(small_model(), folder)
    return folder


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("up") / "home"


@pytest.fixture(scope="module")
def unbroken(home: Path, model: Path) -> kgedit.Outcome:
    return _up(home, model)


@pytest.mark.slow
def test_a_call_that_was_killed_twice_ends_as_one_that_was_not(
    tmp_path: Path, unbroken: kgedit.Outcome, model: Path
) -> None:
    home = tmp_path / "home"
    for title in ("Joining", "evaluate after"):
        with pytest.raises(_KilledError):
            _up(home, model, progress=_kill_in(title))
    steps: list[StepTaken] = []
    resumed = _up(home, model, told=steps.append)
    kept = [step.name for step in steps if step.state == "kept"]
    assert kept[:3] == ["write the sample's dumps", "load 2021-01-04", "load 2023-02-27"]
    assert kept[3:] == ["turn the changes into questions"]
    assert hashes(resumed.timestep) == hashes(unbroken.timestep)
    assert _answers(resumed) == _answers(unbroken)
    assert resumed.sentences[:2] == unbroken.sentences[:2]


@pytest.mark.slow
def test_what_is_there_is_neither_made_again_nor_estimated(home: Path, unbroken: kgedit.Outcome, model: Path) -> None:
    before = unbroken.page.stat().st_mtime_ns
    again = _up(home, model)
    assert {step.state for step in again.steps} == {"kept"}
    assert again.page.stat().st_mtime_ns == before
    assert again.sentences == unbroken.sentences
    options = ("--profile", "wikifactdiff", "--no-graph", "--model", str(model), "--dry-run", "--format", "json")
    states = [row["is_done"] for row in json.loads(_command(home, *options).stdout)]
    assert states == [True, True, True, True, False, False], "a run of other settings is another one"


@pytest.mark.slow
def test_the_sentences_say_what_summary_and_scores_hold(unbroken: kgedit.Outcome) -> None:
    changed, effect, page = unbroken.sentences
    counts = unbroken.numbers["changes"]
    assert (counts["older"], counts["newer"], counts["drawn"]) == ("2021-01-04", "2023-02-27", 3)
    assert f"{counts['changed']:,} facts changed" in changed
    scores = kgedit.read_run(unbroken.runs[0]).pooled("own", "update", "synthetic").values()
    forced = next(score for score in scores if score.main)
    assert f"{100 * forced.mean:.0f} % (95 % interval" in effect
    assert f"n = {forced.n})" in effect
    assert str(unbroken.page) in page
    assert unbroken.page.is_file()
    assert unbroken.changes_page.is_file()


def _command(home: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["up", *arguments], env={"KGEDIT_HOME": str(home)})


def test_a_dry_run_on_nothing_tells_every_step_and_makes_none(tmp_path: Path) -> None:
    told = _command(tmp_path / "home", "--dry-run", "--format", "json")
    assert told.exit_code == 0, told.output
    steps = json.loads(told.stdout)
    assert [step["name"].split()[0] for step in steps] == ["write", "load", "load", "bring", "turn", "ask", "write"]
    assert all(step["seconds"] > 0 and step["basis"] for step in steps)
    assert steps[-2]["questions"] == 2 * round(30 * 4.04 * 2)
    assert not (tmp_path / "home").exists()


def test_a_dump_is_estimated_by_its_beginning(tmp_path: Path) -> None:
    statement = '{"mainsnak":' + "1" * 500 + "}"
    for day in ("20210104", "20230227"):
        (tmp_path / f"{day}.json").write_text("[\n" + ",\n".join([statement] * 2000) + "\n]\n", encoding="utf-8")
    given = [str(tmp_path / f"{day}.json") for day in ("20210104", "20230227")]
    told = _command(tmp_path / "home", *given, "--dry-run", "--format", "json")
    steps = json.loads(told.stdout)
    assert [step["disk"] for step in steps if step["name"].startswith("load")] == [106 * 2000] * 2


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        (("old.json", "20230227.json"), SourceError, "no day such as 20210104 in it. Give it: older"),
        (("20230227.json", None), SourceError, "Only one state of Wikidata is given"),
        (("absent", "20230227.json"), SourceError, "There is no file .*absent"),
        (("20230227.json", "2021-01-04"), BenchmarkError, "Give the older first"),
        (("2021-01-04", "2023-02-27"), kgedit.StoreError, "No snapshot of 2021-01-04 is loaded"),
    ],
)
def test_states_that_cannot_be_told_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: tuple[str, str | None], error: type[Exception], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("old.json", "20230227.json"):
        (tmp_path / name).write_text("[\n]\n", encoding="utf-8")
    with pytest.raises(error, match=said):
        kgedit.up(*given, home=tmp_path / "home")


def test_what_a_later_step_would_refuse_is_told_before_the_first(tmp_path: Path) -> None:
    refused = _command(tmp_path / "home", "--method", "gracee", "--protocol", "both", "--no-open")
    assert refused.exit_code == 1
    assert "gracee" in refused.stderr
    assert "protocol" in refused.stderr
    assert not (tmp_path / "home").exists()


def test_changes_of_wikibigedit_need_the_graph(tmp_path: Path) -> None:
    refused = _command(tmp_path, "--no-graph")
    assert refused.exit_code == 1
    assert "--profile wikifactdiff" in refused.stderr


def test_of_several_methods_the_one_with_most_right_answers_is_told_of(tmp_path: Path) -> None:
    runs = [
        write_page_run(tmp_path / "rag", NAMES, right=2, train_context=None),
        write_page_run(tmp_path / "ft_m", NAMES, method="ft_m", right=5),
    ]
    effects = _effects(read_runs(runs))
    assert [(one.method, round(12 * one.free.mean)) for one in effects if one.free] == [("rag", 6), ("ft_m", 3)]
    said = _what_it_did(effects)
    assert said.startswith("rag (the highest of 2 methods; the others are on the page) gets 50 % (95 % interval")
    assert "answers that have nothing to do with the edits" in said
