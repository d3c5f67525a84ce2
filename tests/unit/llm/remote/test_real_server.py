"""A judge, a backend and a verbalizer on a real OpenAI-compatible server: transformers serves smollm2-135m here."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from world.small_runs import answer, write_run
from world.small_timestep import write_timestep

from kgedit.cli import main
from kgedit.llm.backends.contract import TransformersBackend
from kgedit.llm.backends.openai import OpenAIBackend
from kgedit.llm.contexts import read_context
from kgedit.llm.generation import PresetQuestion, Question
from kgedit.llm.loading import BUILT_IN, describe_model, load_model
from kgedit.llm.presets import PRESETS
from kgedit.llm.remote.client import Effort
from kgedit.llm.remote.server import ChatServer
from kgedit.runs.judging import RemoteJudge
from kgedit.runs.run_files import read_scores
from kgedit.runs.scoring import write_scores
from kgedit.timesteps.verbalizing import wanted_wordings
from kgedit.timesteps.verbalizing.verbalizers import RemoteVerbalizer

pytestmark = [pytest.mark.models, pytest.mark.slow]


@pytest.fixture(scope="module")
def model() -> str:
    return BUILT_IN["smollm2-135m"](None, None).path_or_name


@pytest.fixture(scope="module")
def url(transformers_address: str) -> str:
    return f"{transformers_address}/v1"


def test_a_real_server_judges_and_counts_as_estimated(
    url: str, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = {"Q1:P6:Q2": "Justin Trudeau", "Q3:P6:Q2": "Ottawa", "Q4:P54:Q2": "It is Mr Trudeau."}
    run = write_run(tmp_path / "ft", [answer(case_id, text=text) for case_id, text in said.items()])
    write_scores(run)
    monkeypatch.setenv("KGEDIT_CACHE", str(tmp_path / "cache"))
    judge = RemoteJudge(model=model, server=ChatServer(url=url, timeout=120), effort=Effort(workers=2), tokenizer=model)
    estimate = judge.estimate([run])
    asked = judge.judge([run])
    assert (asked.requests, asked.calls, asked.failed) == (3, 3, {})
    assert estimate.exact
    assert estimate.prompt_tokens == pytest.approx(asked.prompt_tokens, rel=0.05)

    arguments = ["score", run, "--metric", "judge", "--judge-model", model, "--judge-url", url]
    shown = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert shown.exit_code == 0, shown.output
    assert "3 of them from the cache; 0 calls" in shown.stderr
    judging = read_scores(run).judging
    assert judging is not None
    assert judging.judged + sum(judging.unjudged.values()) == 3


def test_a_real_server_answers_as_the_model_does_here(
    url: str, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGEDIT_CACHE", str(tmp_path / "cache"))
    here = load_model(model, device="cpu", dtype="float32")
    asked = []
    for name in ("wild", "wild_chat", "few_shot"):
        preset = replace(PRESETS[name], max_new_tokens=12)
        context = read_context(preset.context).for_model(here.chat)
        for country in ("France", "Canada"):
            asked.append(
                PresetQuestion(Question(context.prompt(f"What is the capital of {country}?"), "Paris"), preset)
            )
    backend = OpenAIBackend(describe_model(model, served_at=url), url)
    found, expected = backend.ask(asked), TransformersBackend(here).ask(asked)
    assert [one.text for one in found] == [one.text for one in expected]
    assert [one.prompt_tokens for one in found] == [one.prompt_tokens for one in expected]
    assert any(one.text for one in found)
    again = backend.ask(asked)
    assert [(one.text, one.seconds) for one in again] == [(one.text, 0.0) for one in found]


def test_a_real_server_words_questions_and_counts_as_estimated(
    url: str, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timestep = write_timestep(tmp_path / "timestep", towns=range(2))
    monkeypatch.setenv("KGEDIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("KGEDIT_HOME", str(tmp_path / "home"))
    prices = tmp_path / "prices.yaml"
    prices.write_text(f"{model}: {{prompt: 0.15, reply: 0.60}}\n", encoding="utf-8")
    server = ChatServer(url=url, timeout=120)
    verbalizer = RemoteVerbalizer(
        model=model, server=server, effort=Effort(workers=2), prices=prices, tokenizer=model, structured=False
    )
    wanted = wanted_wordings(timestep, axes=("update", "locality"))
    estimate = verbalizer.estimate(wanted)
    asked = verbalizer.word(wanted).asked
    assert asked is not None
    assert (asked.requests, asked.calls, asked.failed, estimate.exact) == (4, 4, {}, True)
    assert estimate.prompt_tokens == pytest.approx(asked.prompt_tokens, rel=0.05)
    estimated, counted = (one.prompt_tokens + one.new_tokens for one in (estimate, asked))
    assert estimated == pytest.approx(counted, rel=0.05)
    assert estimate.dollars == pytest.approx(asked.dollars, rel=0.05)

    arguments = ["verbalize", timestep.folder, "--out", tmp_path / "worded", "--model", model, "--base-url", url]
    given = [*arguments, "--axis", "update", "--axis", "locality", "--no-structured"]
    shown = CliRunner().invoke(main, [str(argument) for argument in given])
    assert shown.exit_code == 0, shown.output
    assert "4 of them from the cache; 0 calls" in shown.stderr
    result = json.loads((tmp_path / "worded" / "timestep.json").read_text(encoding="utf-8"))["verbalizer"]
    assert sum(sum(axis["sources"].values()) for axis in result["axes"].values()) == 4
