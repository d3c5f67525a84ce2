"""``kgedit memory``: facts in a file, queried in words, and prepended to a model's questions by a proxy."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kgedit.cli import completion
from kgedit.cli.cells import visible
from kgedit.cli.command_groups import CommandGroup
from kgedit.cli.dates import DATE
from kgedit.cli.examples import examples
from kgedit.cli.formats import print_json, print_result, result_format
from kgedit.cli.progress import say, steps
from kgedit.cli.timesteps import TIMESTEP, TIMESTEP_FORMS
from kgedit.errors import KgeditError

if TYPE_CHECKING:
    from kgedit.graph_memory.asking import MemoryAnswer
    from kgedit.graph_memory.updating import MemoryDifference

_FILE = click.Path(path_type=Path, dir_okay=False)
_MOST_SHOWN = 20

_SEARCH = (
    click.option("--embedder", default="all-minilm-l6-v2", show_default=True,
                 help="Embedder that compares questions: all-minilm-l6-v2, character-ngrams (no model), or a folder."),
    click.option("--device", default="cpu", show_default=True, help="Device of the embedder."),
    click.option("--k", "facts", default=8, show_default=True, type=click.IntRange(1, 64), help="Maximum facts."),
    click.option("--hops", default=2, show_default=True, type=click.IntRange(1, 4), help="Maximum hops."),
    click.option("--gate", default=0.5, show_default=True, type=click.FloatRange(0, 1),
                 help="Minimum probability that facts match the question; 0 accepts everything."),
)  # fmt: skip


def _search_options(command: Any) -> Any:
    for option in reversed(_SEARCH):
        command = option(command)
    return command


@click.group(cls=CommandGroup, epilog=examples("kgedit memory build --home --out facts.kgmemory"))
def memory() -> None:
    """Keep a deployed model current with a file of facts.

    Facts that a question needs are prepended to it; no weights change. build writes the file, ask shows the facts for a
    question, serve answers in place of the model's server.
    """


@memory.command(
    epilog=examples(
        "kgedit memory build --timestep kgedit-data/timesteps/20210104_20230227 --out facts.kgmemory",
        "kgedit memory build --home --as-of 2023-02-27 --out facts.kgmemory --overwrite",
        "kgedit memory build --base facts.kgmemory --timestep benchmark/20230227_20240603 --out new.kgmemory",
    )
)
@click.option("--timestep", "timesteps", multiple=True, metavar=TIMESTEP, shell_complete=completion.timesteps,
              help=f"Exported timestep: {TIMESTEP_FORMS}; repeat.")  # fmt: skip
@click.option("--home", "from_home", is_flag=True, help="The facts of the loaded snapshots, from the store.")
@click.option("--graph", "from_graph", is_flag=True, help="The facts of the graph in Neo4j.")
@click.option("--as-of", **DATE, help="Facts of --home or --graph as of this day. Default: the newest snapshot.")
@click.option("--property", "properties", multiple=True, metavar="PID", shell_complete=completion.properties,
              help="Only facts of this property, of --home or --graph; repeat.")  # fmt: skip
@click.option("--base", type=_FILE, help="Existing memory to add the sources to.")
@click.option("--out", required=True, type=_FILE, help="File to write.")
@click.option("--overwrite", is_flag=True, help="Replace the file.")
@result_format
def build(
    timesteps: tuple[str, ...],
    from_home: bool,
    from_graph: bool,
    as_of: datetime.datetime | None,
    properties: tuple[str, ...],
    base: Path | None,
    out: Path,
    overwrite: bool,
) -> None:
    """Write a memory of facts.

    Its sources are timesteps (their edits), the snapshots of $KGEDIT_HOME, or the graph: facts between items, including
    those that have ended, so that questions about earlier dates can be answered. The same sources give the same bytes.
    The file is replaced atomically, so a server can read it at any time.
    """
    from kgedit.resources import home
    from kgedit.verbs.remembering import build_memory

    with steps("Building"):
        built, learned = build_memory(
            out,
            timesteps=timesteps,
            home=home() if from_home else None,
            graph=home() if from_graph else None,
            base=base,
            as_of=None if as_of is None else as_of.date(),
            properties=properties,
            overwrite=overwrite,
        )
    counts = built.manifest["counts"]
    say(
        f"{built.path}: {counts['facts']:,} facts of {counts['relations']:,} relations, {counts['ended']:,} of them "
        f"ended; sha256 {built.sha256[:12]}"
    )
    left_out = learned.left_out if learned else {}
    for reason, count in left_out.items():
        say(f"  left out: {count:,}, {reason}")
    print_result({"path": built.path, "sha256": built.sha256, "counts": counts, "left_out": left_out})


@memory.command(
    epilog=examples(
        "kgedit memory update facts.kgmemory",
        "kgedit memory update facts.kgmemory --dump 20240603.json.gz --date 2024-06-03",
        "kgedit memory update facts.kgmemory --rollback",
    )
)
@click.argument("file", type=_FILE, metavar="MEMORY")
@click.option("--dump", type=_FILE, help="Load this dump first, of all items or of a list (fetch-items).")
@click.option("--date", "day", **DATE, help="Day of the dump.")
@click.option("--as-of", **DATE, help="Facts as of this day. Default: the newest snapshot.")
@click.option("--dry-run", is_flag=True, help="Only report what would change.")
@click.option("--rollback", is_flag=True, help="Swap MEMORY and its previous version.")
@result_format
def update(
    file: Path,
    dump: Path | None,
    day: datetime.datetime | None,
    as_of: datetime.datetime | None,
    dry_run: bool,
    rollback: bool,
) -> None:
    """Rebuild a memory from newer snapshots, and report what changed.

    The previous file is kept as MEMORY.previous. A memory whose sources are the same is not changed. A proxy loads the
    new file within a second.
    """
    from kgedit.graph_memory.updating import roll_back
    from kgedit.resources import home
    from kgedit.verbs.remembering import update_memory

    if rollback:
        sha256 = roll_back(file)
        say(f"{file}: the previous version is in place again; sha256 {sha256[:12]}")
        print_result({"path": file, "sha256": sha256})
        return
    with steps("Updating"):
        built, changed = update_memory(
            file,
            home=home(),
            dump=dump,
            day=None if day is None else day.date(),
            as_of=None if as_of is None else as_of.date(),
            dry_run=dry_run,
        )
    signature = built.manifest.get("signature", "")
    if changed is None:
        say(f"{file}: nothing to do, its sources are the same (signature {signature[:12]})")
    else:
        _say_changes(file, changed, dry_run=dry_run)
    print_result({"path": file, "sha256": built.sha256, "signature": signature,
                  "changes": None if changed is None else changed.record()})  # fmt: skip


def _say_changes(file: Path, changed: MemoryDifference, *, dry_run: bool) -> None:
    counts = f"{len(changed.begun):,} begun, {len(changed.ended):,} ended, {len(changed.gone):,} gone"
    say(f"{file}{' (not replaced)' if dry_run else ''}: {counts}, {changed.unchanged:,} unchanged")
    for mark, lines in (("+", changed.begun), ("-", changed.ended), ("?", changed.gone)):
        for line in lines[:_MOST_SHOWN]:
            say(visible(f"  {mark} {line}"))
        if len(lines) > _MOST_SHOWN:
            say(f"  {mark} … and {len(lines) - _MOST_SHOWN:,} more: --format json lists all")


@memory.command(
    epilog=examples(
        'kgedit memory ask facts.kgmemory "Who is the head of government of Norway?"',
        'kgedit memory ask facts.kgmemory "Who is the chancellor of Germany?" --as-of 2021-06 --format json',
    )
)
@click.argument("file", type=_FILE, metavar="MEMORY")
@click.argument("question")
@click.option(
    "--as-of",
    default="",
    metavar="DATE",
    help="Date for which the facts must hold: YYYY, YYYY-MM or YYYY-MM-DD. Default: now.",
)
@click.option("--format", "form", type=click.Choice(("text", "json")), default="text", show_default=True)
@_search_options
def ask(
    file: Path,
    question: str,
    as_of: str,
    form: str,
    embedder: str,
    device: str,
    facts: int,
    hops: int,
    gate: float,
) -> None:
    """Print a question's facts, hop by hop, or why there are none."""
    from kgedit.graph_memory.asking import ask_memory
    from kgedit.graph_memory.dates import period_of
    from kgedit.graph_memory.findings import Search
    from kgedit.verbs.remembering import load_memory

    if as_of and period_of(as_of) is None:
        raise KgeditError(f"'{as_of}' is no date. Give YYYY, YYYY-MM or YYYY-MM-DD.")
    search = Search(k=facts, hops=hops, gate=gate)
    answer = ask_memory(load_memory(file, embedder=embedder, device=device), question, search, as_of=as_of)
    if form == "json":
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


