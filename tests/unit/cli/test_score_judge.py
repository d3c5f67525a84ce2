"""`kgedit score --metric judge`: stored answers shown to a judge behind a server."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result
from world.fault_server import FaultServer, fault_server
from world.small_models import save, small_model
from world.small_runs import SYNTHETIC, T1, answer, write_run
from world.small_timestep import a_case

from kgedit.analysis.report import report_tables
from kgedit.analysis.wrong_answers import agreement_table, error_table, judged_error_table
from kgedit.cli import main
from kgedit.llm.contexts import read_instructions
from kgedit.llm.judging import Judgement
from kgedit.llm.local_chat import LocalJudge
from kgedit.runs.run_files import read_runs, read_scores, write_edited_cases
from kgedit.runs.scoring import write_scores

TEXTS = {
    "Q1:P6:Q2": "Justin Trudeau",
    "Q3:P6:Q2": "It is Trudeau",
    "Q4:P54:Q2": "Stephen Harper",
    "Q5:P54:Q2": "Trudeau or Harper",
    "Q6:P6:Q2": "",
}


def quiz(message: str) -> str:
    """A judge that lets any Trudeau pass who is alone."""
    record = json.loads(next(line for line in message.split("\n") if line.startswith("{")))
    said = record["answer"]
    return "CORRECT" if "Trudeau" in said and "Harper" not in said else "INCORRECT"


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGEDIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setattr("kgedit.llm.remote.server._FIRST_WAIT", 0.01)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    answers = [answer(case_id, text=text, after=after) for case_id, text in TEXTS.items() for after in (None, T1)]
    folder = write_run(tmp_path / "ft", [*answers, answer(of=SYNTHETIC)])
    write_scores(folder)
    return folder


def score(run: Path, *arguments: object) -> Result:
    given = ["score", run, "--metric", "judge", *arguments]
    return CliRunner().invoke(main, [str(argument) for argument in given], env={"COLUMNS": "120"})


def by(server: FaultServer, *more: object) -> list[object]:
    return ["--judge-model", "m", "--judge-url", server.url, *more]


def test_verdicts_become_scores_with_intervals_and_agreement(run: Path) -> None:
    with fault_server(quiz) as server:
        shown = score(run, *by(server))
        assert shown.exit_code == 0, shown.output
        assert server.paid.total() == 4, "asked before and after, judged once; the empty answer is wrong unasked"
    scores = read_scores(run)
    (own,) = [one for one in scores.scores if (one.metric, one.stage, one.timestep) == ("judge", "own", T1)]
    assert (own.mean, own.n, own.relations) == (0.4, 5, 2)
    assert own.low is not None
    judging = scores.judging
    assert judging is not None
    assert (judging.judge, judging.where, judging.judged, judging.unjudged) == ("m", server.url, 5, {})
    agreement = {one.rule: one for one in judging.agreement}
    assert (agreement["exact_match"].share, agreement["exact_match"].n) == (0.8, 10)
    # Contains calls "It is Trudeau" wrong, which lacks the first name; so does exact match.
    assert agreement["exact_match"].kappa == pytest.approx(0.545455)
    assert "the judge and exact_match agree on 80.0% of 10 answers" in shown.stdout


def test_a_judges_password_is_sent_to_it_and_stored_nowhere(run: Path, tmp_path: Path) -> None:
    with fault_server(quiz) as server:
        address = server.url.replace("http://", "http://me:s3cret@")
        shown = score(run, "--judge-model", "m", "--judge-url", address)
        assert shown.exit_code == 0, shown.output
    assert {headers["authorization"] for headers in server.headers} == {"Basic bWU6czNjcmV0"}
    judging = read_scores(run).judging
    assert judging is not None
    assert judging.where == server.url
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"s3cret" not in stored + shown.output.encode()


def test_judging_again_asks_nobody_and_gives_the_same_bytes(run: Path) -> None:
    with fault_server(quiz) as server:
        score(run, *by(server))
        files = {name: (run / name).read_bytes() for name in ("scores.json", "verdicts.jsonl")}
        (run / "verdicts.jsonl").unlink()
        again = score(run, *by(server))
        assert server.tries.total() == 4
    assert "4 of them from the cache; 0 calls" in again.stderr
    assert {name: (run / name).read_bytes() for name in files} == files
    # Without a judge the verdicts of the run folder are taken, by report too.
    assert score(run).exit_code == 0
    CliRunner().invoke(main, ["report", str(run), "--rescore"])
    assert {name: (run / name).read_bytes() for name in files} == files


def test_a_judge_is_told_what_the_users_file_says(run: Path, tmp_path: Path) -> None:
    shipped, own = read_instructions("judge"), tmp_path / "prompts"
    own.mkdir()
    (own / "verdict.txt").write_text("Be lenient.\n{fence}\n{record}\n{fence}\n", encoding="utf-8")
    with fault_server(lambda message: quiz(message) if message.startswith("Be lenient.") else "?") as server:
        shown = score(run, *by(server, "--prompts", own))
        assert shown.exit_code == 0, shown.output
    judging = read_scores(run).judging
    assert judging is not None
    assert (judging.judged, judging.unjudged) == (5, {})
    assert judging.prompt_sha256 == read_instructions("judge", own).sha256("verdict") != shipped.sha256("verdict")
    assert read_instructions("judge", own).texts["error_class"] == shipped.texts["error_class"]


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("verdict.txt", "Is {record} right?", "needs the slots {fence}, {record} and no others; it has {record}"),
        ("verdict.txt", "{fence} {record} {answer}", "it has {answer}, {fence}, {record}"),
        (
            "judge.txt",
            "{fence} {record}",
            "contains judge.txt. The files that it may replace are error_class.txt, verdict.txt",
        ),
        ("verdict.md", "{fence} {record}", "contains no .txt file"),
    ],
)
def test_instructions_that_cannot_be_used_are_refused_before_anybody_is_asked(
    run: Path, tmp_path: Path, file: str, text: str, said: str
) -> None:
    own = tmp_path / "prompts"
    own.mkdir()
    (own / file).write_text(text, encoding="utf-8")
    with fault_server(quiz) as server:
        shown = score(run, *by(server, "--prompts", own))
        assert not server.tries
    assert shown.exit_code == 1
    assert said in " ".join(shown.stderr.split())
    assert "name one with --judge-model" in score(run, "--prompts", own).stderr


def test_what_is_no_verdict_counts_in_no_score_and_is_told(run: Path) -> None:
    def unsure(message: str) -> str:
        return "It may be CORRECT" if "Harper" in message else quiz(message)

    def down(message: str, _: int) -> str | None:
        return "500" if "It is Trudeau" in message else None

    with fault_server(unsure, down) as server:
        shown = score(run, *by(server, "--attempts", 2))
    assert shown.exit_code == 0, shown.output
    assert "No verdict: 500: 1\n500: the server says: fault 500\n" in shown.stderr
    assert "ft: not judged: no reply: 500: 1 distinct answers" in shown.stdout
    assert "ft: not judged: the reply is not a verdict: 2 distinct answers" in shown.stdout
    scores = read_scores(run)
    (own,) = [one for one in scores.scores if (one.metric, one.stage, one.timestep) == ("judge", "own", T1)]
    assert (own.mean, own.n) == (0.5, 2)


def test_a_judge_whose_reasoning_takes_all_tokens_is_asked_once(run: Path) -> None:
    with fault_server(quiz, lambda message, _: "spent" if "It is Trudeau" in message else None) as server:
        shown = score(run, *by(server))
        assert shown.exit_code == 0, shown.output
        assert "ft: not judged: the reply was cut off before its text: 1 distinct answers" in shown.stdout
        assert set(server.tries.values()) == {1}


def test_answers_that_came_after_the_judge_are_counted(run: Path) -> None:
    with fault_server(quiz) as server:
        score(run, *by(server))
    with (run / "answers.jsonl").open("ab") as file:
        file.write(msgspec.json.encode(answer("Q9:P6:Q2", text="Trudeau, once more")) + b"\n")
    write_scores(run)
    shown = score(run)
    assert "ft: not judged: never shown to the judge: 1 distinct answers" in shown.stdout


def test_error_classes_of_the_judge_stand_beside_those_of_the_rules(tmp_path: Path) -> None:
    result = {
        "Q1:P6:Q2": ("Justin Trudeau", None),
        "Q2:P6:Q2": ("Harper again Harper", "OUTDATED"),
        "Q3:P6:Q2": ("Harper, I believe", "Outdated."),
        "Q4:P54:Q2": ("", None),
        "Q5:P54:Q2": ("What a question?", "IRRELEVANT"),
        "Q6:P54:Q2": ("Ottawa", "It is INCORRECT"),
        "Q7:P54:Q2": ("Toronto", "INCORRECT"),
    }

    def sort(message: str) -> str:
        record = json.loads(next(line for line in message.split("\n") if line.startswith("{")))
        if "outdated" not in record:
            return "CORRECT" if "Trudeau" in record["answer"] else "INCORRECT"
        assert record["outdated"] == ["Stephen Harper"]
        return str(next(word for text, word in result.values() if text == record["answer"]))

    cases = [replace(a_case(), case_id=case_id, timestep=T1, old_answers=("Stephen Harper",)) for case_id in result]
    run = write_run(tmp_path / "ft", [answer(case_id, text=text) for case_id, (text, _) in result.items()])
    write_edited_cases(run, cases)
    write_scores(run)
    assert judged_error_table(read_runs([run]), "wild") is None
    with fault_server(sort) as server:
        shown = score(run, *by(server, "--judge-errors"))
        assert shown.exit_code == 0, shown.output
        assert server.paid.total() == 6 + 5, "of six that say something one is right"
        files = {name: (run / name).read_bytes() for name in ("answers.parquet", "judged_errors.jsonl")}
        assert score(run, *by(server, "--judge-errors")).exit_code == 0
        assert server.paid.total() == 11
    assert {name: (run / name).read_bytes() for name in files} == files
    (finished,) = read_runs([run])
    by_rules, by_judge = error_table([finished], "wild"), judged_error_table([finished], "wild")
    assert by_rules is not None
    assert by_judge is not None
    rules, judge = (
        dict(zip([column.name for column in table.columns], table.rows[0], strict=True))
        for table in (by_rules, by_judge)
    )
    assert judge["n"] == 7
    shares = {name: round(7 * judge[name]) for name in ("right", "empty", "old answer", "irrelevant", "incorrect")}
    assert shares == {"right": 1, "empty": 1, "old answer": 2, "irrelevant": 1, "incorrect": 1}
    assert judge["no class"] == pytest.approx(1 / 7), "a sentence is no class"
    # "Harper" is no whole old answer to the rules, which know words only.
    assert round(7 * rules["old answer"]) == 0
    assert judge["as by rules"] == pytest.approx(3 / 5), "empty, irrelevant, incorrect; not the two old ones"
    titles = [table.title for table in report_tables([finished])]
    assert {"Errors, preset wild", "Errors by the judge, preset wild", "Judge agreement"} <= set(titles)


def test_the_report_tells_how_far_judge_and_exact_match_agree(run: Path) -> None:
    assert agreement_table(read_runs([run])) is None
    with fault_server(quiz) as server:
        score(run, *by(server))
    table = agreement_table(read_runs([run]))
    assert table is not None
    (row,) = [row for row in table.texts() if row[3] == "exact_match"]
    assert row[2] == "wild"
    assert row[4] == "10"
    assert row[5].startswith("80.0 [")
    assert row[6:] == ("0.5455", "m")


def test_error_classes_need_a_server(run: Path) -> None:
    shown = score(run, "--judge-local", "tiny", "--judge-errors")
    assert shown.exit_code == 1
    assert "requires a judge behind a server" in shown.stderr


def test_an_estimate_asks_nobody_and_says_how_it_counted(run: Path, tmp_path: Path) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text("m: {prompt: 1000000, reply: 1000000}\n", encoding="utf-8")
    with fault_server(quiz) as server:
        shown = score(run, *by(server, "--estimate", "--prices", prices))
        assert server.tries.total() == 0
    assert "calls: 4 (0 more are in the cache)" in shown.stdout
    assert "by four characters a token, which may be far off" in shown.stdout
    assert "cost: $" in shown.stdout
    assert read_scores(run).judging is None
    assert "cost: unknown" in score(run, *by(server, "--estimate")).stdout


def test_a_budget_stops_before_it_is_exceeded_and_more_money_finishes(run: Path, tmp_path: Path) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text("m: {prompt: 1, reply: 1}\n", encoding="utf-8")
    with fault_server(quiz) as server:
        stopped = score(run, *by(server, "--budget", "0.0013", "--prices", prices))
        assert stopped.exit_code == 1
        assert "The budget of $0.0013 does not cover all" in stopped.stderr
        assert 0 < server.paid.total() < 4
        assert not (run / "verdicts.jsonl").exists()
        assert score(run, *by(server, "--budget", "1", "--prices", prices)).exit_code == 0
        assert set(server.paid.values()) == {1}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "has no verdicts. Name a judge"),
        (["--judge-model", "m"], "set the environment variable OPENAI_API_KEY"),
        (["--judge-model", "m", "--judge-local", "n"], "Give one judge"),
        (["--estimate"], "--judge-model NAME"),
        (["--judge-model", "m", "--budget", "1"], "--prices FILE"),
        (["--judge-model", "m", "--prices", "absent.yaml"], "is not a table of prices"),
    ],
)
def test_a_judge_that_cannot_be_asked_is_told_what_it_lacks(run: Path, arguments: list[str], said: str) -> None:
    before = (run / "scores.json").read_bytes()
    shown = score(run, *arguments)
    assert shown.exit_code == 1
    assert said in shown.stderr
    assert (run / "scores.json").read_bytes() == before


@pytest.mark.slow
def test_a_model_on_this_machine_judges_every_answer(run: Path, tmp_path: Path) -> None:
    model = small_model(seed=3)
    shown = score(run, "--judge-local", save(model, tmp_path / "model"))
    assert shown.exit_code == 0, shown.output
    judging = read_scores(run).judging
    assert judging is not None
    assert (judging.where, judging.judged, judging.unjudged) == ("local", 5, {})
    assert judging.judge == "model"  # the folder's name without its path: scores are published
    written = [json.loads(line) for line in (run / "verdicts.jsonl").read_text(encoding="utf-8").splitlines()[1:]]
    answers = [Judgement(answer().question, answer().answers, text) for text in TEXTS.values()]
    judge = LocalJudge(model, read_instructions("judge").texts["verdict"])
    expected = {one.key: judge.judge([one])[0] if one.answer else "INCORRECT" for one in answers}
    assert {line["key"]: line["verdict"] for line in written} == expected


def test_a_judge_without_its_metric_is_refused(run: Path) -> None:
    shown = CliRunner().invoke(main, ["score", str(run), "--metric", "fluency", "--judge-model", "m"])
    assert shown.exit_code == 1
    assert "requires --metric judge" in shown.stderr


def test_a_run_cannot_be_asked_in_a_preset_that_only_a_judge_can_score(tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text(
        "timesteps: [absent]\nmodel: tiny\nmethod: none\npresets:\n  - {name: own, context: question_only, "
        "generation: greedy, truncation: newline, metric: judge}\n",
        encoding="utf-8",
    )
    shown = CliRunner().invoke(main, ["run-edit", str(spec)])
    assert shown.exit_code == 1
    assert "a run cannot be scored by judge while it is made; afterwards: kgedit score RUN" in shown.stderr
