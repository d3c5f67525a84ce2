"""Writes docs/commands.md, the reference of all commands, from the commands themselves: ``make docs``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from kgedit.cli import main

FILE = Path(__file__).with_name("commands.md")

_HEAD = """\
<!-- Written by docs/commands.py from the commands' own help (make docs). Changes made here are lost. -->

# Commands

Results go to stdout, progress and messages to stderr. A mistake of the user's ends in one message and exit code 1 or 2,
Ctrl-C in 130. `$KGEDIT_HOME` (default `./kgedit-data`) holds everything that commands make.
"""


def reference() -> str:
    """The whole file."""
    # As the command itself is called: click remembers each command's first help option, -h included or not.
    settings = {**main.context_settings, "max_content_width": 100, "terminal_width": 100}
    parts = list(_sections(main, click.Context(main, info_name="kgedit", **settings)))
    contents = "\n".join(f"- [`{name}`](#{name.replace(' ', '-')}): {summary}" for name, summary, _ in parts)
    sections = "\n".join(f"## {name}\n\n```text\n{text}\n```\n" for name, _, text in parts)
    return f"{_HEAD}\n{contents}\n\n{sections}"


def _sections(group: click.Group, context: click.Context) -> Iterator[tuple[str, str, str]]:
    """Name, summary and help of every command below a group, groups themselves included."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        inner = click.Context(command, parent=context, info_name=name, max_content_width=100, terminal_width=100)
        lines = [line.rstrip() for line in command.get_help(inner).splitlines()]
        yield inner.command_path, command.get_short_help_str(limit=100), "\n".join(lines)
        if isinstance(command, click.Group):
            yield from _sections(command, inner)


if __name__ == "__main__":
    FILE.write_text(reference(), encoding="utf-8")
