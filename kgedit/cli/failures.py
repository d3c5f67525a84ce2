"""Ctrl-C and damaged files: their exit codes and messages, for all commands."""

from __future__ import annotations

import sys

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


_SIGNS = ("parquet", "thrift", "snappy", "zstd", "magic bytes", "corrupt", "decompress", "page header", "footer")


def is_undecodable(error: Exception) -> bool:
    """Whether Arrow or DuckDB could not decode a file; both raise many types of errors for that."""
    libraries = (("pyarrow", "ArrowException"), ("duckdb", "Error"))
    types = tuple(getattr(sys.modules[name], base) for name, base in libraries if name in sys.modules)
    arrow_says_os_error = type(error) is OSError and error.errno is None
    return (isinstance(error, types) or arrow_says_os_error) and any(sign in str(error).lower() for sign in _SIGNS)


def about_undecodable(error: Exception) -> str:
    """Message with the cause, and how to find the file."""
    return (
        f"A file cannot be decoded, so it is probably damaged: {str(error).partition(chr(10))[0]}\n"
        "Find the damaged files of the home, and what to do: kgedit verify"
    )
