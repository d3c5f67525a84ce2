"""Examples at the end of every command's help."""

from __future__ import annotations

import re

_WIDTH = 74
"""Columns of an example, so that it fits a terminal of 80 with its indentation and a backslash."""


def examples(*commands: str, before: str = "") -> str:
    """Epilog of a command's help; a long command is continued on further lines before one of its options.

    Args:
        commands: Commands that a user can type.
        before: Text above the examples, not rewrapped.
    """
    title = "Example" if len(commands) == 1 else "Examples"
    lines = [f"{title}:", *(f"  {_continued(command)}" for command in commands)]
    paragraphs = [*before.strip().split("\n\n"), "\n".join(lines)]
    return "\n\n".join(f"\b\n{paragraph}" for paragraph in paragraphs if paragraph)


def _continued(command: str) -> str:
    """The command on lines of at most 74 columns, if its options are that short."""
    first, *options = re.split(r" (?=--?[a-z])", command)
    lines = [first]
    for option in options:
        if len(lines[-1]) + 1 + len(option) <= _WIDTH:
            lines[-1] += f" {option}"
        else:
            lines.append(f"    {option}")
    return " \\\n  ".join(lines)
