"""kgedit report: what it prints and writes for runs whose numbers can be checked by hand."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from world.small_runs import SYNTHETIC, T1, T2, WILD, answer, cost, write_lines, write_run

from kgedit.analysis.overviews import axis_table, overview_table, presets_table, runs_table, schedule_table
from kgedit.analysis.report import report_tables
from kgedit.analysis.results_files import score_table
from kgedit.analysis.tables import Estimate, Table, table_to_csv, to_csv, to_json, to_markdown
from kgedit.analysis.timesteps import lifelong_table, retention_table
from kgedit.analysis.two_hops import retrieval_table
from kgedit.cli import main
from kgedit.records.cases import Case, Fact
from kgedit.records.runs import Answer
from kgedit.runs.run_files import forget_run_checksums, read_runs, write_edited_cases
from kgedit.runs.scoring import write_scores

RELATIONS = ("P6", "P54", "P108", "P39")


def asked(right: str, **changes: object) -> list[Answer]:
    """One answer a case and axis: right where `right` has a 1."""
    return [
        answer(
            f"Q{number}:{RELATIONS[number % 4]}:Q9",
            text="Justin Trudeau" if ok == "1" else "Ottawa",
            axis=axis,
            **changes,
        )
        for axis in ("update", "rephrase", "locality")
        for number, ok in enumerate(right)
    ]


def run(
    folder: Path, before: str, after: str, *, model: str = "smollm2-135m", method: str = "ft_m", **spec: object
) -> Path:
    forced = [
        answer("Q1:P6:Q9", of=SYNTHETIC, token_match=0.5),
        answer("Q1:P6:Q9", of=SYNTHETIC, token_match=0.0, after=None),
    ]
    costs = [cost([f"Q{number}:P6:Q9" for number in range(len(after))], seconds=6.0)]
    write_run(folder, [*asked(before, after=None), *asked(after), *forced], costs, model=model, method=method, **spec)
    write_scores(folder)
    return folder


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("scored")
    return [
        run(folder / "a", "00000001", "11101011", method="rag"),
        run(folder / "b", "00000001", "01101011"),
        run(folder / "c", "0001", "1101", model="org/Llama-3-8B"),
    ]


@pytest.fixture
def runs(tmp_path: Path, scored: list[Path]) -> list[Path]:
    """Copies of three runs, for each test its own."""
    return [Path(shutil.copytree(folder, tmp_path / folder.name)) for folder in scored]


def column(table: Table, name: str) -> list[str]:
    """The column's cells in words, without intervals."""
    index = [column.name for column in table.columns].index(name)
    return [re.sub(r" \[.*?\]", "", row[index]) for row in table.texts()]


def command(*arguments: object, width: int = 120) -> Result:
    return CliRunner().invoke(main, ["report", *map(str, arguments)], env={"COLUMNS": str(width)})


def test_the_overview_has_a_row_for_each_run_and_a_column_for_each_axis_asked(runs: list[Path]) -> None:
    table = overview_table(read_runs(runs), "wild")
    assert column(table, "method") == ["ft_m", "ft_m", "rag"]
    assert column(table, "model") == ["Llama-3-8B", "smollm2-135m", "smollm2-135m"]
    assert column(table, "update") == ["25.0→75.0 n=4", "12.5→62.5 n=8", "12.5→75.0 n=8"]
    assert [entry.name for entry in table.columns[4:]] == ["update", "rephrase", "locality"]
    assert "protocol" not in [entry.name for entry in table.columns], "it tells none of these runs apart"


def test_an_axis_that_only_some_runs_asked_has_dashes_for_the_others(tmp_path: Path, runs: list[Path]) -> None:
    more = [answer("Q1:P6:Q9", axis="mhop")]
    write_run(tmp_path / "more", more, method="zzz")
    write_scores(tmp_path / "more")
    table = overview_table(read_runs([*runs, tmp_path / "more"]), "wild")
    assert [entry.name for entry in table.columns[4:]] == ["update", "rephrase", "mhop", "locality"]
    assert sorted(column(table, "mhop")) == ["–", "–", "–", "–→100.0"]
    assert next(entry.title for entry in table.columns if entry.name == "mhop") == "mhop n=1"