@memory.command(
    epilog=examples(
        "kgedit memory serve facts.kgmemory --upstream http://127.0.0.1:8000/v1",
        "kgedit memory serve facts.kgmemory --upstream https://api.openai.com/v1 --port 9000",
    )
)
@click.argument("file", type=_FILE, metavar="MEMORY")
@click.option("--upstream", required=True, metavar="URL", envvar="KGEDIT_UPSTREAM", show_envvar=True,
              help="OpenAI-compatible server of the model, with /v1.")  # fmt: skip
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at.")
@click.option(
    "--port", default=8090, show_default=True, type=click.IntRange(0, 65535), help="Port; 0 selects a free one."
)
@click.option("--allowed-host", "allowed_hosts", multiple=True, metavar="NAME",
              help="Allow this host name too; repeat. IP addresses and localhost are always allowed.")  # fmt: skip
@click.option("--layout", default="fenced", show_default=True, type=click.Choice(("fenced", "pairs")),
              help="Facts as JSON between marks, or as question and answer for base models.")  # fmt: skip
@click.option("--max-label", default=200, show_default=True, type=click.IntRange(16, 4000),
              help="Maximum number of characters of a fact's question or answer.")  # fmt: skip
@click.option(
    "--learned-until",
    default="",
    metavar="DATE",
    help="Day at which the model's training data ends: later values are marked as newer. Default: no marks.",
)
@click.option(
    "--explain",
    is_flag=True,
    help="Add the facts to every response. A request asks for it with the header x-kgedit-explain: 1.",
)
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True),
              help="Read timeout of the upstream in seconds. Default: as long as the client waits.")  # fmt: skip
