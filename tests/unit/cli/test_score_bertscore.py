"""`kgedit score --metric bertscore`: stored answers compared by an encoder."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from world.small_encoders import save_small_bert
from world.small_runs import SYNTHETIC, T1, answer, write_run

from kgedit.cli import main
from kgedit.llm.bert_score import Encoder, bert_scores
from kgedit.runs.run_files import read_scores
from kgedit.runs.scoring import write_scores

TEXTS = {"Q1:P6:Q2": "asta wik", "Q3:P6:Q2": "axel hed", "Q4:P54:Q2": ""}
ACCEPTED = ("asta wik", "the mayor of mora is asta")


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_small_bert(tmp_path_factory.mktemp("models") / "bert")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    answers = [
        answer(case, text=text, answers=ACCEPTED, after=after) for case, text in TEXTS.items() for after in (None, T1)
    ]
    folder = write_run(tmp_path / "ft", [*answers, answer(of=SYNTHETIC)])
    write_scores(folder)
    return folder


def score(run: Path, *arguments: object) -> Result:
    given = ["score", run, "--metric", "bertscore", *arguments]
    return CliRunner().invoke(main, [str(argument) for argument in given], env={"COLUMNS": "120"})


def test_bertscores_are_measured_shown_and_kept(run: Path, bert: Path) -> None:
    shown = score(run, "--metric", "bertscore_recall", "--bertscore-model", bert, "--bertscore-layer", 1)
    assert shown.exit_code == 0, shown.output
    assert "layer 1, no idf, not rescaled" in shown.stdout
    expected = bert_scores(Encoder(bert, layer=1), [(text, ACCEPTED) for text in TEXTS.values()])
    scores = read_scores(run)
    result = {one.metric: one for one in scores.scores if (one.stage, one.timestep) == ("own", T1)}
    assert result["bertscore"].mean == pytest.approx(sum(one.f1 for one in expected) / 3, abs=2e-6)
    assert result["bertscore_recall"].mean == pytest.approx(sum(one.recall for one in expected) / 3, abs=2e-6)
    assert result["bertscore"].low is not None
    assert scores.encoding is not None
    assert (scores.encoding.encoder, scores.encoding.layer, scores.encoding.measured) == ("bert", 1, 3)

    written = (run / "scores.json").read_bytes()
    assert CliRunner().invoke(main, ["report", "--rescore", str(run)]).exit_code == 0
    assert (run / "scores.json").read_bytes() == written
    assert score(run).exit_code == 0, "what was measured is there without the encoder"


def test_idf_and_baseline_change_the_scores_and_are_told(run: Path, bert: Path, tmp_path: Path) -> None:
    def mean(*arguments: object) -> float:
        assert score(run, "--bertscore-model", bert, *arguments).exit_code == 0
        return next(one.mean for one in read_scores(run).scores if one.metric == "bertscore" and one.stage == "own")

    baseline = tmp_path / "baseline.csv"
    baseline.write_text("LAYER,P,R,F\n2,0.5,0.5,0.5\n", encoding="utf-8")
    plain, weighted = mean(), mean("--bertscore-idf")
    assert plain != weighted
    assert mean("--bertscore-baseline", baseline) == pytest.approx((plain - 0.5) / 0.5, abs=1e-5)
    assert "rescaled" in score(run).stdout


def test_answers_that_came_later_are_counted_and_not_scored(run: Path, bert: Path) -> None:
    assert score(run, "--bertscore-model", bert).exit_code == 0
    write_run(
        run, [answer("Q1:P6:Q2", text="asta wik", answers=ACCEPTED), answer("Q9:P6:Q2", text="yes", answers=ACCEPTED)]
    )
    write_scores(run)
    scores = read_scores(run)
    assert scores.encoding is not None
    assert scores.encoding.later == 1
    assert [one.n for one in scores.scores if one.metric == "bertscore" and one.timestep == T1] == [1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--metric", "bertscore"], "No encoder has measured"),
        (["--metric", "fluency", "--bertscore-idf"], "are for --metric bertscore"),
        (["--metric", "bertscore", "--bertscore-layer", "3"], "give --bertscore-model FOLDER too"),
    ],
)
def test_what_cannot_be_measured_is_told(run: Path, arguments: list[str], message: str) -> None:
    found = CliRunner().invoke(main, ["score", str(run), *arguments])
    assert found.exit_code == 1
    assert message in found.stderr
