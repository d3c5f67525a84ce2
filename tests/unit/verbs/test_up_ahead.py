"""Runs of `up` in a second process: the results are those of one process, also if the second one ends early."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from world.small_models import save, small_model

import kgedit
from kgedit.verbs import up_ahead
from kgedit.verbs.up import StepTaken

COSTS = ("seconds", "cpu_seconds", "peak_memory_bytes")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("models")
    for name in ("first", "second"):
        save(small_model(), folder / name)
    return str(folder / "first"), str(folder / "second")


@pytest.fixture(scope="module", autouse=True)
def two_models_fit(models: tuple[str, str]) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(up_ahead, "_BESIDE_EACH_OTHER", set(models))
        patch.setattr(up_ahead, "usable_cores", lambda: 2)
        yield


def _up(home: Path, models: tuple[str, str], on_step: Any = None) -> kgedit.Outcome:
    return kgedit.up(
        model=models,
        methods="ft_m",
        profile="wikifactdiff",
        graph=False,
        spec={"sample": 3, "presets": ["synthetic"], "settings": {"steps": 2}, "device": "cpu"},
        home=home,
        on_step=on_step,
    )


def _answers(outcome: kgedit.Outcome) -> list[list[dict[str, Any]]]:
    texts = [(run / "answers.jsonl").read_text(encoding="utf-8") for run in outcome.runs]
    return [
        [{key: value for key, value in json.loads(line).items() if key not in COSTS} for line in text.splitlines()]
        for text in texts
    ]


@pytest.fixture(scope="module")
def waited() -> Iterator[list[float | None]]:
    """What each wait for a second process has returned so far."""
    found: list[float | None] = []
    wait = up_ahead.Ahead.wait

    def spied(*given: Any) -> float | None:
        found.append(wait(*given))
        return found[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(up_ahead.Ahead, "wait", spied)
        yield found


@pytest.fixture(scope="module")
def beside(
    models: tuple[str, str], two_models_fit: None, waited: list[float | None], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, kgedit.Outcome]:
    """A home whose runs were made beside each other, and the outcome."""
    home = tmp_path_factory.mktemp("beside")
    outcome = _up(home, models)
    assert [seconds is not None for seconds in waited] == [True], "the second process made the second run"
    return home, outcome


def _copy_without_runs(home: Path, target: Path) -> Path:
    """Finding the changes takes longer than both runs."""
    shutil.copytree(home, target, ignore=shutil.ignore_patterns("runs", "reports"))
    return target


@pytest.mark.slow
def test_the_results_are_those_of_one_process(
    tmp_path: Path,
    models: tuple[str, str],
    beside: tuple[Path, kgedit.Outcome],
    waited: list[float | None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    home, outcome = beside
    assert {step.state for step in _up(home, models).steps} == {"kept"}

    others = {name: _copy_without_runs(home, tmp_path / name) for name in ("killed", "alone")}
    before = len(waited)
    killed = _up(others["killed"], models, _killer_of_second_process())
    assert waited[before:] == [None]
    monkeypatch.setattr(up_ahead, "usable_cores", lambda: 1)
    alone = _up(others["alone"], models)
    assert len(waited) == before + 1
    assert _answers(outcome) == _answers(killed) == _answers(alone)
    assert len(_answers(alone)[1]) > 0


def _killer_of_second_process() -> Callable[[StepTaken], None]:
    # The browser of other tests in this process is a child, too.
    others = psutil.Process().children()

    def kill(taken: StepTaken) -> None:
        if taken.name.startswith("edit"):
            for child in psutil.Process().children():
                if child not in others:
                    child.kill()

    return kill


def test_a_message_that_breaks_off_ends_the_wait() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", "print('[\"step\", 1, ', end='')"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    ahead = up_ahead.Ahead([7], process)
    assert ahead.wait(7, lambda *_: pytest.fail("no step was reported")) is None
    assert ahead.wait(8, lambda *_: pytest.fail("no step was reported")) is None
    process.communicate()


_CALLER = """
import subprocess, sys, kgedit
from kgedit.verbs import up_ahead
up_ahead._BESIDE_EACH_OTHER = set(sys.argv[2:])
up_ahead.usable_cores = lambda: 2
def on_step(taken):
    if taken.name.startswith("edit"):
        print("begun", flush=True)
        import time
        time.sleep(600)
kgedit.up(model=sys.argv[2:], methods="ft_m", profile="wikifactdiff", graph=False, home=sys.argv[1], on_step=on_step,
          spec={"sample": 3, "presets": ["synthetic"], "settings": {"steps": 2}, "device": "cpu"})
"""


@pytest.mark.slow
def test_it_ends_when_its_caller_is_killed(
    tmp_path: Path, models: tuple[str, str], beside: tuple[Path, kgedit.Outcome]
) -> None:
    home = _copy_without_runs(beside[0], tmp_path / "home")
    caller = subprocess.Popen([sys.executable, "-c", _CALLER, str(home), *models], stdout=subprocess.PIPE, text=True)
    assert caller.stdout is not None
    assert caller.stdout.readline() == "begun\n"
    children = psutil.Process(caller.pid).children()
    assert children
    os.kill(caller.pid, signal.SIGKILL)
    caller.wait()
    _gone, alive = psutil.wait_procs(children, timeout=120)
    assert not alive
