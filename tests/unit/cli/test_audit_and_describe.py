"""`kgedit audit` and `kgedit describe`, as typed."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from world.audited import FAULTS, RIGHT, snapshots
from world.edit_files import EASYEDIT, write_json

from kgedit.cli import main
from kgedit.timesteps.kinds import KINDS

WINDOW = ["--from", "2021-01-04", "--to", "2023-02-27"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return snapshots(tmp_path_factory.mktemp("audited"))[0].folder.parents[1]


def _run(home: Path, *arguments: str | Path) -> Result:
    ran = CliRunner(env={"KGEDIT_HOME": str(home)}).invoke(main, list(map(str, arguments)))
    assert ran.exit_code == 0, ran.output
    return ran


@pytest.mark.slow
def test_an_audit_is_a_table_of_counts_and_the_first_wrong_rows(home: Path, tmp_path: Path) -> None:
    rows = [RIGHT["a new value"], *list(FAULTS.values())[:4]]
    file = write_json(tmp_path / "edits.json", *rows)
    ran = _run(home, "audit", file, *WINDOW, "--limit", "1")

    assert "1 of 5" in ran.stdout
    assert "20.0%" in ran.stdout
    assert "no entity of the snapshots is the subject" in ran.stdout
    (kind,) = [line for line in ran.stdout.splitlines() if "1 of 1" in line]
    assert kind.split()[0] in KINDS
    assert "mean confidence" in ran.stdout
    assert "3 more rows are not valid: --format csv lists all" in ran.stderr
    listed = list(csv.DictReader(_run(home, "audit", file, *WINDOW, "--format", "csv").stdout.splitlines()))
    assert [row["verdict"] for row in listed] == ["valid", "undecidable", "undecidable", "invalid", "invalid"]
    result = json.loads(_run(home, "audit", file, *WINDOW, "--format", "json").stdout)
    assert (result["format"], result["from"], len(result["rows"]), result["not_audited"]) == (
        "wikibigedit",
        "2021-01-04",
        5,
        {},
    )
    assert sum(count["rows"] for count in result["counts"] if count["part"] == "row") == 5
    assert [(kind["rows"], kind["of"]) for kind in result["kinds"]] == [(1, 1)]
    assert listed[0]["kind"] == result["rows"][0]["kind"] == result["kinds"][0]["kind"]


def test_a_description_is_a_table_or_json_or_csv(home: Path, tmp_path: Path) -> None:
    file = write_json(tmp_path / "edits.json", *(EASYEDIT | {"relation_id": f"P{n}"} for n in range(1, 5)))
    ran = _run(home, "describe", file, "--limit", "3")
    assert "1 more: --limit" in ran.stdout
    assert "25.0%" in ran.stdout
    rows = json.loads(_run(home, "describe", file, "--format", "json").stdout)
    assert {"part": "cases", "name": "cases", "value": 4.0, "share": None} in rows
    listed = list(csv.DictReader(_run(home, "describe", file, "--format", "csv").stdout.splitlines()))
    assert len(listed) == len(rows)
