"""Names of files, and terminals, in other encodings than UTF-8."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import kgedit
from kgedit.cli import main
from kgedit.errors import StoreError

UNDECODABLE = os.fsdecode(b"/nowhere/home-\xff")
NO_UTF8 = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}


@pytest.mark.parametrize("command", ["snapshots", "load-dump x --date 2021-01-04 --no-graph", "up", "graph status"])
def test_a_home_whose_name_is_not_utf8_is_refused_with_a_sentence(command: str, tmp_path: Path) -> None:
    given = [str(tmp_path) if part == "x" else part for part in command.split()]
    ran = CliRunner().invoke(main, given, env={"KGEDIT_HOME": UNDECODABLE})
    said = "The folder '/nowhere/home-\\udcff' cannot be used: its name is not UTF-8. Rename it, or choose another."
    assert (ran.exit_code, ran.stderr) == (1, f"Error: {said}\n")
    with pytest.raises(StoreError, match="its name is not UTF-8"):
        kgedit.Home(UNDECODABLE)


def test_a_command_that_needs_no_home_runs_whatever_its_name() -> None:
    assert CliRunner().invoke(main, ["query", "--list"], env={"KGEDIT_HOME": UNDECODABLE}).exit_code == 0


def test_an_argument_that_is_not_utf8_is_refused_before_any_work() -> None:
    ran = CliRunner().invoke(main, ["describe", UNDECODABLE])
    assert ran.exit_code == 2
    assert "Error: The argument '/nowhere/home-\\udcff' is not utf-8. Rename the file or folder.\n" in ran.stderr


def test_in_a_locale_without_utf8_a_home_named_in_ascii_works_and_another_is_refused(tmp_path: Path) -> None:
    """Python's own UTF-8 mode and the coercion of the locale C are off, as in other locales than C."""
    command = [sys.executable, "-m", "kgedit", "snapshots"]

    def run(home: Path) -> subprocess.CompletedProcess[str]:
        env = os.environ | NO_UTF8 | {"KGEDIT_HOME": str(home)}
        return subprocess.run(command, env=env, capture_output=True, text=True, encoding="utf-8", check=False)

    named = run(tmp_path / "höme")
    assert (named.returncode, len(named.stderr.splitlines())) == (1, 1)
    assert "names of files are ascii in this locale, and UTF-8 in DuckDB and Arrow. Set PYTHONUTF8=1" in named.stderr
    assert "No snapshot is loaded" in run(tmp_path / "home").stderr


def test_letters_that_a_terminals_encoding_lacks_are_escaped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="latin-1"))
    monkeypatch.setenv("KGEDIT_HOME", str(tmp_path / "Čáslav"))
    main(["graph", "status", "--format", "json"], standalone_mode=False)
    sys.stdout.flush()
    text = written.getvalue().decode("latin-1")
    assert "\\u010c\xe1slav" in text
    assert "Čáslav" in json.dumps(json.loads(text), ensure_ascii=False)
