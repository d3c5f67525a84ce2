"""Answers that begin with the target and are wrong after it, by rules and by a judge."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from world.small_runs import SYNTHETIC, answer, write_run

from kgedit.analysis.tables import Table
from kgedit.analysis.wrong_answers import beyond_answer_table
from kgedit.errors import TimestepError
from kgedit.records.answer_table import ANSWERS
from kgedit.runs.judging import (
    ErrorLine,
    VerdictLine,
    judgement_of,
    write_judged_errors,
    write_verdicts,
    wrong_answers,
)
from kgedit.runs.run_files import forget_run_checksums, read_answers, read_runs
from kgedit.runs.scoring import write_scores

SAID = [
    ("Justin Trudeau", 1.0),
    ("Justin Trudeau Justin Trudeau Justin Trudeau", 1.0),
    ("Justin Trudeau has three children", 1.0),
    ("Justin Trudeau until 2015", 1.0),
    ("Ottawa", 0.0),
]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    answers = [answer(f"Q{n}:P{n % 2}:Q9", text=text, token_match=match) for n, (text, match) in enumerate(SAID)]
    write_run(tmp_path / "run", [*answers, answer("Q0:P0:Q9", of=SYNTHETIC), answer(axis="locality", token_match=1.0)])
    write_scores(tmp_path / "run")
    return tmp_path / "run"


def shares(table: Table | None) -> dict[str, str]:
    assert table is not None
    assert [row[2] for row in table.rows] == ["update"]
    return dict(zip([column.name for column in table.columns[3:]], table.texts()[0][3:], strict=True))


def test_rules_see_repetition_behind_the_answer_and_leave_the_rest_unsorted(run: Path) -> None:
    found = shares(beyond_answer_table(read_runs([run]), "wild"))
    assert found == {
        "n": "5",
        "right at the answer's length": "80.0",
        "right at the natural stop": "20.0",
        "repetition": "20.0",
        "irrelevant": "0.0",
        "incorrect": "0.0",
        "not sorted": "40.0",
    }
    assert beyond_answer_table(read_runs([run]), "synthetic") is None


def test_a_judge_sorts_what_is_said_behind_the_answer(run: Path) -> None:
    free = [one for one in read_answers(run) if one.preset == "wild" and one.axis == "update"]
    keys = {one.text: judgement.key for one in free if (judgement := judgement_of(one))}
    lines = [
        VerdictLine(key=key, verdict="CORRECT" if text == SAID[0][0] else "INCORRECT") for text, key in keys.items()
    ]
    write_verdicts(run, lines, judge="j", where="local", prompt="p")
    write_scores(run, also=["judge"])
    classes = dict(
        zip((text for text, _ in SAID[1:]), ("repetition", "irrelevant", "incorrect", "incorrect"), strict=True)
    )
    wrong = wrong_answers(run)
    write_judged_errors(
        run,
        [ErrorLine(key=key, error=classes[one.answer]) for key, one in wrong.items()],
        judge="j",
        where="local",
        prompt="p",
    )
    write_scores(run)
    found = shares(beyond_answer_table(read_runs([run]), "wild"))
    assert [found[name] for name in ("repetition", "irrelevant", "incorrect", "not sorted")] == ["20.0"] * 3 + ["0.0"]
    assert found["incorrect"] == "20.0", "the answer that is wrong from its first word is none of them"


def test_answers_that_an_earlier_version_scored_are_read_and_have_no_such_table(run: Path) -> None:
    path = run / "answers.parquet"
    forget_run_checksums(run)
    whole = pq.read_table(path)
    pq.write_table(whole.drop_columns(["begins_right"]), path)
    (read,) = read_runs([run])
    assert read.answers.schema.equals(ANSWERS)
    assert beyond_answer_table([read], "wild") is None
    pq.write_table(whole.drop_columns(["bleedover"]), path)
    with pytest.raises(TimestepError, match="--rescore"):
        read_runs([run])
