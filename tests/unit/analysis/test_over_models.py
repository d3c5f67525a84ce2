"""Tables over models, timesteps, batches and data sets, of runs whose numbers can be checked by hand."""

from __future__ import annotations

import re
from math import sqrt
from pathlib import Path

import numpy as np
import pytest
from world.small_cases import plain_case
from world.small_runs import SYNTHETIC, T1, T2, WILD, answer, cost, write_run

from kgedit.analysis.over_models import approaches, averages_tables, by_timestep_table, means_table
from kgedit.analysis.report import report_tables
from kgedit.analysis.runs import Run, groups_over_models
from kgedit.analysis.tables import Estimate, Table, table_to_csv
from kgedit.analysis.timesteps import batches_table
from kgedit.analysis.wrong_answers import unsolved_by_timestep_table
from kgedit.clustered_statistics import clustered_interval
from kgedit.records.cases import Case, Fact
from kgedit.records.runs import Answer
from kgedit.runs.run_files import read_runs, write_edited_cases
from kgedit.runs.scoring import write_scores


def asked(right: str, **changes: object) -> list[Answer]:
    """Answers to as many cases, right where `right` has a 1; every second case has another relation."""
    return [
        answer(f"Q{number}:P{number % 2}:Q9", text="Justin Trudeau" if ok == "1" else "Ottawa", **changes)
        for number, ok in enumerate(right)
    ]


def over_time(before: tuple[str, str], own: tuple[str, str], again: str, **changes: object) -> list[Answer]:
    """Answers of a run over two timesteps: before any edit, after each timestep's own, and the first ones again."""
    return [
        *asked(before[0], after=None, timestep=T1, **changes),
        *asked(before[1], after=None, timestep=T2, **changes),
        *asked(own[0], after=T1, timestep=T1, **changes),
        *asked(own[1], after=T2, timestep=T2, **changes),
        *asked(again, after=T2, timestep=T1, **changes),
    ]


def read(folder: Path, answers: list[Answer], **spec: object) -> Run:
    ids = dict.fromkeys(one.case_id for one in answers)
    write_scores(write_run(folder, answers, [cost(list(ids))], **spec))
    return read_runs([folder])[0]


def cells(table: Table | None) -> list[dict[str, str]]:
    """Rows in words, without intervals and counts."""
    assert table is not None
    names = [column.name for column in table.columns]
    return [dict(zip(names, (re.sub(r" (\[|n=).*", "", cell) for cell in row), strict=True)) for row in table.texts()]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    """Two methods on one model, and one of them on another; four cases of one timestep and two of the next."""
    folder = tmp_path_factory.mktemp("runs")
    return [
        read(folder / "a", over_time(("1000", "00"), ("1111", "10"), "1100"), method="rag", model="m/a"),
        read(folder / "b", over_time(("0000", "01"), ("0011", "01"), "0011"), method="rag", model="m/b"),
        read(folder / "c", over_time(("1000", "00"), ("1000", "00"), "1000"), method="ft_m", model="m/a"),
    ]


def test_means_over_models_weigh_timesteps_by_questions_and_models_alike(runs: list[Run]) -> None:
    rows = [tuple(row.values()) for row in cells(means_table(runs, "wild"))]
    # Of model a 4 of 4 and 1 of 2 after rag's edits: 5/6, off by 1/6 four times and by 1/3 twice.
    assert rows == [
        ("unedited", "a", "16.7 ±11.8"),
        ("unedited", "b", "16.7 ±23.6"),
        ("unedited", "mean of 2", "16.7 ±5.9"),
        ("rag", "a", "83.3 ±23.6"),
        ("rag", "b", "50.0 ±0.0"),
        ("rag", "mean of 2", "66.7 ±11.8"),
        ("ft_m", "a", "16.7 ±11.8"),
    ]


def test_the_mean_over_models_has_the_interval_of_the_questions_means(runs: list[Run]) -> None:
    table = means_table(runs, "wild")
    assert table is not None
    found = table.rows[5][2]
    assert isinstance(found, Estimate)
    values = np.array([0.5, 0.5, 1.0, 1.0, 0.5, 0.5])  # by question: the mean of models a and b
    assert (found.low, found.high) == clustered_interval(values, np.array([0, 1, 0, 1, 0, 1]))
    assert found.deviation == pytest.approx(sqrt((4 * (0.75 - 2 / 3) ** 2 + 2 * (0.5 - 2 / 3) ** 2) / 6))
    assert table_to_csv(table).splitlines()[0].endswith("update,update low,update high,update n,update deviation")


