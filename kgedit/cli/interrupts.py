"""Ctrl-C: the exit code that shells expect, and a hint if the command can resume."""

from __future__ import annotations

import click

from kgedit.cli.progress import say

EXIT_CODE = 130
"""128 + SIGINT, as shells report a program ended by Ctrl-C."""


class ResumableCommand(click.Command):
    """A command that resumes after an interruption when it is run again."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, RuntimeError) as error:
            if not is_interrupt(error):
                raise
            say("Interrupted. Give the same command again: it resumes.")
            ctx.exit(EXIT_CODE)


def is_interrupt(error: BaseException) -> bool:
    """Whether an error is a Ctrl-C; DuckDB raises a RuntimeError for it during a query."""
    return isinstance(error, KeyboardInterrupt) or str(error) == "Query interrupted"
