"""The command line. Each command imports what it needs when it runs, so that --help stays fast."""

from __future__ import annotations

import errno
import io
import logging
import os
import sys
import traceback

import click
from click.shell_completion import CompletionItem

from kgedit import __version__
from kgedit.cli.command_groups import EXIT_CODE, CommandGroup, about_undecodable, examples, is_interrupt, is_undecodable
from kgedit.cli.formats import visible
from kgedit.cli.progress import say, set_quiet
from kgedit.errors import KgeditError, MissingExtraError, extra_of, shown_by_command
from kgedit.registry import Registry

COMMAND_TABLE: dict[str, dict[str, tuple[str, str]]] = {
    "Start": {
        "up": ("kgedit.cli.up:up", "Run every step: from two dumps to a page of answers."),
        "write-sample": (
            "kgedit.cli.snapshots:write_sample",
            "Write three small Wikidata dumps to try kgedit with.",
        ),
    },
    "Data": {
        "fetch-dump": ("kgedit.cli.snapshots:fetch_dump", "Fetch a dump of Wikidata, or its page views."),
        "fetch-items": ("kgedit.cli.snapshots:fetch_items", "Fetch items of a list, with neighbours."),
        "fetch-slice": ("kgedit.cli.snapshots:fetch_slice", "Fetch selected items by SPARQL."),
        "load-dump": ("kgedit.cli.snapshots:load_dump", "Load a Wikidata dump as the snapshot of a date."),
        "load-changes": (
            "kgedit.cli.snapshots:load_changes",
            "Take what changed between two snapshots out of a larger store.",
        ),
        "task": (
            "kgedit.cli.snapshots:task",
            "Do a part of a load, of a delta for the graph, or of load-changes, on one of many machines.",
        ),
        "snapshots": ("kgedit.cli.snapshots:snapshots", "List the snapshots in the store."),
        "drop-snapshot": ("kgedit.cli.snapshots:drop_snapshot", "Remove a snapshot from the store and the graph."),
        "verify": ("kgedit.cli.snapshots:verify", "Check that no file of a home is damaged."),
    },
    "Graph": {
        "graph": ("kgedit.cli.graph:graph", "Fetch, start, stop and inspect the Neo4j server."),
        "query": ("kgedit.cli.query:query", "Run a query file, or your own Cypher, on the graph."),
        "find": ("kgedit.cli.query:find", "Find items and properties by label or alias."),
        "browse": ("kgedit.cli.query:browse", "Open Neo4j Browser on the loaded graph."),
        "explore": ("kgedit.cli.query:explore", "Explore the changes between the loaded snapshots."),
        "relations": ("kgedit.cli.snapshots:relations", "List how functional each property of a snapshot is."),
        "cycles": ("kgedit.cli.snapshots:cycles", "List cycles among classes and among containers."),
    },
    "Questions": {
        "export-timestep": (
            "kgedit.cli.timesteps:export_timestep",
            "Export the changes between two snapshots as questions.",
        ),
        "describe": ("kgedit.cli.timesteps:describe", "Count the contents of a timestep or a file of edits."),
        "audit": ("kgedit.cli.timesteps:audit", "Check a file of edits against two snapshots."),
        "verbalize": ("kgedit.cli.verbalize:verbalize", "Reword a timestep's questions with a language model."),
        "compare-verbalizers": (
            "kgedit.cli.verbalize:compare_verbalizers",
            "Compare templates and models on the same facts.",
        ),
        "mine-templates": (
            "kgedit.cli.verbalize:mine_templates",
            "Mine cloze templates from a model's statements.",
        ),
        "build-qaedit": (
            "kgedit.cli.verbalize:build_qaedit",
            "Build edits from question-answering sets like QAEdit.",
        ),
    },
    "Editing": {
        "run-edit": ("kgedit.cli.runs:run_edit", "Edit a model, and evaluate it before and after."),
        "sweep": ("kgedit.cli.runs:sweep", "Run a grid of runs, with one report."),
        "methods": ("kgedit.cli.configs:methods", "List the editing methods."),
        "models": ("kgedit.cli.configs:models", "List the models that need no download."),
        "presets": ("kgedit.cli.configs:presets", "List the presets: named ways to evaluate a model."),
        "configs": ("kgedit.cli.configs:configs", "List, copy and check hyperparameter files."),
        "stats": ("kgedit.cli.model_preparation:stats", "Build the statistics of ROME, MEMIT and AlphaEdit."),
        "teach": (
            "kgedit.cli.model_preparation:teach",
            "Fine-tune MODEL on the facts of a timestep's older snapshot until it answers them.",
        ),
        "trace": ("kgedit.cli.model_preparation:trace", "Find the layers at which MODEL recalls facts."),
        "memory": ("kgedit.cli.memory:memory", "Keep a deployed model current with a file of facts."),
    },
    "Results": {
        "report": ("kgedit.cli.results:report", "Compare finished runs in a table and sentences."),
        "view": ("kgedit.cli.results:view", "Open the page of a run, or of several side by side."),
        "score": ("kgedit.cli.results:score", "Score stored answers by further metrics."),
        "publish": ("kgedit.cli.results:publish", "Write timesteps as a dataset that others can load."),
        "submit": ("kgedit.cli.results:submit", "Check a run and submit it to a board."),
        "leaderboard": ("kgedit.cli.results:leaderboard", "Rank comparable runs."),
    },
}
"""Heading -> command -> where it is, and the first sentence of its help, so that the list imports no command."""

