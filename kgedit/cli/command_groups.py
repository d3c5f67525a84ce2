"""Code shared by all commands: examples in help, suggestions for wrong words, exit codes and messages of failures."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable

import click

from kgedit.cli.progress import say
from kgedit.errors import near_names

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


_MOST_LISTED = 12


class CommandGroup(click.Group):
    """A group that suggests the command or option that was meant."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except click.NoSuchOption as error:
            names = _options(error.ctx.command) if error.ctx else ()
            raise click.UsageError(_no_such("option", error.option_name, names), error.ctx) from error
        except click.MissingParameter as error:
            values = _values_there_are(error.param, error.ctx) if error.param and error.ctx else ""
            raise click.UsageError(f"{error.format_message()}{values}", error.ctx) from error
        except click.BadParameter as error:
            raise click.UsageError(_in_plain_words(error.format_message()), error.ctx) from error

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            raise click.UsageError(_no_such("command", name, self._commands_with_subcommands(ctx)), ctx)
        found, command, rest = super().resolve_command(ctx, args)
        if command is not None and not isinstance(command, click.Group) and not ctx.resilient_parsing:
            _check_options(command, rest, click.Context(command, info_name=found, parent=ctx))
        return found, command, rest

    def _commands_with_subcommands(self, ctx: click.Context) -> Iterable[str]:
        for name in self.list_commands(ctx):
            yield name
            command = self.get_command(ctx, name)
            if isinstance(command, click.Group):
                yield from (f"{name} {inner}" for inner in command.list_commands(ctx))


def _in_plain_words(message: str) -> str:
    """Click's message without its names of types."""
    for type_name, plain in (("integer", "a whole number"), ("float", "a number")):
        message = re.sub(rf"is not a valid {type_name}( range)?\.", f"is not {plain}.", message)
    return message


def _no_such(kind: str, given: str, names: Iterable[str]) -> str:
    names = list(names)
    # Each command has its own name for the server's address.
    same = [name for name in names if all(re.fullmatch(r"--\w+-url", one) for one in (given, name))]
    near = same or near_names(given, names)
    hint = f" Did you mean {' or '.join(repr(one) for one in near)}?" if near else ""
    return f"There is no {kind} '{given}'.{hint}"


def _options(command: click.Command) -> dict[str, click.Option]:
    """Options by all of their names."""
    options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
    return {name: option for option in options for name in (*option.opts, *option.secondary_opts)}


def _check_options(command: click.Command, words: list[str], context: click.Context) -> None:
    """Check that each option that needs a value has one, and that no long option has a single dash.

    Click takes the following word as the value, so ``--timestep --model tiny`` would read ``tiny`` as an argument; and
    it reads ``-timestep`` as several short options.

    Raises:
        UsageError: with the possible values, or the option that was meant.
    """
    options = _options(command)
    position = 0
    while position < len(words) and words[position] != "--":
        word = words[position]
        option = options.get(word)
        if option is not None and not option.is_flag and not option.count:
            following = words[position + 1] if position + 1 < len(words) else None
            if following is None or (following.startswith("--") and following in options):
                raise click.UsageError(_lacks_value(option, word, following, context), context)
            position += 1
        elif option is None and len(word) > 2 and f"-{word}" in options:
            raise click.UsageError(_no_such("option", word, [f"-{word}"]), context)
        position += 1


def _lacks_value(option: click.Option, word: str, following: str | None, context: click.Context) -> str:
    next_word = "" if following is None else f", but {following} follows"
    return f"The option {word} needs a value{next_word}.{_values_there_are(option, context)}"


def _values_there_are(option: click.Parameter, context: click.Context) -> str:
    """Shell completions for the option, as a sentence; "" if those are only files."""
    values = [item.value for item in option.shell_complete(context, "") if item.type == "plain" and item.value]
    more = f" and {len(values) - _MOST_LISTED} more" if len(values) > _MOST_LISTED else ""
    return f" There are: {', '.join(values[:_MOST_LISTED])}{more}." if values else ""