def test_scores_by_timestep_are_of_its_own_questions_and_of_earlier_ones(runs: list[Run]) -> None:
    rows = {
        tuple(list(row.values())[1:4]): tuple(list(row.values())[4:]) for row in cells(by_timestep_table(runs, "wild"))
    }
    assert rows[("unedited", "a", "current")] == ("25.0", "0.0")
    assert rows[("rag", "a", "current")] == ("100.0", "50.0")
    assert rows[("rag", "a", "earlier")] == ("–", "50.0")
    assert rows[("rag", "a", "change")] == ("–", "-50.0")
    assert rows[("rag", "b", "change")] == ("–", "0.0")
    assert rows[("rag", "mean of 2", "current")] == ("75.0", "50.0")
    assert rows[("rag", "mean of 2", "change")] == ("–", "-25.0")
    assert ("unedited", "a", "earlier") not in rows


def test_what_was_never_asked_again_has_no_earlier_scores(tmp_path: Path) -> None:
    answers = over_time(("00", "00"), ("11", "10"), "")
    rows = cells(by_timestep_table([read(tmp_path / "run", answers)], "wild"))
    assert {row["asked"] for row in rows} == {"current"}


def test_an_unedited_model_is_shown_whichever_of_its_runs_asked_under_the_preset(tmp_path: Path) -> None:
    answers = over_time(("10", "00"), ("11", "10"), "10")
    forced = [answer(f"Q{n}:P{n % 2}:Q9", of=SYNTHETIC, timestep=t) for n in (0, 1) for t in (T1, T2)]
    found = [
        read(tmp_path / "a", forced, method="ft_m", model="m/a", presets=(SYNTHETIC,)),
        read(tmp_path / "b", answers, method="rag", model="m/a"),
        read(tmp_path / "c", answers, method="rag", model="m/b", seed=1),
        read(tmp_path / "d", over_time(("10", "00"), ("00", "00"), "00"), method="rag", model="m/b", seed=2),
    ]
    rows = [tuple(row.values()) for row in cells(means_table(found, "wild"))]
    assert [row[:2] for row in rows[:3]] == [("unedited", "a"), ("unedited", "b"), ("unedited", "mean of 2")]
    assert rows[0][2] == "25.0 ±25.0"
    assert rows[4][1:] == ("b", "37.5 ±12.5"), "the mean over two seeds, question by question"


def test_models_with_other_cases_are_apart_unless_each_has_what_it_failed(tmp_path: Path, runs: list[Run]) -> None:
    other = read(tmp_path / "other", over_time(("00", "00"), ("11", "10"), "10"), method="rag", model="m/c")
    assert [len(part) for part in groups_over_models([*runs, other])] == [3, 1]
    failed = [
        read(tmp_path / name, over_time((zeros, "00"), (own, "10"), own), model=name, only_failed=True)
        for name, zeros, own in (("x", "000", "111"), ("y", "00", "10"))
    ]
    assert [len(part) for part in groups_over_models(failed)] == [2]
    row = cells(means_table(failed, "wild"))[-1]
    assert (row["model"], row["update"]) == ("mean of 2", "65.0"), "4 of 5 and 2 of 4, each model alike"
    assert unsolved_by_timestep_table(failed, "wild") is None, "all of them were failed: that is how they were chosen"


def test_settings_tell_approaches_apart_only_if_a_model_was_run_with_several(tmp_path: Path, runs: list[Run]) -> None:
    assert [approach.name for approach in approaches(runs)] == ["unedited", "rag", "ft_m"]
    answers = over_time(("0", "0"), ("1", "1"), "1")
    ranks = [read(tmp_path / str(n), answers, method="lora", settings={"rank": n}, model="m/a") for n in (4, 64)]
    names = [approach.name for approach in approaches(ranks)]
    assert names == ["unedited", *(f"lora, per_timestep, trained in question_only, rank={n}" for n in (4, 64))]
    layers = [read(tmp_path / m, answers, method="memit", settings={"layers": m}, model=m) for m in ("5", "7")]
    assert [approach.name for approach in approaches(layers)] == ["unedited", "memit"]


def test_unsolved_updates_are_counted_for_each_timestep_and_model(runs: list[Run]) -> None:
    rows = [tuple(row.values()) for row in cells(unsolved_by_timestep_table(runs, "wild"))]
    assert rows == [
        ("20211230 20221230", "4", "75.0", "100.0", "87.5", "75.0"),
        ("20221230 20231230", "2", "100.0", "50.0", "75.0", "50.0"),
        ("all", "6", "83.3", "83.3", "83.3", "66.7"),
    ]


def edited_in_order(numbers: list[int], timestep: str = T1) -> list[Case]:
    return [
        plain_case(Fact(f"Q{number}", "a", f"P{number % 2}", "b", "Q9", "Justin Trudeau"), timestep=timestep)
        for number in numbers
    ]