def test_presets_stand_side_by_side_with_contains_locality_and_costs(runs: list[Path]) -> None:
    table = presets_table(read_runs(runs))
    assert column(table, "synthetic") == ["50.0", "50.0", "50.0"]
    assert column(table, "wild") == ["75.0 n=4", "62.5 n=8", "75.0 n=8"]
    assert column(table, "contains, wild") == ["75.0", "62.5", "75.0"]
    assert column(table, "empty, wild") == ["0.0→0.0"] * 3
    assert "empty, synthetic" not in [entry.name for entry in table.columns]
    assert column(table, "unchanged, synthetic") == ["–", "–", "–"]
    assert column(table, "CPU s per edit") == ["0.375", "0.188", "0.188"]
    assert column(table, "peak GiB") == ["0.9", "0.9", "0.9"]


def test_empty_answers_are_shown_before_and_after(tmp_path: Path) -> None:
    before = [answer(f"Q{number}:P6:Q9", text="", after=None) for number in (1, 2)]
    after = [answer(f"Q{number}:P6:Q9", text=text) for number, text in ((1, ""), (2, "Ottawa"))]
    write_run(tmp_path / "run", [*before, *after])
    write_scores(tmp_path / "run")

    table = presets_table(read_runs([tmp_path / "run"]))
    assert column(table, "empty, wild") == ["100.0→50.0"]
    assert "empty: empty update answers" in table.note


def test_table_leaves_those_with_a_text_in_their_title(runs: list[Path]) -> None:
    shown = command(*runs[:2], "--table", "unsolved", "--table", "LOCALITY, preset")
    assert [line for line in shown.stdout.splitlines() if "preset wild" in line or line == "Unsolved"] == [
        *("locality, preset wild", "Unsolved"),
    ]
    nothing = command(*runs[:2], "--table", "means over models")
    assert nothing.exit_code == 1
    assert "No table of this report has 'means over models' in its title. There are: Presets side" in nothing.stderr


def test_without_options_one_table_and_at_most_three_sentences_are_printed(runs: list[Path]) -> None:
    shown = command(*runs[:2])
    table, _, sentences = shown.stdout.partition("\nrag answers 75 % of the updates")
    assert table.startswith("Presets side by side\n")
    assert "Overview" not in shown.stdout
    assert re.findall("^No significant difference in [a-z]+", sentences, re.MULTILINE) == [
        "No significant difference in updates",
        "No significant difference in damage",
    ]
    every = command(*runs[:2], "--all").stdout
    titles = [table.title for table in report_tables(read_runs(runs[:2]))]
    assert all(title in every.splitlines() for title in titles)
    named = f"kgedit view {runs[1]} {runs[0]}"
    assert f"{len(titles) - 1} more tables: --all. Every answer on a page: {named}" in shown.stderr


def test_runs_that_do_not_compare_have_a_table_and_a_sentence_for_each_group(runs: list[Path]) -> None:
    shown = command(*runs).stdout.splitlines()
    titles = [line for line in shown if re.match(r"Groups|Group \d: \w+.*[^.]$", line)]
    assert titles[:2] == ["Groups", "Group 1: Presets side by side"]
    assert "Group 2: Presets side by side" in titles
    assert sum(line.startswith(("Group 1: ft_m answers", "Group 2: rag answers")) for line in shown) == 2


def test_files_contain_all_tables_whatever_is_printed(runs: list[Path], tmp_path: Path) -> None:
    def written(*options: str) -> dict[str, bytes]:
        given = (*runs[:2], "--out", tmp_path / "out", "--json", tmp_path / "own.json", "--overwrite", *options)
        assert command(*given).exit_code == 0
        return {str(path): path.read_bytes() for path in sorted(tmp_path.glob("o*/**/*")) if path.is_file()}

    whole = written()
    assert len(whole) > 5
    assert written("--brief") == written("--table", "unsolved") == whole


def test_no_output_replaces_another_one(runs: list[Path], tmp_path: Path) -> None:
    for pair in (("--html", "--markdown"), ("--csv", "--json")):
        same = (pair[0], tmp_path / "same.x", pair[1], tmp_path / "here" / ".." / "same.x")
        said = command(*runs[:2], *same).stderr
        assert f"Two outputs have the same path: {tmp_path / 'same.x'}" in said
    own = command(runs[0], "--out", tmp_path / "out", "--csv", tmp_path / "out" / "report.json")
    assert "Two outputs" in own.stderr

    twin = Path(shutil.copytree(runs[1], tmp_path / "other" / runs[0].name))
    shown = command(runs[0], twin, "--easyedit", tmp_path / "easyedit")
    assert "Two runs are called a. Rename a folder" in shown.stderr
    assert not list(tmp_path.glob("same.x")) + list(tmp_path.glob("out")) + list(tmp_path.glob("easyedit"))


