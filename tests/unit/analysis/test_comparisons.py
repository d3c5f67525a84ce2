"""Methods are compared on the same questions, and runs of several seeds count as one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from world.small_runs import SYNTHETIC, answer, write_run

from kgedit.analysis.answers import JudgedQuestions
from kgedit.analysis.comparisons import paired_result, paired_table, seeds_table, variants
from kgedit.analysis.runs import Run
from kgedit.analysis.tables import Cell, Table
from kgedit.clustered_statistics import holm
from kgedit.records.runs import Answer
from kgedit.runs.run_files import read_runs
from kgedit.runs.scoring import write_scores


def asked(right: str) -> list[Answer]:
    return [
        answer(f"Q{number}:P{number % 4}:Q9", text="Justin Trudeau" if ok == "1" else "Ottawa")
        for number, ok in enumerate(right)
    ]


def write(folder: Path, answers: list[Answer], **spec: object) -> Path:
    write_scores(write_run(folder, answers, **spec))
    return folder


def row(table: Table, number: int = 0) -> dict[str, Cell]:
    return dict(zip([column.name for column in table.columns], table.rows[number], strict=True))


@pytest.fixture
def runs(tmp_path: Path) -> list[Run]:
    return read_runs(
        [
            write(tmp_path / "a", asked("11110000"), method="a"),
            write(tmp_path / "b", asked("01111110"), method="b"),
            write(tmp_path / "c", asked("00000000"), method="c"),
        ]
    )


def test_every_pair_is_tested_on_the_same_questions_and_corrected(runs: list[Run]) -> None:
    table = paired_table(runs, "wild")
    assert table is not None
    found = row(table)
    assert (found["first"], found["second"], found["n"]) == ("a #1", "b #2", 8)
    assert (found["only first"], found["only second"]) == (1, 3)
    assert found["second minus first"].mean == 0.25
    # Of the four relations' differences, of two questions each: (0, 1, 1, 0), (-1, -1, -1, -1), (-1, -2, -2, -1).
    raw = [2 / 2**2, 2 / 2**4, 2 / 2**4]
    assert [line[-2] for line in table.rows] == raw
    assert [line[-1] for line in table.rows] == holm(raw)
    assert table.texts()[0][5].startswith("+25.0 [")


def test_a_difference_without_spread_between_relations_still_has_an_interval(tmp_path: Path) -> None:
    # Every relation gains exactly one of two answers.
    first, second = asked("00000000"), asked("11110000")
    both = read_runs([write(tmp_path / "a", first, method="a"), write(tmp_path / "b", second, method="b")])
    table = paired_table(both, "wild")
    assert table is not None
    difference = row(table)["second minus first"]
    assert -0.3 < difference.low < difference.mean == 0.5 < difference.high < 0.9


def test_shares_between_0_and_1_are_tested_like_right_and_wrong_answers(tmp_path: Path) -> None:
    def forced(match: float) -> list[Answer]:
        return [answer(f"Q{n}:P{n}:Q9", of=SYNTHETIC, token_match=match + n / 100) for n in range(5)]

    both = read_runs([write(tmp_path / "a", forced(0.1), method="a"), write(tmp_path / "b", forced(0.5), method="b")])
    table = paired_table(both, "synthetic")
    assert table is not None
    assert row(table)["p"] == 2 / 2**5
    assert "only first" not in row(table)
    assert "permutation" in table.note


def test_runs_that_differ_in_their_seed_are_one_method(tmp_path: Path, runs: list[Run]) -> None:
    more = [write(tmp_path / f"a{seed}", asked(right), method="a", seed=seed) for seed, right in ((8, "11111111"),)]
    found = read_runs([run.folder for run in runs] + more)
    assert [variant.name for variant in variants(found)] == ["a #1,2", "b #3", "c #4"]
    seeds = seeds_table(found, "wild")
    assert seeds is not None
    outcome = row(seeds)
    assert (outcome["runs"], outcome["seeds"]) == ("a #1,2", "7, 8")
    assert (outcome["mean"], outcome["lowest"], outcome["highest"]) == (0.75, 0.5, 1.0)
    assert outcome["spread"] == pytest.approx(np.std([0.5, 1.0], ddof=1))
    paired = paired_table(found, "wild")
    assert paired is not None
    assert row(paired)["second minus first"].mean == 0.0
    assert "only first" not in row(paired), "a mean over seeds is neither right nor wrong"
    assert "may not depend on the seed" not in seeds.note
    assert seeds_table(runs, "wild") is None


def test_a_repeated_seed_counts_once(tmp_path: Path, runs: list[Run]) -> None:
    more = [
        write(tmp_path / name, asked("11111111"), method="a", seed=seed) for name, seed in (("again", 7), ("a8", 8))
    ]
    found = read_runs([run.folder for run in runs] + more)
    assert [variant.name for variant in variants(found)] == ["a #1,3", "b #4", "c #5"]
    seeds, paired = seeds_table(found, "wild"), paired_table(found, "wild")
    assert seeds is not None
    assert paired is not None
    assert (row(seeds)["seeds"], row(seeds)["mean"]) == ("7, 8", 0.75)
    for table in (seeds, paired):
        assert table.note.endswith("A seed counts once in a row; left out: again.")


def test_only_questions_that_both_answered_are_paired() -> None:
    def judged(questions: list[int], values: list[float]) -> JudgedQuestions:
        relations = np.array([f"P{question}" for question in questions], dtype=np.str_)
        return JudgedQuestions(np.array(questions, dtype=np.uint64), np.array(values), relations)

    result = paired_result(judged([1, 2, 5, 9], [0, 1, 1, 0]), judged([2, 3, 5, 9], [1, 0, 0, 1]))
    assert (result.n, result.only_first, result.only_second, result.difference.mean) == (3, 1, 1, 0.0)


def test_a_run_alone_has_nothing_to_be_compared_with(runs: list[Run]) -> None:
    assert paired_table(runs[:1], "wild") is None
    assert paired_table(runs, "synthetic") is None


def test_questions_about_one_relation_are_taken_as_independent(tmp_path: Path) -> None:
    def one_relation(right: str) -> list[Answer]:
        return [answer(f"Q{n}:P6:Q9", of=SYNTHETIC, token_match=float(ok) / 2) for n, ok in enumerate(right)]

    folders = [
        write(tmp_path / name, one_relation(right), method=name) for name, right in (("a", "000000"), ("b", "111110"))
    ]
    table = paired_table(read_runs(folders), "synthetic")
    assert table is not None
    assert row(table)["p"] == 2 / 2**5, "the question without a difference says nothing"
    assert row(table)["relations"] == 1
    assert "Questions of a single relation are taken as independent." in table.note
    difference = row(table)["second minus first"]
    assert -0.2 < difference.low < 2.5 / 6 < difference.high < 0.8


def test_a_table_says_when_relations_are_too_few_for_a_small_p(runs: list[Run]) -> None:
    table = paired_table(runs, "wild")
    assert table is not None
    assert row(table)["relations"] == 4
    assert "With 4 relations p cannot be below 0.12." in table.note
