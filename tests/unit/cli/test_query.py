"""Rows on the terminal and in CSV: text of the graph is shown and never interpreted."""

from __future__ import annotations

import csv
import io
import json
import math
import sys
from typing import Any

import pytest
from click.testing import CliRunner
from neo4j.spatial import WGS84Point
from neo4j.time import Date, Duration

from kgedit.cli import main
from kgedit.cli.formats import csv_cell, print_rows, table_cell, visible
from kgedit.verbs.query import RunQuery

ESCAPES = "\x1b]0;title\x07 red \x9b31m \x7f \u202e"


def test_control_characters_are_shown_and_not_sent() -> None:
    assert visible(ESCAPES) == "␛]0;title␇ red \ufffd31m ␡ \ufffd"
    assert visible("line\nline\tcell\x1b", keep="\n\t") == "line\nline\tcell␛"
    assert visible("Zoë, 東京, עברית, \u200eمرحبا") == "Zoë, 東京, עברית, \u200eمرحبا"


def test_a_line_break_does_not_break_a_row_of_the_table() -> None:
    assert table_cell("two\nlines") == "two␊lines"
    assert table_cell(["a\x1b", 1, None]) == "a␛, 1, None"
    assert table_cell(None) == ""


@pytest.mark.parametrize("formula", ["=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "-0044-03-15", "+", "=\n1"])
def test_a_cell_that_a_spreadsheet_would_run_begins_with_an_apostrophe(formula: str) -> None:
    assert csv_cell(formula) == f"'{formula}"


@pytest.mark.parametrize("value", [-5, -5.25, "-5", "+10", "-1.5e-7", "a=b", "x-1", "two\nlines", math.inf])
def test_numbers_and_other_text_stay_what_they_are(value: object) -> None:
    assert csv_cell(value) == str(value)


def printed(form: str, capsys: pytest.CaptureFixture[str]) -> str:
    print_rows([{"label\x1b": ESCAPES, "=cmd": -5, "list": ["=a", "b"]}], form)
    return capsys.readouterr().out


def test_the_table_and_csv_hold_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    for form in ("table", "csv"):
        shown = printed(form, capsys)
        assert "␛]0;title" in shown
        assert visible(shown, keep="\n") == shown


def test_csv_can_be_read_back(capsys: pytest.CaptureFixture[str]) -> None:
    header, row = csv.reader(io.StringIO(printed("csv", capsys)))
    assert header == ["label␛", "'=cmd", "list"]
    assert row[1:] == ["-5", "'=a, b"]


class CountedWrites(io.RawIOBase):
    """Standard output that counts what reaches the system."""

    writes = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.writes += 1
        return memoryview(data).nbytes


@pytest.mark.parametrize("form", ["table", "json", "csv"])
def test_rows_are_written_in_one_piece(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A later write fails if a program such as head has ended, and the command with it."""
    raw = CountedWrites()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8"))
    print_rows([{"number": number, "label": "x" * 20} for number in range(1000)], form)
    sys.stdout.flush()
    assert raw.writes == 1


def test_json_holds_the_text_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(printed("json", capsys))[0]["label\x1b"] == ESCAPES


def test_values_that_json_does_not_have_are_null_or_text_as_in_csv(capsys: pytest.CaptureFixture[str]) -> None:
    row = {
        "numbers": [math.inf, -math.inf, math.nan, 1.5],
        "node": {"share": math.nan},
        "duration": Duration(months=2, days=1),
        "point": WGS84Point((1.0, 2.0)),
        "day": Date(2021, 1, 4),
    }
    print_rows([row], "json")
    shown = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    print_rows([row], "csv")
    (in_csv,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert shown == [
        {"numbers": [None, None, None, 1.5], "node": {"share": None}}
        | {name: in_csv[name] for name in ("duration", "point", "day")}
    ]


@pytest.mark.parametrize("timeout", ["0", "-1", "inf", "nan"])
def test_a_timeout_that_is_no_time_is_refused(timeout: str) -> None:
    ran = CliRunner().invoke(main, ["query", "--cypher", "RETURN 1", "--timeout", timeout])
    assert ran.exit_code == 2, ran.output
    assert "--timeout" in ran.stderr


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2021-01-04", 20210104),
        ("20210104", 20210104),
        ("-2", -2),
        ("0.5", 0.5),
        ('"2021"', "2021"),
        ('"2021-01-04"', "2021-01-04"),
        ("Q42", "Q42"),
        ("007", "007"),
        ("9" * 18, int("9" * 18)),
        ("9" * 19, "9" * 19),
        ("1e3", "1e3"),
        ('"a phrase"', '"a phrase"'),
        ('"', '"'),
        ("", ""),
    ],
)
def test_parameters_of_own_cypher_are_numbers_dates_or_text(
    text: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[object] = []
    monkeypatch.setattr(RunQuery, "run", lambda self, _home: sent.append(self.parameters) or [])
    for cypher in (["RETURN $v"], ["--cypher", "RETURN $v"]):
        ran = CliRunner().invoke(main, ["query", *cypher, "-p", f"v={text}", "--format", "json"])
        assert ran.exit_code == 0, ran.output
    assert CliRunner().invoke(main, ["query", "changed_edges", "-p", f"v={text}"]).exit_code == 0
    assert [type(given["v"]) for given in sent] == [type(value), type(value), str]
    assert sent == [{"v": value}, {"v": value}, {"v": text}]


def test_a_day_that_does_not_exist_is_refused_in_own_cypher() -> None:
    ran = CliRunner().invoke(main, ["query", "RETURN $d", "-p", "d=2021-02-30"])
    assert (ran.exit_code, "Parameter d: '2021-02-30' is not a date" in ran.stderr) == (1, True)


def test_a_parameter_given_twice_is_refused() -> None:
    for query in ("RETURN $x", "changed_edges"):
        ran = CliRunner().invoke(main, ["query", query, "-p", "y=0", "-p", "x=a", "-p", "x=2"])
        assert (ran.exit_code, ran.stderr) == (1, "Error: Parameter x is given twice. Give one value.\n")
