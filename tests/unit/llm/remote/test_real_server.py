"""A judge behind a real OpenAI-compatible server: transformers serves smollm2-135m on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from world.small_runs import answer, write_run
from world.transformers_server import transformers_serve

from kgedit.cli import main
from kgedit.llm.loading import BUILT_IN
from kgedit.llm.remote.client import Effort
from kgedit.llm.remote.server import ChatServer
from kgedit.runs.judging import RemoteJudge
from kgedit.runs.run_files import read_scores
from kgedit.runs.scoring import write_scores

pytestmark = [pytest.mark.models, pytest.mark.slow]


@pytest.fixture
def model() -> str:
    return BUILT_IN["smollm2-135m"](None, None).path_or_name


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with transformers_serve(tmp_path / "serve.log") as address:
        yield f"{address}/v1"


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