def test_brief_leaves_the_overviews(runs: list[Path]) -> None:
    whole, brief = command(*runs[:2], "--all"), command(*runs[:2], "--brief")
    assert brief.exit_code == 0
    assert whole.stdout.startswith(brief.stdout)
    assert "[95 %]" not in brief.stdout


def test_an_axis_table_holds_scores_intervals_side_metrics_and_costs(runs: list[Path]) -> None:
    table = axis_table(read_runs(runs), "update", preset="wild")
    assert table is not None
    assert column(table, "edits") == ["4", "8", "8"]
    assert column(table, "before") == ["25.0", "12.5", "12.5"]
    assert column(table, "after") == ["75.0", "62.5", "75.0"]
    assert column(table, "n") == ["4", "8", "8"]
    assert column(table, "contains") == ["75.0", "62.5", "75.0"]
    assert column(table, "seconds per edit") == ["1.5", "0.75", "0.75"]
    assert column(table, "questions per second") == ["2.0", "2.0", "2.0"]
    after = table.rows[1][[entry.name for entry in table.columns].index("after")]
    assert isinstance(after, Estimate)
    assert 0 <= after.low < 0.625 < after.high <= 1
    assert "exact_match" in table.note


def test_one_relation_gives_no_interval_and_locality_says_what_stayed(runs: list[Path]) -> None:
    found = read_runs(runs)
    synthetic = axis_table(found, "update", preset="synthetic")
    locality = axis_table(found, "locality", preset="wild")
    assert synthetic is not None
    assert locality is not None
    assert column(synthetic, "relations") == ["1", "1", "1"]
    assert [row[[c.name for c in synthetic.columns].index("after")] for row in synthetic.texts()] == ["50.0"] * 3
    assert column(locality, "unchanged") == ["50.0", "50.0", "37.5"]
    assert axis_table(found, "mhop", preset="wild") is None


def test_a_run_without_answers_before_editing_shows_a_dash(tmp_path: Path) -> None:
    write_run(tmp_path / "run", asked("11"))
    write_scores(tmp_path / "run")
    table = axis_table(read_runs([tmp_path / "run"]), "update", preset="wild")
    assert table is not None
    assert (column(table, "before"), column(table, "after")) == (["–"], ["100.0"])
    assert column(table, "seconds per edit") == ["–"]


def test_retention_and_retrieval_have_tables_where_there_is_something(tmp_path: Path, runs: list[Path]) -> None:
    answers = [
        *asked("1111", after=T1, timestep=T1, retrieved=("Q0:P6:Q9",)),
        *asked("1100", after=T2, timestep=T1),
        *asked("0111", after=T2, timestep=T2),
    ]
    write_run(tmp_path / "long", answers)
    write_scores(tmp_path / "long")
    found = read_runs([tmp_path / "long"])
    retention, retrieval = retention_table(found, "wild"), retrieval_table(found, "wild")
    assert retention is not None
    assert retrieval is not None
    assert column(retention, "on 20211230 20221230")[:2] == ["100.0", "50.0"]
    assert column(retention, "on 20221230 20231230")[:2] == ["–", "75.0"]
    lifelong = lifelong_table(found, "wild")
    assert lifelong is not None
    assert column(lifelong, "axis")[0] == "update"
    assert column(lifelong, "weighted mean")[0] == "87.5"
    assert column(lifelong, "spread")[0] == "12.5"
    assert column(lifelong, "forgetting")[0] == "+50.0"
    assert column(lifelong, "backward transfer")[0] == "-50.0"
    assert column(retrieval, "first hop")[0] == "25.0"
    assert retention_table(read_runs(runs), "wild") is None
    assert retrieval_table(read_runs(runs), "wild") is None


def test_a_run_that_was_asked_on_schedule_shows_what_came_of_edits_as_they_added_up(
    tmp_path: Path, runs: list[Path]
) -> None:
    answers = [
        *asked("0010", after=None),
        *asked("11", after=T1, timestep=T1, edits=2),
        *asked("1110", after=T1, timestep=T1),
        *asked("01", after=T2, timestep=T2),
    ]
    write_run(tmp_path / "row", answers)
    write_scores(tmp_path / "row")
    found = read_runs([*runs, tmp_path / "row"])
    table = schedule_table(found, "wild")
    assert table is not None
    assert column(table, "edits") == ["2", "all"]
    assert column(table, "update") == column(table, "locality") == ["100.0", "75.0"]
    assert column(table, "n update") == ["2", "4"]
    assert column(table, "unchanged") == ["0.0", "50.0"]
    assert column(table, "time step") == ["20211230 20221230"] * 2, "the second was not asked on the way"
    assert table.rows[0][0] == 1 + [item.folder.name for item in found].index("row")
    alone = read_runs([tmp_path / "row"])
    assert schedule_table(alone, "wild") in report_tables(alone)
    assert schedule_table(read_runs(runs), "wild") is None


