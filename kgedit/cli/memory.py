"""``kgedit memory``: facts in a file, queried in words, and prepended to a model's questions by a proxy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from kgedit.cli.command_groups import CommandGroup, examples
from kgedit.cli.formats import print_json, print_result, result_format, visible, wants_json
from kgedit.cli.progress import say, steps
from kgedit.cli.verb_command import Given, verb_command
from kgedit.resources import home
from kgedit.verbs.memory import AskMemory, BuildMemory, ServeMemory, UpdateMemory

if TYPE_CHECKING:
    from kgedit.graph_memory.asking import MemoryAnswer
    from kgedit.graph_memory.memory_file import MemoryDifference

_MOST_SHOWN = 20


@click.group(cls=CommandGroup, epilog=examples("kgedit memory build --home --out facts.kgmemory"))
def memory() -> None:
    """Keep a deployed model current with a file of facts.

    Facts that a question needs are prepended to it; no weights change. build writes the file, ask shows the facts for a
    question, serve answers in place of the model's server.
    """


_SOURCES = (
    click.option("--home", "from_home", is_flag=True, help="The facts of the loaded snapshots, from the store."),
    click.option("--graph", "from_graph", is_flag=True, help="The facts of the graph in Neo4j."),
)


@verb_command(
    BuildMemory,
    name="build",
    group=memory,
    several=True,
    more=(*_SOURCES, result_format),
    examples=(
        "kgedit memory build --timestep 20210104_20230227 --out facts.kgmemory",
        "kgedit memory build --home --as-of 2023-02-27 --out facts.kgmemory --overwrite",
        "kgedit memory build --base facts.kgmemory --timestep 20230227_20240603 --out new.kgmemory",
    ),
)
def build(given: Given, *, from_home: bool, from_graph: bool) -> None:
    """Build the memory, and print its counts."""
    sources = {"home": home() if from_home else None, "graph": home() if from_graph else None}
    with steps("Building"):
        built, learned = given.make(BuildMemory, **sources).run()
    counts = built.manifest["counts"]
    say(
        f"{built.path}: {counts['facts']:,} facts of {counts['relations']:,} relations, {counts['ended']:,} of them "
        f"ended; sha256 {built.sha256[:12]}"
    )
    left_out = learned.left_out if learned else {}
    for reason, count in left_out.items():
        say(f"  left out: {count:,}, {reason}")
    print_result({"path": built.path, "sha256": built.sha256, "counts": counts, "left_out": left_out})


@verb_command(
    UpdateMemory,
    name="update",
    group=memory,
    several=True,
    more=(click.option("--rollback", is_flag=True, help="Swap MEMORY and its previous version."), result_format),
    examples=(
        "kgedit memory update facts.kgmemory",
        "kgedit memory update facts.kgmemory --dump 20240603.json.gz --date 2024-06-03",
        "kgedit memory update facts.kgmemory --rollback",
    ),
)
def update(given: Given, *, rollback: bool) -> None:
    """Rebuild it and print what changed, or swap it with its previous version."""
    from kgedit.graph_memory.memory_file import roll_back

    file, dry_run = given.values["path"], given.values["dry_run"]
    if rollback:
        _check_nothing_else(given)
        sha256 = roll_back(file)
        say(f"{file}: the previous version is in place again; sha256 {sha256[:12]}")
        print_result({"path": file, "sha256": sha256})
        return
    with steps("Updating"):
        built, changed = given.make(UpdateMemory, home=home()).run()
    signature = built.manifest.get("signature", "")
    if changed is None:
        text = f"{file}: nothing to do, its sources are the same (signature {signature[:12]})"
    else:
        text = "\n".join(_lines_of(changed, f"{file}{' (not replaced)' if dry_run else ''}"))
    print_result({"path": file, "sha256": built.sha256, "signature": signature,
                  "changes": None if changed is None else changed.record()}, text=text)  # fmt: skip


def _check_nothing_else(given: Given) -> None:
    """Refuse options of an update, which a rollback would ignore."""
    params = [param for param in click.get_current_context().command.params if isinstance(param, click.Option)]
    others = [param.opts[0] for param in params if given.values.get(param.name or "")]
    if others:
        raise click.UsageError(f"--rollback swaps MEMORY and its previous version. Leave {' and '.join(others)} out.")


def _lines_of(changed: MemoryDifference, memory: str) -> Iterator[str]:
    counts = f"{len(changed.begun):,} begun, {len(changed.ended):,} ended, {len(changed.gone):,} gone"
    yield f"{memory}: {counts}, {changed.unchanged:,} unchanged"
    for mark, lines in (("+", changed.begun), ("-", changed.ended), ("?", changed.gone)):
        yield from (visible(f"  {mark} {line}") for line in lines[:_MOST_SHOWN])
        if len(lines) > _MOST_SHOWN:
            yield f"  {mark} … and {len(lines) - _MOST_SHOWN:,} more: --format json lists all"


@verb_command(
    AskMemory,
    name="ask",
    group=memory,
    more=(result_format,),
    examples=(
        'kgedit memory ask facts.kgmemory "Who is the head of government of Norway?"',
        'kgedit memory ask facts.kgmemory "Who is the chancellor of Germany?" --as-of 2021-06 --format json',
    ),
)
def ask(given: AskMemory) -> None:
    """Print the facts."""
    answer = given.run()
    if wants_json():
        print_json(answer.record())
    else:
        _print_answer(answer)


def _print_answer(answer: MemoryAnswer) -> None:
    if answer.why_nothing:
        click.echo(visible(f"Nothing: {answer.why_nothing}."))
        return
    for number, path in enumerate(answer.finding.paths, start=1):
        click.echo(f"path {number}, score {path.score:.2f}")
        for hop, row in enumerate(path.rows, start=1):
            click.echo(visible(f"  hop {hop}: {row.question} {row.answer}"))
            for value in row.values:
                click.echo(visible(f"         {_dates(value.since, value.until)}{value.case_id}"))
    click.echo(f"probability {answer.finding.probability:.2f}, gate {answer.gate:g}", err=True)


def _dates(since: str, until: str) -> str:
    parts = [f"since {since}" if since else "", f"ended {until}" if until else ""]
    return " ".join(filter(None, parts)) + ", " if any(parts) else ""


@verb_command(
    ServeMemory,
    name="serve",
    group=memory,
    examples=(
        "kgedit memory serve facts.kgmemory --upstream http://127.0.0.1:8000/v1",
        "kgedit memory serve facts.kgmemory --upstream https://api.openai.com/v1 --port 9000",
    ),
)
def serve(given: ServeMemory) -> None:
    """Run the proxy until it is stopped."""
    if given.host not in ("127.0.0.1", "::1", "localhost"):
        say(
            f"Warning: {given.host} is no address of this machine alone. Anyone who reaches it can read the memory's "
            "facts through the model and see /health; the proxy itself requires no password and has no TLS."
        )
    given.run().run()
