"""The commands that fetch ask as they are told, and say what to do next."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner, Result
from world.endpoints import Answer, serving

from kgedit.cli import main


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def answer(path: str, headers: dict[str, str], body: bytes) -> Answer:
    def row(predicate: str, value: dict[str, str]) -> dict[str, dict[str, str]]:
        item = {"type": "uri", "value": "http://www.wikidata.org/entity/Q1"}
        return {"item": item, "s": item, "p": {"type": "uri", "value": predicate}, "o": value}

    rows = [row("http://www.w3.org/2000/01/rdf-schema#label", {"type": "literal", "value": "one", "xml:lang": "en"})]
    return 200, {}, json.dumps({"results": {"bindings": rows}}).encode()


def test_a_slice_of_a_list_is_fetched_and_the_next_command_is_told(tmp_path: Path) -> None:
    (tmp_path / "ids.txt").write_text("# towns\nQ1\tone\nQ2\n\n", encoding="utf-8")
    with serving(answer) as endpoint:
        result = run("fetch-slice", tmp_path / "s.nt", "--items", tmp_path / "ids.txt", "--endpoint", endpoint.address)
    assert result.exit_code == 0, result.output
    assert "1 entities" in result.stderr
    assert "not found: 1 (Q2)" in result.stderr
    assert "kgedit load-dump" in result.stderr
    assert '"one"@en' in (tmp_path / "s.nt").read_text(encoding="utf-8")


def test_a_slice_of_nothing_named_is_refused(tmp_path: Path) -> None:
    result = run("fetch-slice", tmp_path / "s.nt")
    assert (result.exit_code, "Give exactly one of them" in result.stderr) == (1, True)
    (tmp_path / "ids.txt").write_text("# nothing\n", encoding="utf-8")
    assert "holds no ids" in run("fetch-slice", tmp_path / "s.nt", "--items", tmp_path / "ids.txt").stderr
