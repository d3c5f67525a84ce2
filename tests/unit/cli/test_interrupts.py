"""Ctrl-C: exit code 130, and whether the same command resumes."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kgedit.cli import main

WRITE = ["load-dump", "dump.json", "--date", "2021-01-04", "--no-graph"]


def interrupted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: BaseException, *arguments: str) -> Result:
    def raise_error(*_: object, **__: object) -> None:
        raise error

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KGEDIT_HOME", str(tmp_path / "home"))
    (tmp_path / "dump.json").write_text("[\n]\n", encoding="utf-8")
    monkeypatch.setattr("kgedit.store.ingest.ingest", raise_error)
    monkeypatch.setattr("kgedit.store.snapshots.list_snapshots", raise_error)
    return CliRunner().invoke(main, list(arguments))


# DuckDB ends a query on Ctrl-C with the second of these.
@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("Query interrupted")])
def test_a_command_that_resumes_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: BaseException) -> None:
    ran = interrupted(monkeypatch, tmp_path, error, *WRITE)
    assert ran.exit_code == 130
    assert ran.stderr.splitlines()[-1] == "Interrupted. Give the same command again: it resumes."


def test_another_command_only_says_that_it_was_interrupted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ran = interrupted(monkeypatch, tmp_path, KeyboardInterrupt(), "snapshots")
    assert (ran.exit_code, ran.stderr.splitlines()[-1]) == (130, "Interrupted.")


def test_other_errors_of_the_program_are_not_taken_for_an_interrupt(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ran = interrupted(monkeypatch, tmp_path, RuntimeError("a defect"), *WRITE)
    assert ran.exit_code == 1
    assert isinstance(ran.exception, RuntimeError)
