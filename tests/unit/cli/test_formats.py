"""`--format json` on every command: one document on stdout, with the fields listed in docs/json.md."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from world.page_runs import NAMES, write_page_run
from world.small_timestep import write_timestep
from world.submitted_runs import add_hashes

from kgedit.cli import COMMANDS, main

DOCUMENTED = (Path(__file__).resolve().parents[3] / "docs" / "json.md").read_text(encoding="utf-8")

WITHOUT = {
    "memory serve": "serves until it is stopped",
    "explore": "serves until it is stopped",
}


def commands() -> Iterator[tuple[str, click.Command]]:
    for name in COMMANDS:
        command = COMMANDS[name]
        if isinstance(command, click.Group):
            yield from ((f"{name} {inner}", command.commands[inner]) for inner in command.commands)
        else:
            yield name, command


@pytest.mark.parametrize(("name", "command"), [pytest.param(*found, id=found[0]) for found in commands()])
def test_every_command_takes_format_json(name: str, command: click.Command) -> None:
    (option,) = [one for one in command.params if "--format" in one.opts] or [None]
    if name in WITHOUT:
        assert option is None
        return
    assert option is not None
    assert isinstance(option.type, click.Choice)
    assert "json" in option.type.choices
    assert f"`{name}`" in DOCUMENTED


def documented(command: str) -> set[str]:
    """Names in the row of a command."""
    (row,) = re.findall(rf"^\| [^|]*`{command}`[^|]* \| (.*) \|$", DOCUMENTED, re.MULTILINE)
    return set(re.findall(r"`(\w+)`", row))


def printed(*arguments: object) -> Any:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments] + ["--format", "json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_write_sample_and_describe(tmp_path: Path) -> None:
    made = printed("write-sample", tmp_path / "sample")
    assert set(made) == documented("write-sample")
    assert all(Path(path).is_file() for path in made["files"])
    assert printed("describe", write_timestep(tmp_path / "step", towns=range(2)).folder)[0]["part"]


def test_snapshots_of_an_empty_home_are_an_empty_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGEDIT_HOME", str(tmp_path))
    assert printed("snapshots") == []
    assert printed("graph", "status")["running"] is False
    assert set(printed("graph", "stop")) == documented("graph stop")


def test_load_dump_tells_its_snapshots_and_their_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGEDIT_HOME", str(tmp_path / "home"))
    dump = tmp_path / "dump.json"
    dump.write_text('[\n{"id": "Q1", "type": "item", "labels": {}, "claims": {}}\n]\n', encoding="utf-8")
    made = printed("load-dump", dump, "--date", "2021-01-04", "--no-graph", "--workers", "1")
    assert set(made) == documented("load-dump") - {"graph rebuild"}
    assert (made["snapshots"][0]["entities"], made["graph"]) == (1, None)
    assert printed("snapshots") == made["snapshots"]
    assert printed("drop-snapshot", "2021-01-04", "--no-graph") == {"dropped": "2021-01-04", "graph": None}


def test_configs(tmp_path: Path) -> None:
    listed = printed("configs", "ls", "--method", "memit")
    assert all(set(row) == documented("configs ls") for row in listed)
    made = printed("configs", "cp", "ft_m/default", tmp_path / "spec.yaml")
    assert made == {"file": str(tmp_path / "spec.yaml")}
    assert "method: ft_m" in printed("configs", "cp", "ft_m/default", "-")["spec"]
    (checked,) = printed("configs", "validate", tmp_path / "spec.yaml")
    assert set(checked) == documented("configs validate")
    assert checked["problems"] == []
    assert printed("configs", "schema")["type"] == "object"


def test_lists_of_queries_and_sweeps() -> None:
    listed = printed("query", "--list")
    assert all(set(row) == {"name", "finds", "parameters", "returns"} for row in listed)
    assert {row["name"] for row in printed("sweep", "--list")} >= {"smoke"}
    assert "base:" in printed("sweep", "smoke", "--print")["spec"]


def test_report_publish_and_score(tmp_path: Path) -> None:
    run = write_page_run(tmp_path / "runs" / "rag", NAMES)
    assert set(printed("report", run, "--brief")) == {"tables"}
    assert printed("score", run, "--metric", "first_line")["tables"][0]["rows"]
    step = add_hashes(write_timestep(tmp_path / "step", towns=range(2)))
    made = printed("publish", tmp_path / "published", "--timestep", step.folder)
    assert set(made) == documented("publish")
    assert made["publication"]["timesteps"][0]["cases"] == 2