def test_markdown_and_csv_say_the_same_as_the_tables(runs: list[Path]) -> None:
    found = read_runs(runs)
    text = to_markdown(report_tables(found))
    assert re.search(r"\| 1 \| ft_m \| 12\.5→62\.5 \[", text)
    assert "## Group 2: update, preset wild" in text
    rows = list(csv.DictReader(io.StringIO(to_csv(found))))
    assert len(rows) == 3 * 4
    (row,) = [row for row in rows if row["folder"].endswith("b") and (row["preset"], row["axis"]) == ("wild", "update")]
    wanted = {
        "method": "ft_m",
        "before": "0.125",
        "after": "0.625",
        "n": "8",
        "metric": "exact_match",
        "token_match": "",
    }
    assert {name: row[name] for name in wanted} == wanted


def test_json_and_a_tables_csv_hold_the_numbers_of_the_table(runs: list[Path]) -> None:
    table = overview_table(read_runs(runs), "wild")
    (document,) = json.loads(to_json([table]))["tables"]
    row = document["rows"][1]
    assert (row["method"], row["update"]["before"]) == ("ft_m", 0.125)
    assert (row["update"]["after"]["mean"], row["update"]["after"]["n"]) == (0.625, 8)
    assert row["update"]["after"]["low"] < 0.625 < row["update"]["after"]["high"]
    assert {"name": "update", "unit": "percent"} in document["columns"]

    line = list(csv.DictReader(io.StringIO(table_to_csv(table))))[1]
    assert (line["update before"], line["update"], line["update n"]) == ("0.125", "0.625", "8")
    assert float(line["update low"]) == row["update"]["after"]["low"]


def test_a_bar_in_a_name_does_not_break_a_markdown_table(tmp_path: Path) -> None:
    found = read_runs([run(tmp_path / "odd", "0", "1", model="a|b")])
    assert "a\\|b" in to_markdown([runs_table(found)])


def test_only_runs_that_compare_stand_in_one_table(tmp_path: Path) -> None:
    other = dataclasses.replace(WILD, max_new_tokens=9)
    folders = [
        run(tmp_path / "bare", "0001", "1101"),
        run(tmp_path / "asked", "0001", "1111", train_context="asked"),
        run(tmp_path / "fewer", "000", "110"),
        run(tmp_path / "shorter", "0001", "1100", presets=(SYNTHETIC, other)),
        run(tmp_path / "untrained", "0001", "1100", method="rag", train_context=None),
    ]
    found = read_runs(folders)
    tables = report_tables(found)

    groups = tables[0]
    assert column(groups, "runs") == ["fewer", "asked, untrained", "bare, untrained", "shorter"]
    assert column(groups, "trained in") == ["question_only", "asked", "question_only", "question_only"]
    assert len(set(column(groups, "cases"))) == 2
    sides = [table for table in tables if table.title.endswith("Presets side by side")]
    assert [table.title.partition(":")[0] for table in sides] == [f"Group {number}" for number in (1, 2, 3, 4)]
    assert column(sides[1], "wild") == ["100.0", "50.0"]
    assert "not ranked" in groups.note
    alone = report_tables(read_runs(folders[:1]))
    assert alone[0].title == "Presets side by side"
    rows = list(csv.DictReader(io.StringIO(to_csv(found))))
    assert {(row["method"], row["trained_in"]) for row in rows} == {
        ("ft_m", "question_only"),
        ("ft_m", "asked"),
        ("rag", ""),
    }
    assert set(score_table(found)["train_context"].to_pylist()) == {"question_only", "asked", None}


def test_the_order_of_runs_named_does_not_matter(runs: list[Path]) -> None:
    assert command(*runs).output == command(*reversed(runs), runs[0]).output


@pytest.mark.parametrize("width", [80, 120])
def test_what_is_printed_fits_the_terminal_and_breaks_no_number(runs: list[Path], width: int) -> None:
    result = command(*runs, "--all", width=width)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= width
    assert "…" not in result.stdout
    assert lines[0].startswith("Groups")
    assert any("12.5→62.5" in line for line in lines)
    assert result.stdout.index("Group 1: Overview, preset wild") < result.stdout.index("update, preset synthetic")


