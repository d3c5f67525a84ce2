"""`kgedit up`: after an interruption it resumes to the same result, and existing results are kept.

On the bundled sample with the profile wikifactdiff, which needs no server, and a model of random weights.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from world.dumps import hashes
from world.small_models import save, small_model
from world.two_days import NEW, OLD, item, two_snapshots

import kgedit
from kgedit.cli import main
from kgedit.errors import SourceError, TimestepError
from kgedit.verbs.up import StepTaken
from kgedit.verbs.up_inputs import read_inputs
from kgedit.verbs.up_steps import steps_of

COSTS = ("seconds", "cpu_seconds", "peak_memory_bytes")
MEASURED = ("seconds_per_edit",)


class _KilledError(Exception):
    """Stands for a kill: nothing in kgedit catches it."""


def _up(home: Path, model: Path, *, progress: Any = None, on_step: Any = None) -> kgedit.Outcome:
    return kgedit.up(
        model=str(model),
        methods="ft_m",
        profile="wikifactdiff",
        graph=False,
        spec={"sample": 3, "presets": ["synthetic", "wild"], "settings": {"steps": 2}, "device": "cpu"},
        home=home,
        progress=progress,
        on_step=on_step,
    )


def _kill_in(title: str) -> Callable[[str, int, str], Callable[[int, int], None]]:
    """Progress that is killed when a stage of this title reports."""

    def progress(shown: str, _total: int, _unit: str) -> Callable[[int, int], None]:
        def update(_done: int, _counted: int) -> None:
            if shown.startswith(title):
                raise _KilledError(shown)

        return update

    return progress


def _kill_at(number: int, state: str) -> Callable[[StepTaken], None]:
    """Listener that is killed as a step begins, or right after its result is there."""

    def on_step(taken: StepTaken) -> None:
        if (taken.number, taken.state) == (number, state):
            raise _KilledError(taken.name)

    return on_step


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


def _numbers(outcome: kgedit.Outcome) -> dict[str, Any]:
    """The numbers except measured times and paths."""
    methods = [
        {name: value for name, value in one.items() if name not in MEASURED} for one in outcome.numbers["methods"]
    ]
    shown = {name: outcome.numbers[name] for name in ("changes", "examples")}
    return {**shown, "methods": methods, "sentences": outcome.sentences[:-1]}


@pytest.mark.slow
def test_a_call_that_was_killed_at_every_step_ends_as_one_that_was_not(
    tmp_path: Path, unbroken: kgedit.Outcome, model: Path
) -> None:
    other = tmp_path / "home"
    for number in range(1, len(unbroken.steps) + 1):
        for state in ("begun", "made"):
            with pytest.raises(_KilledError):
                _up(other, model, on_step=_kill_at(number, state))
        if number == 2:
            with pytest.raises(_KilledError):
                _up(other, model, progress=_kill_in("Joining"))
        if number == 4:
            with pytest.raises(_KilledError):
                _up(other, model, progress=_kill_in("evaluate after"))
    resumed = _up(other, model)
    assert {step.state for step in resumed.steps} == {"kept"}
    assert hashes(resumed.timestep) == hashes(unbroken.timestep)
    assert _answers(resumed) == _answers(unbroken)
    assert _numbers(resumed) == _numbers(unbroken)


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
    changed, known, learned, damage, page = unbroken.sentences
    counts = unbroken.numbers["changes"]
    assert (counts["older"], counts["newer"], counts["drawn"]) == ("2021-01-04", "2023-02-27", 3)
    assert f"{counts['changed']:,} facts changed" in changed
    assert known.startswith("Before the edits, model knew 0 % of the old answers (n = ")
    scores = kgedit.read_run(unbroken.runs[0]).pooled("own", "update", "wild").values()
    free = next(score for score in scores if score.main)
    assert f"answers {100 * free.mean:.0f} % (95 % interval" in learned
    assert f"n = {free.n})" in learned
    assert "ft_m (weights of the model) changed" in damage
    assert str(unbroken.page) in page
    assert unbroken.page.is_file()
    assert unbroken.changes_page.is_file()


@pytest.mark.slow
def test_the_first_line_says_what_is_done_and_the_last_is_the_page(
    home: Path, unbroken: kgedit.Outcome, model: Path
) -> None:
    options = [
        "--profile",
        "wikifactdiff",
        "--no-graph",
        "--method",
        "ft_m",
        "--sample",
        "3",
        "--device",
        "cpu",
        "--no-open",
    ]
    shown = _command(
        home, *options, "--model", str(model), "--set", "steps=2", "--preset", "synthetic", "--preset", "wild"
    )
    assert shown.exit_code == 0, shown.output
    assert shown.stderr.startswith("Finding what changed in the bundled sample of Wikidata between 2021-01-04 and")
    assert f"editing {model} with ft_m: 6 steps, " in shown.stderr.splitlines()[0]
    assert "Three of the questions, drawn at random (seed 0)" in shown.stdout
    for example in unbroken.numbers["examples"]:
        assert f"\n{example['question']}\n" in shown.stdout
        assert f"  Right answer: {example['target']} (formerly " in shown.stdout
    assert Path(shown.stdout.splitlines()[-1]).name == "report.html"


def _command(home: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["up", *arguments], env={"KGEDIT_HOME": str(home)})


def test_a_dry_run_on_nothing_shows_every_step_and_makes_none(tmp_path: Path) -> None:
    result = _command(tmp_path / "home", "--dry-run", "--format", "json")
    assert result.exit_code == 0, result.output
    steps = json.loads(result.stdout)
    assert [step["name"].partition(",")[0] for step in steps] == [
        "write the sample's dumps",
        "load 2021-01-04",
        "load 2023-02-27",
        "update the graph in Neo4j",
        "turn the changes into questions",
        "edit tiny with locft_bf",
        "edit tiny with ft_m",
        "edit smollm2-135m with graph_rag",
        "write the pages",
    ]
    assert all(step["seconds"] > 0 and step["basis"] for step in steps)
    every, of_table = 3 + 0.78 + 0.07, 3 + 0.78
    assert [step["questions"] for step in steps[-4:-1]] == [
        2 * round(30 * questions) for questions in (2 * every, 2 * every, of_table)
    ]
    assert not (tmp_path / "home").exists()


def test_a_dump_is_estimated_by_its_beginning(tmp_path: Path) -> None:
    statement = '{"mainsnak":' + "1" * 500 + "}"
    for day in ("20210104", "20230227"):
        (tmp_path / f"{day}.json").write_text("[\n" + ",\n".join([statement] * 2000) + "\n]\n", encoding="utf-8")
    given = [str(tmp_path / f"{day}.json") for day in ("20210104", "20230227")]
    result = _command(tmp_path / "home", *given, "--dry-run", "--format", "json")
    steps = json.loads(result.stdout)
    assert [step["disk"] for step in steps if step["name"].startswith("load")] == [57 * 2000] * 2


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        (("old.json", "20230227.json"), SourceError, "no day such as 20210104 in it. Give it: older"),
        (("20230227.json", None), SourceError, "Only one state of Wikidata is given"),
        (("absent", "20230227.json"), SourceError, "There is no file .*absent"),
        (("20230227.json", "2021-01-04"), TimestepError, "Give the older first"),
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


@pytest.mark.slow
def test_without_the_graph_the_store_finds_the_changes(tmp_path: Path) -> None:
    home = tmp_path / "home"
    planned = _command(home, "--no-graph", "--dry-run", "--format", "json")
    assert planned.exit_code == 0, planned.output
    assert not [step for step in json.loads(planned.stdout) if "graph in Neo4j" in step["name"]]
    inputs = read_inputs(
        home, None, None, older_date=None, newer_date=None, models=(), methods=(), run={}, redirects=None,
        profile="wikibigedit", graph=False,
    )  # fmt: skip
    for step in steps_of(inputs, overwrite=False, track=None)[:4]:
        step.carry_out(lambda _title, _total, _unit: lambda _done, _counted: None)
    assert kgedit.Timestep.open(inputs.timestep).manifest["engine"] == "store"
    assert not (home / "neo4j").exists()


def test_a_dump_that_is_newer_than_its_snapshot_is_compared_once(tmp_path: Path) -> None:
    home = two_snapshots(tmp_path, [item("Q1")], [item("Q1")])[0].folder.parent.parent
    dumps = [tmp_path / f"{day}.json" for day in (OLD, NEW)]
    for dump in dumps:  # with the options of `up`
        kgedit.Home(home).load_dump(dump, dump.stem, graph=False, overwrite=True)
    kgedit.Home(home).export_timestep(OLD, NEW, engine="store")
    later = dumps[0].stat().st_mtime + 3600
    os.utime(dumps[0], (later, later))
    given = (*map(str, dumps), "--no-graph", "--dry-run", "--format", "json")
    planned = json.loads(_command(home, *given).stdout)
    assert [step["is_done"] for step in planned] == [False, True, True, False, False]
    assert (planned[0]["disk"], "its hash is compared" in planned[0]["basis"]) == (0, True)
    kgedit.Home(home).load_dump(dumps[0], OLD, graph=False)
    assert [step["is_done"] for step in json.loads(_command(home, *given).stdout)] == [True, True, True, False, False]
