"""Memories of facts as files: builds them from timesteps, snapshots or a graph, and queries and serves them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from kgedit.errors import KgeditError
from kgedit.extras import names_extra
from kgedit.graph_memory.building import BuiltMemory, MemoryBuilder, open_memory
from kgedit.graph_memory.dates import period_of
from kgedit.graph_memory.findings import Search
from kgedit.graph_memory.graph_memory import GraphMemory
from kgedit.graph_memory.intervals import Learned
from kgedit.graph_memory.memory_file import read_memory_file
from kgedit.graph_memory.updating import MemoryDifference, difference, replace_memory
from kgedit.records.steps import step
from kgedit.timesteps.timestep import Timestep

if TYPE_CHECKING:
    import uvicorn


@names_extra
def build_memory(
    out: Path,
    *,
    timesteps: Sequence[str | Path] = (),
    home: Path | None = None,
    graph: Path | None = None,
    base: Path | None = None,
    as_of: date | None = None,
    properties: Sequence[str] = (),
    overwrite: bool = False,
) -> tuple[BuiltMemory, Learned | None]:
    """Build a memory from all facts of the sources; the same sources give the same bytes.

    Args:
        out: File to write.
        timesteps: Folders, names in the home, or dates (2021-01-04..2023-02-27) of timesteps, added in the order of
            their newer snapshots.
        home: Home whose snapshots' facts are added, from the store.
        graph: Home whose graph's facts are added.
        base: Existing memory to add to.
        as_of: Day for which the facts of `home` or `graph` are read; None means the newest snapshot.
        properties: Properties to which the facts of `home` or `graph` are restricted.
        overwrite: Whether to replace an existing file.

    Returns:
        The memory, and the outcome for the facts of `home` or `graph`.

    Raises:
        KgeditError: if there is no source, a source cannot be read, or the file exists.
    """
    if not (timesteps or home or graph):
        raise KgeditError("A memory needs a source. Give --timestep FOLDER, --home or --graph.")
    if home and graph:
        raise KgeditError("The graph is made from the snapshots: give --home or --graph, and not both.")
    if not (home or graph) and (as_of or properties):
        raise KgeditError("--as-of and --property choose facts of --home or --graph; a timestep is learned whole.")
    builder, learned = MemoryBuilder(base), None
    total = len(timesteps) + 2
    step("learning facts", 0, total)
    if home:
        learned = builder.add_snapshots(home, as_of=as_of, properties=properties)
    if graph:
        learned = _add_graph(builder, graph, as_of, properties)
    opened = [Timestep.open(folder) for folder in timesteps]
    for done, timestep in enumerate(sorted(opened, key=lambda one: one.name.split("_")[1::-1]), start=1):
        step(f"learning {timestep.name}", done, total)
        builder.add_timestep(timestep)
    step("writing", total - 1, total)
    return builder.write(out, overwrite=overwrite), learned


@names_extra
def update_memory(
    path: Path,
    *,
    home: Path,
    dump: Path | None = None,
    day: date | None = None,
    as_of: date | None = None,
    properties: Sequence[str] = (),
    dry_run: bool = False,
) -> tuple[BuiltMemory, MemoryDifference | None]:
    """Rebuild a memory from the snapshots of a home, after loading one more; the previous file is kept beside it.

    Args:
        path: Memory file to replace.
        home: Home whose snapshots' facts it has.
        dump: Dump to load first, of all items or of a list (`fetch-items`); None means that the home has all snapshots.
            A dump that is loaded already is not read again.
        day: Day of the dump.
        as_of: See `build_memory`.
        properties: See `build_memory`; empty means those of the memory's newest source of snapshots.
        dry_run: Whether the memory is only compared and not replaced.

    Returns:
        The new memory, and what changed; None if its sources are those of the memory, which then stays.

    Raises:
        KgeditError: if the memory is missing or a source cannot be read. The memory is not changed then.
    """
    earlier = read_memory_file(path)
    if dump is not None:
        _load_dump(home, dump, day)
    of_snapshots = [one for one in earlier.manifest["sources"] if one.get("kind") == "snapshots"]
    kept = tuple(of_snapshots[-1]["properties"]) if of_snapshots and not properties else tuple(properties)
    fresh = path.with_name(f".{path.name}.fresh")
    try:
        built, _ = build_memory(fresh, home=home, as_of=as_of, properties=kept, overwrite=True)
        if built.manifest["signature"] == earlier.manifest.get("signature"):
            return BuiltMemory(path, dict(earlier.manifest), earlier.sha256), None
        changed = difference(earlier.tables, read_memory_file(fresh).tables)
        if not dry_run:
            replace_memory(path, fresh)
        return BuiltMemory(path, built.manifest, built.sha256), changed
    finally:
        fresh.unlink(missing_ok=True)


def _load_dump(home: Path, dump: Path, day: date | None) -> None:
    from kgedit.verbs.load_dump import DumpOptions
    from kgedit.verbs.loading import is_loaded, load_dump

    if day is None:
        raise KgeditError("A dump needs its day. Give --date YYYY-MM-DD.")
    if not is_loaded(home, dump, day, options=DumpOptions()):
        load_dump(home, dump, day, options=DumpOptions(), steps=lambda *_: lambda *_: None)


def _add_graph(builder: MemoryBuilder, home: Path, as_of: date | None, properties: Sequence[str]) -> Learned:
    from kgedit.graph.finishing import open_finished
    from kgedit.graph_memory.graph_store import read_graph_facts

    with open_finished(home) as graph:
        held = read_graph_facts(graph, as_of=as_of, properties=properties)
        # The managed server uses another port each time, and the same sources must give the same bytes.
        address = "managed" if graph.address.managed else graph.address.uri
        return builder.add_graph_facts(held, address=address, properties=properties)


@names_extra
def load_memory(path: Path, *, embedder: str = "all-minilm-l6-v2", device: str = "cpu") -> GraphMemory:
    """Load a memory for queries.

    Args:
        path: File written by `build_memory`.
        embedder: Name or folder (kgedit.llm.embeddings.load_embedder); its gate is used if it has one.
        device: Device of the embedder.

    Raises:
        KgeditError: if the file is not a memory.
    """
    return open_memory(path, embedder=embedder, device=device)


@names_extra
def memory_server(
    path: Path,
    *,
    upstream: str,
    host: str = "127.0.0.1",
    port: int = 8090,
    allowed_hosts: Sequence[str] = (),
    layout: str = "fenced",
    label_length: int = 200,
    learned_until: str = "",
    explain: bool = False,
    read_seconds: float | None = None,
    search: Search | None = None,
    embedder: str = "all-minilm-l6-v2",
    device: str = "cpu",
) -> uvicorn.Server:
    """Create a proxy in front of a model's server: `run()` runs it until a signal, `serve()` within your event loop.

    Args:
        path: File written by `build_memory`; reloaded whenever it changes.
        upstream: Address of the OpenAI-compatible server; a user and password in it are sent as Basic authorization.
        host: Address to listen at.
        port: Port; 0 selects a free one.
        allowed_hosts: Host names that clients may use for the proxy, in addition to `host`, loopback names and IP
            addresses. Pages of these hosts may also send requests.
        layout: "fenced" (JSON between marks) or "pairs" (question and answer).
        label_length: Maximum number of characters of a fact's question or answer.
        learned_until: ISO date at which the model's training data ends, of any precision; values that began later are
            marked as newer. "" marks none.
        explain: Whether every response contains the facts that were added.
        read_seconds: Read timeout of the upstream in seconds; None disables it.
        search: Settings of the search.
        embedder: See `load_memory`.
        device: Device of the embedder.

    Raises:
        KgeditError: if the file is not a memory, or a setting is invalid.
    """
    from kgedit.proxy.placing import LAYOUTS, Placing
    from kgedit.proxy.proxy import ProxySettings
    from kgedit.proxy.server import make_server

    if learned_until and period_of(learned_until) is None:
        raise KgeditError(f"'{learned_until}' is no date. Give YYYY, YYYY-MM or YYYY-MM-DD.")
    chosen = next((name for name in LAYOUTS if name == layout), None)
    if chosen is None:
        raise KgeditError(f"There is no layout '{layout}'. Choose one of {', '.join(LAYOUTS)}.")
    settings = ProxySettings(
        upstream=upstream,
        placing=Placing(layout=chosen, label_length=label_length, learned_until=learned_until),
        explain=explain,
        read_seconds=read_seconds,
        hosts=tuple(allowed_hosts),
    )
    return make_server(
        path, settings, host=host, port=port, search=search or Search(), embedder=embedder, device=device
    )