@pytest.mark.parametrize("width", [50, 80, 160])
@pytest.mark.slow
def test_every_column_is_shown_however_narrow_the_terminal(runs: list[Path], width: int) -> None:
    shown = command(*runs, "--all", width=width).stdout
    assert (", continued" in shown) == (width < 160)
    tables = report_tables(read_runs(runs))
    words: dict[str, list[str]] = {table.title: [] for table in tables}
    title = ""
    for line in shown.splitlines():
        found = line.strip().removesuffix(", continued")
        title = found if found in words else title
        words[title] += line.split()
    for table in tables:
        for column in table.columns:
            # Headings are broken between words only.
            assert all(word in words[table.title] for word in column.title.split()), (table.title, column.title)


def test_files_are_written_named_and_not_replaced_unasked(runs: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = command(*runs, "--out", out)
    assert "report.md" in first.stderr
    assert "report.csv" in first.stderr
    assert sorted(path.name for path in out.iterdir()) == ["report.csv", "report.json", "report.md", "tables"]
    before = (out / "report.md").read_bytes()
    refused = command(*runs[:1], "--out", out)
    assert refused.exit_code == 1
    assert "--overwrite" in refused.stderr
    assert (out / "report.md").read_bytes() == before
    assert command(*runs, "--out", out, "--overwrite").exit_code == 0
    assert (out / "report.md").read_bytes() == before
    alone = tmp_path / "alone.csv"
    assert command(*runs, "--csv", alone).exit_code == 0
    assert alone.read_bytes() == (out / "report.csv").read_bytes()


def test_what_is_no_finished_run_is_refused(runs: list[Path], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (runs[0] / "scores.json").unlink()
    for folder, message in [
        (tmp_path / "empty", "is not a run"),
        (tmp_path / "nowhere", "There is no run"),
        (runs[0], "is not finished"),
    ]:
        for options in ((), ("--rescore",)):
            result = command(runs[1], folder, *options)
            assert result.exit_code == 1
            assert message in result.stderr
            assert result.stdout == ""


def test_rescore_measures_again(runs: list[Path]) -> None:
    write_lines(runs[1] / "answers.jsonl", asked("11111111", of=WILD))
    stale = command(runs[1])
    assert stale.exit_code == 1
    assert "--rescore" in stale.stderr
    assert "100.0" in command(runs[1], "--rescore").stdout


def test_breakdowns_need_a_known_name_and_counts(runs: list[Path]) -> None:
    unknown, uncounted = command(*runs, "--by", "colour"), command(*runs, "--by", "subject_count")
    assert unknown.exit_code == uncounted.exit_code == 1
    assert "relation, tag, kind" in unknown.stderr
    assert "--counts FILE" in uncounted.stderr


def test_a_label_cannot_control_the_terminal(tmp_path: Path) -> None:
    fact = Fact("Q1", "Canada", "P6", "head\x1b[2J", "Q9", "Justin Trudeau")
    case = Case("Q1:P6:Q9", T1, "update", fact, "Who?", "Justin Trudeau", "", (), (), ())
    write_run(tmp_path / "run", [answer(case.case_id)])
    write_edited_cases(tmp_path / "run", [case])
    write_scores(tmp_path / "run")
    shown = command(tmp_path / "run", "--by", "relation").stdout
    assert "By relation, preset wild" in shown
    assert "head␛[2J (P6)" in shown
    assert "\x1b[2J" not in shown


def test_scores_with_intervals_of_another_method_are_measured_again(runs: list[Path]) -> None:
    path = runs[0] / "scores.json"
    scores = json.loads(path.read_text(encoding="utf-8"))
    forget_run_checksums(runs[0])  # an earlier version wrote none
    for changed in (scores | {"intervals": "bootstrap"}, {k: v for k, v in scores.items() if k != "intervals"}):
        path.write_text(json.dumps(changed), encoding="utf-8")
        refused = command(runs[0])
        assert refused.exit_code == 1
        assert f"Measure it again: kgedit report --rescore {runs[0]}" in refused.stderr
    assert command(runs[0], "--rescore").exit_code == 0


def test_every_rate_has_an_interval_even_of_two_questions(tmp_path: Path) -> None:
    """Neither of two updates is right: that says next to nothing, and not that the rate is 0."""
    table = overview_table(read_runs([run(tmp_path / "two", "00", "00")]), "wild")
    (shown,) = [row[-3] for row in table.texts()]
    assert shown == "0.0→0.0 [0.0, 98.8]"