def test_each_batch_is_followed_by_the_order_of_editing(tmp_path: Path) -> None:
    """Edited in the order 3, 2, 1, 0: two edits, then two more, then one of the next timestep."""
    folder = tmp_path / "run"

    def said(right: str, **state: object) -> list[Answer]:
        return [one for one, ok in zip(asked(right.replace(".", "0"), **state), right, strict=True) if ok != "."]

    answers = [
        *said("..11", edits=2),
        *said("1010"),
        *said(".010", after=T2),
        *said("1", after=T2, timestep=T2),
    ]
    write_run(folder, answers, protocol="sequential", batch_size=2)
    write_edited_cases(folder, [*edited_in_order([3, 2, 1, 0]), *edited_in_order([0], T2)])
    write_scores(folder)
    (run,) = read_runs([folder])
    rows = [tuple(row.values())[2:] for row in cells(batches_table([run], "wild"))]
    assert rows == [
        ("1-2", "2", "100.0", "50.0", "50.0"),
        ("3-4", "1", "–", "0.0", "0.0"),
        ("5-5", "1", "–", "–", "100.0"),
    ], "the last edit of the second batch, right at first, is out of date in the next timestep"
    assert batches_table([run], "synthetic") is None


def both_ways(forced: list[float], right: str, *, unchanged: str = "") -> list[Answer]:
    fed = [answer(f"Q{n}:P{n % 2}:Q9", of=SYNTHETIC, token_match=value) for n, value in enumerate(forced)]
    kept = [
        answer(f"Q{n}:P{n % 2}:Q9", of=preset, axis="locality", text="yes" if ok == "1" or after is None else "no",
               after=after, token_match=1.0)
        for n, ok in enumerate(unchanged)
        for after in (None, T1)
        for preset in (SYNTHETIC, WILD)
    ]  # fmt: skip
    return [*fed, *asked(right), *kept]


def test_averages_are_over_methods_of_a_model_and_over_all_rows(tmp_path: Path) -> None:
    found = [
        read(tmp_path / "a", both_ways([1, 1, 1, 1], "1100", unchanged="1111"), method="ft_m", model="m/a"),
        read(tmp_path / "b", both_ways([1, 1, 0.5, 0.5], "0000", unchanged="1000"), method="rome", model="m/a"),
        read(tmp_path / "c", both_ways([1, 1, 1, 0], "1110", unchanged="1100"), method="ft_m", model="m/b"),
    ]
    (table,) = averages_tables(found)
    rows = [tuple(row.values()) for row in cells(table)]
    assert rows == [
        ("a", "ft_m", "100.0", "50.0", "-50.0", "100.0", "100.0", "+0.0"),
        ("a", "rome", "75.0", "0.0", "-75.0", "25.0", "25.0", "+0.0"),
        ("a", "average of 2", "87.5", "25.0", "-62.5", "62.5", "62.5", "+0.0"),
        ("b", "ft_m", "75.0", "75.0", "+0.0", "50.0", "50.0", "+0.0"),
        ("all models", "average of 3", "83.3", "41.7", "-41.7", "58.3", "58.3", "+0.0"),
    ]
    assert [column.name for column in table.columns][2:5] == [
        *("reliability, synthetic", "reliability, wild", "reliability, difference"),
    ]
    assert averages_tables(found[:1]) == [], "one row has no average"


def test_data_sets_are_averaged_apart(tmp_path: Path) -> None:
    small, large = both_ways([1, 0], "10"), both_ways([1, 1, 1, 1], "1110")
    found = [
        read(tmp_path / f"{data}-{method}", answers, method=method)
        for data, answers in (("small", small), ("large", large))
        for method in ("ft_m", "rome")
    ]
    (table,) = averages_tables(found)
    assert [(row["method"], row["reliability, wild"]) for row in cells(table)] == [
        *[("ft_m", "50.0"), ("rome", "50.0"), ("average of 2", "50.0")],
        *[("ft_m", "75.0"), ("rome", "75.0"), ("average of 2", "75.0")],
    ]
    assert len({row["data"] for row in cells(table)}) == 2


def test_a_report_names_the_cases_where_models_do_not_share_them(tmp_path: Path, runs: list[Run]) -> None:
    titles = [table.title for table in report_tables(runs)]
    assert [title for title in titles if "over models" in title] == ["Means over models, preset wild"]
    other = read(tmp_path / "other", over_time(("00", "00"), ("11", "10"), "10"), method="rag", model="m/c")
    titles = [table.title for table in report_tables([*runs, other])]
    assert sum(title.startswith("By timestep, preset wild, cases ") for title in titles) == 2