@_search_options
def serve(
    file: Path,
    upstream: str,
    host: str,
    port: int,
    allowed_hosts: tuple[str, ...],
    layout: str,
    max_label: int,
    learned_until: str,
    explain: bool,
    timeout: float | None,
    embedder: str,
    device: str,
    facts: int,
    hops: int,
    gate: float,
) -> None:
    """Prepend facts to a model's questions, as a proxy.

    It prepends facts to the questions of /v1/chat/completions, /v1/responses and /v1/completions, and of Ollama's
    /api/chat and /api/generate, and forwards everything else unchanged: models, embeddings, tool calls, streams,
    errors, the client's key. Requests under an unknown
    host name and from pages of other sites are rejected. A new MEMORY file is loaded within a second (or on SIGHUP)
    without dropping a request. /health and /metrics (Prometheus) report its state. Stop it with Ctrl-C or SIGTERM,
    which completes requests in progress first.
    """
    from kgedit.graph_memory.findings import Search
    from kgedit.verbs.remembering import memory_server

    if host not in ("127.0.0.1", "::1", "localhost"):
        say(
            f"Warning: {host} is no address of this machine alone. Anyone who reaches it can read the memory's facts "
            "through the model and see /health; the proxy asks for no password of its own and speaks no TLS."
        )
    server = memory_server(
        file,
        upstream=upstream,
        host=host,
        port=port,
        allowed_hosts=allowed_hosts,
        layout=layout,
        label_length=max_label,
        learned_until=learned_until,
        explain=explain,
        read_seconds=timeout,
        search=Search(k=facts, hops=hops, gate=gate),
        embedder=embedder,
        device=device,
    )
    server.run()
