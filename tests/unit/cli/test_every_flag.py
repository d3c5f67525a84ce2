"""Every flag of every verb reaches the field that it is declared by."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from kgedit.cli import COMMANDS, main
from kgedit.cli.verb_command import FlagOption, Given, VerbCommand
from kgedit.verbs.options import command_line, docstring, fields_of, json_schema

DAY = "2021-01-04"


def commands() -> Iterator[tuple[str, VerbCommand]]:
    for name in COMMANDS:
        command = COMMANDS[name]
        inner = command.commands.items() if isinstance(command, click.Group) else ()
        for full, one in ((name, command), *((f"{name} {part}", part_command) for part, part_command in inner)):
            if isinstance(one, VerbCommand):
                yield full, one


VERBS = dict(commands())


def example(option: click.Parameter, folder: Path) -> tuple[str, object]:
    """Text for the command line, and the value that the verb should get."""
    kind = option.type
    if isinstance(kind, click.Choice):
        return str(kind.choices[-1]), kind.choices[-1]
    if isinstance(kind, click.Path):
        path = folder / (option.name or "")
        path.mkdir() if not kind.file_okay else path.touch()
        return str(path), path
    if isinstance(kind, click.types.IntParamType):
        number = 1 + max(0, int(getattr(kind, "min", None) or 0))
        return str(number), number
    if isinstance(kind, click.types.FloatParamType):
        share = 0.5 + float(getattr(kind, "min", None) or 0)
        return str(share), share
    if kind.name == "day" or (option.metavar or "").startswith("YYYY-MM-DD"):
        return DAY, datetime.date.fromisoformat(DAY)
    return "key=a" if option.metavar == "KEY=VALUE" else "a", "a"


def flags_of(command: VerbCommand) -> set[str]:
    """Fields of the command's verbs that are flags."""
    fields = [item for verb in command.verbs for item in fields_of(verb).items()]
    return {field for field, info in fields if command_line(info).is_shown}


def invoked(
    name: str, command: VerbCommand, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Any, dict[str, Any]]:
    """What the command's function gets if every flag is given once, and what it should get by field."""
    received: list[Any] = []
    monkeypatch.setattr(command, "do", lambda given, **_more: received.append(given))
    words, expected = name.split(), {}
    fields = flags_of(command)
    for option in command.params:
        if option.name not in fields and not (isinstance(option, click.Argument) and option.required):
            continue
        if isinstance(option, FlagOption) and option.is_flag:
            flag = option.secondary_opts[-1] if option.secondary_opts else option.opts[-1]
            words, expected[option.name] = [*words, flag], not option.secondary_opts
            continue
        text, value = example(option, folder)
        several = option.multiple if isinstance(option, click.Option) else option.nargs == -1
        is_list = several or (option.metavar or "").endswith(",...")
        words += [text] if isinstance(option, click.Argument) else [option.opts[0], text]
        expected[option.name] = (value,) if is_list else value
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    return received[0], expected


@pytest.mark.parametrize("name", VERBS)
def test_every_flag_arrives(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given, expected = invoked(name, VERBS[name], tmp_path, monkeypatch)
    for field in flags_of(VERBS[name]):
        value = given.values[field] if isinstance(given, Given) else getattr(given, field)
        value = value.date() if isinstance(value, datetime.datetime) else value
        if isinstance(value, str) and isinstance(expected[field], tuple):
            expected[field] = expected[field][0]  # an argument of several words
        assert value == expected[field], field


@pytest.mark.parametrize("name", VERBS)
def test_every_field_is_a_flag_and_in_schema_and_docstring(name: str) -> None:
    command = VERBS[name]
    flags = {option.name for option in command.params}
    for verb in command.verbs:
        shown = {field for field, info in fields_of(verb).items() if command_line(info).is_shown}
        assert shown <= flags
        assert shown <= set(json_schema(verb)["properties"])
        assert all(f"\n    {field}: " in docstring(verb) for field in fields_of(verb))
        assert all(info.description for info in fields_of(verb).values())


@pytest.mark.parametrize(
    "name", [name for name in VERBS if any(isinstance(p, click.Argument) for p in VERBS[name].params)]
)
def test_help_explains_the_arguments_of_verbs(name: str) -> None:
    section = (
        CliRunner().invoke(main, [*name.split(), "--help"]).output.partition("\nArguments:\n")[2].partition("\n\n")[0]
    )
    words = " ".join(section.split())
    for verb in VERBS[name].verbs:
        for info in fields_of(verb).values():
            if command_line(info).is_argument:
                assert str(info.description) in words


@pytest.mark.parametrize("name", [name for name in VERBS if any(getattr(p, "rare", False) for p in VERBS[name].params)])
def test_rare_options_are_behind_help_all(name: str) -> None:
    short, whole = (CliRunner().invoke(main, [*name.split(), flag]).output for flag in ("--help", "--help-all"))
    for option in VERBS[name].params:
        if isinstance(option, FlagOption) and option.rare:
            assert f" {option.opts[-1]} " not in short.partition("Example")[0].replace("\n", " \n")
            assert option.opts[-1] in whole


def test_lists_by_commas_may_be_repeated_and_none_of_their_values_is_lost() -> None:
    lists = [
        (name, option)
        for name, command in VERBS.items()
        for option in command.params
        if isinstance(option, FlagOption) and (option.metavar or "").endswith(",...")
    ]
    assert {(name, option.opts[0]) for name, option in lists} >= {
        ("load-dump", "--as-of"),
        ("build-qaedit", "--names"),
        ("export-timestep", "--kinds"),
    }
    for name, option in lists:
        assert "repeat, or separate by commas" in (option.help or ""), name
        days = ("2021-01-04, 2021-01-05", "2021-01-06")
        values = option.process_value(click.Context(VERBS[name]), days)
        assert [str(value)[-1] for value in values] == ["4", "5", "6"], name