COMMANDS: Registry[click.Command] = Registry(
    "command",
    {name: where for commands in COMMAND_TABLE.values() for name, (where, _) in commands.items()},
)


_OF_THE_USERS_FILES = frozenset(
    (
        *(errno.EACCES, errno.EDQUOT, errno.EEXIST, errno.EISDIR, errno.ENAMETOOLONG, errno.ENOENT, errno.ENOSPC),
        *(errno.ENOTDIR, errno.EPERM, errno.EROFS),
    )
)
"""System errors that a user can fix if they name a file."""

_OF_WRITING = frozenset((errno.EDQUOT, errno.ENOSPC))
"""System errors of a write, which name no file."""


_LOUDNESS = frozenset(("-q", "--quiet", "-v", "--verbose"))
"""Options of the group that are also accepted after the command's name; no command may have one of these names."""


class _Commands(CommandGroup):
    """Loads commands from COMMANDS; turns errors that the user can fix into one message and exit code 1."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        for heading, commands in COMMAND_TABLE.items():
            with formatter.section(heading):
                width = max(map(len, COMMANDS))
                formatter.write_dl([(f"{name:{width}}", summary) for name, (_, summary) in commands.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        own = [
            CompletionItem(name, help=summary)
            for commands in COMMAND_TABLE.values()
            for name, (_, summary) in commands.items()
            if name.startswith(incomplete)
        ]
        return [*own, *click.Command.shell_complete(self, ctx, incomplete)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        return COMMANDS.get(cmd_name)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        for argument in args:
            if any("\ud800" <= letter <= "\udfff" for letter in argument):
                encoding = sys.getfilesystemencoding()
                advice = "Rename the file or folder." if encoding == "utf-8" else "Set PYTHONUTF8=1."
                raise click.UsageError(f"The argument {argument!a} is not {encoding}. {advice}", ctx)
        try:
            return super().parse_args(ctx, _with_loudness_first(args))
        except OSError as error:  # --help and --version print while arguments are parsed
            if error.errno not in _OF_WRITING:
                raise
            raise _unwritable(error) from error

    def invoke(self, ctx: click.Context) -> object:
        _print_any_letter()
        with shown_by_command():
            return self._invoke(ctx)

    def _invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except KgeditError as error:
            if ctx.params["verbose"]:
                traceback.print_exc()
            raise click.ClickException(visible(str(error), keep="\n\t")) from error
        except ModuleNotFoundError as error:
            extra = extra_of(error.name)
            if error.name is None or extra is None:
                raise
            raise click.ClickException(str(MissingExtraError(error.name, extra))) from error
        except (KeyboardInterrupt, RuntimeError) as error:
            if not is_interrupt(error):
                raise
            say("Interrupted.")
            ctx.exit(EXIT_CODE)
        except Exception as error:
            if isinstance(error, OSError) and error.errno in _OF_THE_USERS_FILES and error.filename is not None:
                advice = "Check the path, its permissions and the free space of its disk."
                raise click.ClickException(visible(f"{error.filename}: {error.strerror}. {advice}")) from error
            if isinstance(error, OSError) and error.errno in _OF_WRITING:
                if ctx.params["verbose"]:
                    traceback.print_exc()
                raise _unwritable(error) from error
            if not is_undecodable(error):
                raise
            raise click.ClickException(visible(about_undecodable(error), keep="\n\t")) from error


def _with_loudness_first(args: list[str]) -> list[str]:
    """Move -q and -v before the command, so that they are options of all commands."""
    ends = args.index("--") if "--" in args else len(args)
    first = [word for word in args[:ends] if word in _LOUDNESS]
    return [*first, *(word for word in args[:ends] if word not in _LOUDNESS), *args[ends:]]


def _unwritable(error: OSError) -> click.ClickException:
    """The message for an error of _OF_WRITING."""
    _discard_unwritten()
    advice = "Check the free space of its disk."
    return click.ClickException(f"Standard output or a file cannot be written: {error.strerror}. {advice}")


def _discard_unwritten() -> None:
    """Discard the buffer of standard output if it cannot be written, which Python would try again at exit."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        try:
            sys.stdout.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _print_any_letter() -> None:
    """Print characters that the terminal cannot encode as escapes, which JSON can read, instead of failing midway."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.encoding.lower() not in ("utf-8", "utf8"):
        sys.stdout.reconfigure(errors="backslashreplace")


@click.group(
    cls=_Commands,
    epilog=examples("kgedit write-sample sample", "kgedit load-dump sample/20210104.json.gz --date 2021-01-04"),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="kgedit")
@click.option("-q", "--quiet", is_flag=True, help="Hide messages and progress. Accepted before or after any command.")
@click.option("-v", "--verbose", is_flag=True,
              help="Show log messages of kgedit and its libraries, and where an error occurred. Accepted "
              "before or after any command.")  # fmt: skip
def main(*, quiet: bool, verbose: bool) -> None:
    """Turn Wikidata's own history into the test and the cure for stale language models.

    In this order: load-dump (snapshots into a time-versioned graph), query and browse (what changed), export-timestep
    (questions), run-edit (an edited model), report (scores).
    """
    set_quiet(quiet)
    if verbose:
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s", stream=sys.stderr)
