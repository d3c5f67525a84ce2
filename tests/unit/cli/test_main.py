"""Behaviour that all commands share."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from kgedit.cli import COMMAND_TABLE, COMMANDS, main, progress
from kgedit.llm.presets import PRESETS

HEAVY = ("torch", "transformers", "neo4j", "duckdb", "pyarrow", "peft", "openai")


def commands() -> Iterator[tuple[str, click.Command]]:
    for name in COMMANDS:
        command = COMMANDS[name]
        if isinstance(command, click.Group):
            yield from ((f"{name} {inner}", command.commands[inner]) for inner in command.commands)
        else:
            yield name, command


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from click.testing import CliRunner; from kgedit.cli import main; "
        "assert CliRunner().invoke(main, ['--help']).exit_code == 0; "
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def groups() -> Iterator[tuple[str, click.Group]]:
    yield "", main
    yield from ((name, COMMANDS[name]) for name in COMMANDS if isinstance(COMMANDS[name], click.Group))


@pytest.mark.parametrize("name", [*(name for name, _ in commands()), *(name for name, _ in groups())])
def test_every_help_ends_in_an_example_that_can_be_run(name: str) -> None:
    result = CliRunner().invoke(main, [*name.split(), "--help"])
    assert result.exit_code == 0
    assert f"kgedit {name}".strip() in result.output.rpartition("Example")[2]
    last = result.output.rpartition("\n    kgedit ")[2]
    assert re.fullmatch(r"[^\n]*(\\\n +-[^\n]*)*\n", last), "nothing follows the examples"


@pytest.mark.parametrize("name", [name for name, _ in commands()])
def test_every_example_fits_into_80_columns(name: str) -> None:
    output = CliRunner().invoke(main, [*name.split(), "--help"], terminal_width=80).output
    examples = output.rpartition("Example")[2].partition("\n")[2].splitlines()
    assert examples
    assert [line for line in examples if len(line) > 80] == []


@pytest.mark.parametrize("name", [name for name, _ in groups()])
def test_every_summary_fits_into_80_columns(name: str) -> None:
    result = CliRunner().invoke(main, [*name.split(), "--help"], terminal_width=80)
    listed = result.output.partition("Start:" if not name else "Commands:")[2].partition("Example")[0]
    assert listed
    assert "..." not in listed
    assert all(len(line) <= 80 for line in listed.splitlines())


def test_the_list_of_commands_gives_the_first_sentence_of_each() -> None:
    for commands_of_group in COMMAND_TABLE.values():
        for name, (_, summary) in commands_of_group.items():
            assert COMMANDS[name].get_short_help_str(limit=100) == summary, name


def test_commands_are_listed_without_importing_them() -> None:
    code = (
        "import sys; from click.testing import CliRunner; from kgedit.cli import main; "
        "assert 'export-timestep' in CliRunner().invoke(main, ['--help']).output; "
        "print([name for name in sys.modules if name.startswith(('kgedit.editing', 'pydantic'))])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_run_edits_help_lists_every_preset() -> None:
    shown = CliRunner().invoke(main, ["run-edit", "--help"]).output
    assert all(preset in shown for preset in PRESETS)


def test_our_own_errors_become_one_line_and_exit_code_one() -> None:
    result = CliRunner().invoke(main, ["load-dump", "no-such-file.json", "--date", "2021-01-04"])
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: There is no file no-such-file.json.")
    assert "Traceback" not in result.output


def test_a_command_that_does_not_exist_is_named() -> None:
    result = CliRunner().invoke(main, ["lod-dump"])
    assert result.exit_code == 2
    assert "lod-dump" in result.stderr


@pytest.mark.parametrize("arguments", [["-q", "view"], ["view", "-q"], ["view", "--quiet"]])
def test_quiet_hides_messages_before_and_after_the_command_but_no_error(arguments: list[str]) -> None:
    shown = CliRunner().invoke(main, [*arguments, "nowhere"])
    assert shown.exit_code == 1
    assert "nowhere" in shown.stderr
    progress.set_quiet(True)
    progress.say("hidden")
    CliRunner().invoke(main, ["configs", "ls"])
    assert not progress._quiet, "each command starts anew"


def test_verbose_shows_where_an_error_occurred() -> None:
    plain, verbose = (CliRunner().invoke(main, ["view", "nowhere", *more]).stderr for more in ([], ["-v"]))
    assert "Traceback" not in plain
    assert "Traceback" in verbose
    assert verbose.endswith(plain)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
@pytest.mark.parametrize("words", ["configs cp ft_m/default -", "--help", "configs --help"])
def test_a_full_disk_on_standard_output_is_one_line(words: str) -> None:
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "kgedit", *words.split()],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (
        1,
        "Error: Standard output or a file cannot be written: No space left on device. Check the free space of its "
        "disk.\n",
    )


def test_no_command_has_the_options_of_the_group() -> None:
    names = {name for _, command in commands() for one in command.params for name in one.opts}
    assert not names & {"-q", "--quiet", "-v", "--verbose"}
