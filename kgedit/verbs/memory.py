"""Memories of facts as files: builds them from timesteps, snapshots or a graph, and queries and serves them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Le

from kgedit.errors import KgeditError, names_extra
from kgedit.progress import step
from kgedit.store.files import working_folder
from kgedit.verbs.load_dump import DumpOptions, is_loaded, load_dump
from kgedit.verbs.options import (
    AnyFile,
    Day,
    ExistingFile,
    ManyPaths,
    Names,
    OneOf,
    Verb,
    argument,
    flag,
    function_of,
    options,
    python_only,
)
from kgedit.verbs.shared_options import TIMESTEP_FORMS

if TYPE_CHECKING:
    import uvicorn

    from kgedit.graph_memory.asking import MemoryAnswer
    from kgedit.graph_memory.building import BuiltMemory, Learned, MemoryBuilder
    from kgedit.graph_memory.graph_memory import GraphMemory
    from kgedit.graph_memory.memory_file import MemoryDifference
    from kgedit.graph_memory.retrieval import Search


@options
class FactsOptions:
    """Facts of snapshots or of a graph."""

    as_of: Day | None = flag(
        default=None, help="Facts of the snapshots or the graph as of this day. Default: the newest snapshot."
    )
    properties: Names = flag(
        "--property",
        default=(),
        metavar="PID",
        complete="properties",
        help="Only facts of this property, of the snapshots or the graph; repeat.",
    )

    @property
    def as_of_day(self) -> date | None:
        """The day of `as_of`."""
        return _day(self.as_of)


@options
class BuildMemory(FactsOptions, Verb["tuple[BuiltMemory, Learned | None]"]):
    """Write a memory of facts.

    Its sources are timesteps (their edits), the snapshots of $KGEDIT_HOME, or the graph: facts between items, including
    those that have ended, so that questions about earlier dates can be answered. The same sources give the same bytes.
    The file is replaced atomically, so a server can read it at any time.
    """

    out: AnyFile = flag(kw_only=False, group="Output", help="File to write.")
    timesteps: ManyPaths = flag(
        "--timestep",
        default=(),
        metavar="TIMESTEP",
        complete="timesteps",
        help=f"Exported timestep: {TIMESTEP_FORMS}; repeat. They are added in the order of their newer snapshots.",
    )
    home: Path | None = python_only(default=None, help="Home whose snapshots' facts are added, from the store.")
    graph: Path | None = python_only(default=None, help="Home whose graph's facts are added.")
    base: AnyFile | None = flag(default=None, help="Existing memory to add the sources to.")
    language: str | None = flag(
        default=None,
        metavar="CODE",
        help="Language of questions and labels: en, de, fr or es. Load the snapshots with the same --language. "
        "Default: that of --base, or en.",
    )
    overwrite: bool = flag(default=False, group="Output", help="Replace the file.")

    def run(self) -> tuple[BuiltMemory, Learned | None]:
        """Build the memory.

        Returns:
            The memory, and the outcome for the facts of `home` or `graph`.

        Raises:
            KgeditError: if there is no source, a source cannot be read, or the file exists.
        """
        from kgedit.graph_memory.building import MemoryBuilder
        from kgedit.timesteps.timestep import Timestep

        if not (self.timesteps or self.home or self.graph):
            raise KgeditError("A memory needs a source. Give --timestep FOLDER, --home or --graph.")
        if self.home and self.graph:
            raise KgeditError("The graph is made from the snapshots: give --home or --graph, and not both.")
        if not (self.home or self.graph) and (self.as_of or self.properties):
            raise KgeditError("--as-of and --property choose facts of --home or --graph; a timestep is learned whole.")
        base = None if self.base is None else Path(self.base)
        builder, learned = MemoryBuilder(base, language=self.language), None
        total = len(self.timesteps) + 2
        step("learning facts", 0, total)
        properties = tuple(self.properties)
        if self.home:
            learned = builder.add_snapshots(self.home, as_of=self.as_of_day, properties=properties)
        if self.graph:
            learned = _add_graph(builder, self.graph, self.as_of_day, properties)
        opened = [Timestep.open(folder) for folder in self.timesteps]
        for done, timestep in enumerate(sorted(opened, key=lambda one: one.name.split("_")[1::-1]), start=1):
            step(f"learning {timestep.name}", done, total)
            builder.add_timestep(timestep)
        step("writing", total - 1, total)
        return builder.write(Path(self.out), overwrite=self.overwrite), learned


build_memory = function_of(BuildMemory)


@options
class UpdateMemory(FactsOptions, Verb["tuple[BuiltMemory, MemoryDifference | None]"]):
    """Rebuild a memory from newer snapshots, and report what changed.

    The previous file is kept as MEMORY.previous. A memory whose sources are the same is not changed. A proxy loads the
    new file within a second.
    """

    path: AnyFile = argument(kw_only=False, metavar="MEMORY", help="Memory file to replace.")
    home: Path = python_only(help="Home whose snapshots its facts come from.")
    dump: AnyFile | None = flag(
        default=None,
        help="Load this dump first, of all items or of a list (fetch-items); one that is loaded is not read again.",
    )
    day: Day | None = flag("--date", default=None, help="Day of the dump.")
    redirects: ExistingFile | None = flag(
        default=None, help="Tab-separated file of the dump's redirects; see load-dump."
    )
    dry_run: bool = flag(
        default=False, help="Only report what would change. A dump is loaded into a temporary folder, which is deleted."
    )

    def run(self) -> tuple[BuiltMemory, MemoryDifference | None]:
        """Rebuild the memory.

        Returns:
            The new memory, and what changed; None if its sources are those of the memory, which then stays.

        Raises:
            KgeditError: if the memory is missing, is not of snapshots or a graph alone, the home lacks one of its
                snapshots, or a source cannot be read. The memory is not changed then.
        """
        from kgedit.graph_memory.building import BuiltMemory
        from kgedit.graph_memory.memory_file import difference, read_memory_file, replace_memory

        path = Path(self.path)
        earlier = read_memory_file(path)
        properties = _properties_of(path, earlier.manifest)
        _check_history(path, earlier.manifest, self.home, loading=None if self.dump is None else _day(self.day))
        language = earlier.manifest.get("language")
        fresh = path.with_name(f".{path.name}.fresh")
        try:
            with self._with_dump(language) as home:
                built, _ = build_memory(
                    fresh,
                    home=home,
                    as_of=self.as_of_day,
                    properties=tuple(self.properties) or properties,
                    language=language,
                    overwrite=True,
                )
            if built.manifest["signature"] == earlier.manifest.get("signature"):
                return BuiltMemory(path, dict(earlier.manifest), earlier.sha256), None
            changed = difference(earlier.tables, read_memory_file(fresh).tables)
            if not self.dry_run:
                replace_memory(path, fresh)
            return BuiltMemory(path, built.manifest, built.sha256), changed
        finally:
            fresh.unlink(missing_ok=True)

    @contextmanager
    def _with_dump(self, language: str | None) -> Iterator[Path]:
        """Context with a home that has the dump's snapshot: a temporary one in a dry run, so that the home stays."""
        from kgedit.store.snapshots import snapshot_folder

        if self.dump is None:
            yield self.home
            return
        day = _day(self.day)
        if day is None:
            raise KgeditError("A dump needs its day. Give --date YYYY-MM-DD.")
        is_new = not (snapshot_folder(self.home, day) / "manifest.json").is_file()
        with _trial_home(self.home) if self.dry_run and is_new else nullcontext(self.home) as home:
            languages = ("en", "mul") if language is None else (language, "en", "mul")
            chosen = DumpOptions(redirects=self.redirects, languages=languages)
            if not is_loaded(home, Path(self.dump), day, options=chosen):
                load_dump(home, Path(self.dump), day, options=chosen, steps=lambda *_: lambda *_: None)
            yield home


update_memory = function_of(UpdateMemory)


@contextmanager
def _trial_home(home: Path) -> Iterator[Path]:
    """Context with a temporary home inside another one that has its snapshots, as links."""
    from kgedit.store.disk import disk_errors
    from kgedit.store.snapshots import list_snapshots, snapshot_folder

    with disk_errors(home), working_folder(home / "dry-run") as trial:
        (trial / "snapshots").mkdir()
        for snapshot in list_snapshots(home):
            snapshot_folder(trial, snapshot.day).symlink_to(snapshot.folder.absolute())
        yield trial


def _properties_of(path: Path, manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """Properties of the snapshots or graphs that a memory was built from; empty means all.

    Raises:
        KgeditError: if it has other sources, whose facts would be lost with an update.
    """
    sources = manifest.get("sources", ())
    kinds = {source.get("kind") for source in sources}
    if "timestep" in kinds:
        raise KgeditError(
            f"{path} has facts of timesteps, which an update from snapshots would drop. Extend it: "
            f"kgedit memory build --base {path} --timestep TIMESTEP --out NEW"
        )
    if not kinds or not kinds <= {"snapshots", "graph"}:
        raise KgeditError(
            f"{path} was not built from snapshots, whose facts would replace it. Build another memory: "
            "kgedit memory build --home --out NEW"
        )
    properties = [source.get("properties", ()) for source in sources]
    return tuple(sorted(set().union(*properties))) if all(properties) else ()


def _check_history(path: Path, manifest: Mapping[str, Any], home: Path, *, loading: date | None) -> None:
    """Refuse to update a memory from a home without the snapshots that it was built from.

    The dumps' hashes are compared, so other labels or options of a load make no difference.

    Args:
        path: Memory, for the message.
        manifest: Its manifest.
        home: Home of the update.
        loading: Day that the update loads; it may be missing.

    Raises:
        KgeditError: with the snapshots that are not loaded, or were loaded from other dumps.
    """
    from kgedit.store.snapshots import list_snapshots

    sources = manifest["sources"]
    loaded = {one.name: one.manifest["source"].get("sha256") for one in list_snapshots(home)}
    built_from = {day: sha256 for source in sources for day, sha256 in _dumps_of(source).items()}
    missing = [day for day in sorted(built_from) if day not in loaded and day != str(loading)]
    other = [day for day in sorted(built_from) if day in loaded and built_from[day] not in (None, loaded[day])]
    lost = [f"{', '.join(days)} {why}" for days, why in ((missing, "not loaded"), (other, "of another dump")) if days]
    if lost:
        raise KgeditError(
            f"{path} was built from snapshots that {home} does not have ({'; '.join(lost)}). It would lose their "
            "history, so nothing was changed. Choose the home that has them with $KGEDIT_HOME, or load them: kgedit "
            f"load-dump PATH --date {(missing + other)[0]}{'' if missing else ' --overwrite'}. To build it "
            "without them, with the same --property and --language: "
            f"kgedit memory build --home --out {path} --overwrite"
        )


def _dumps_of(source: Mapping[str, Any]) -> dict[str, str | None]:
    """Days of a source's snapshots, each with the SHA-256 of its dump; None if unknown, as in sources of graphs."""
    snapshots = source.get("snapshots", {})
    if isinstance(snapshots, Mapping):
        return dict(snapshots)
    return {date.fromisoformat(str(number)).isoformat(): None for number in snapshots}


def _day(given: str | date | None) -> date | None:
    """A day as a date; the options have parsed texts already."""
    return given if given is None or isinstance(given, date) else date.fromisoformat(given)


def _add_graph(builder: MemoryBuilder, home: Path, as_of: date | None, properties: Sequence[str]) -> Learned:
    from kgedit.graph.state import open_finished
    from kgedit.graph_memory.building import read_graph_facts

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
    from kgedit.graph_memory.building import open_memory

    return open_memory(path, embedder=embedder, device=device)


@options
class SearchOptions:
    """How facts are found for a question."""

    k: Annotated[int, Le(64)] = flag(default=8, ge=1, group="Questions", help="Maximum number of facts.")
    hops: Annotated[int, Le(4)] = flag(default=4, ge=1, group="Questions", help="Maximum number of hops.")
    gate: float = flag(
        default=0.5,
        ge=0,
        le=1,
        group="Questions",
        help="Minimum probability that facts match the question; 0 accepts everything.",
    )
    embedder: str = flag(
        default="all-minilm-l6-v2",
        group="Model",
        help="Embedder that compares questions: all-minilm-l6-v2, character-ngrams (no model), or a folder.",
    )
    device: str = flag(default="cpu", group="Machine", help="Device of the embedder.")

    @property
    def search(self) -> Search:
        """Settings of the search."""
        from kgedit.graph_memory.retrieval import Search

        return Search(k=self.k, hops=self.hops, gate=self.gate)


_DATE = re.compile(r"[0-9]{4}(-[0-9]{2}){0,2}")


def _check_date(given: str) -> None:
    if given and not _is_date(given):
        raise KgeditError(f"'{given}' is no date. Give YYYY, YYYY-MM or YYYY-MM-DD.")


def _is_date(given: str) -> bool:
    """Whether a text is a year, month or day that exists, in ISO format."""
    if not _DATE.fullmatch(given):
        return False
    try:
        date.fromisoformat(given + "-01-01"[len(given) - len("YYYY") :])
    except ValueError:
        return False
    return True


@options
class AskMemory(SearchOptions, Verb["MemoryAnswer"]):
    """Print a question's facts, hop by hop, or why there are none."""

    path: AnyFile = argument(kw_only=False, metavar="MEMORY", help="Memory file.")
    question: str = argument(kw_only=False, help="The question.")
    as_of: str = flag(
        default="",
        metavar="DATE",
        help="Date for which the facts must hold: YYYY, YYYY-MM or YYYY-MM-DD. Default: now.",
    )

    def run(self) -> MemoryAnswer:
        """Find the facts of the question.

        Raises:
            KgeditError: if the file is not a memory, or the date is not one.
        """
        from kgedit.graph_memory.asking import ask_memory

        _check_date(self.as_of)
        memory = load_memory(Path(self.path), embedder=self.embedder, device=self.device)
        return ask_memory(memory, self.question, self.search, as_of=self.as_of)


@options
class ServeMemory(SearchOptions, Verb["uvicorn.Server"]):
    """Prepend facts to a model's questions, as a proxy.

    It prepends facts to the questions of /v1/chat/completions, /v1/responses and /v1/completions, and of Ollama's
    /api/chat and /api/generate, and forwards everything else unchanged: models, embeddings, tool calls, streams,
    errors, the client's key. Requests under an unknown host name and from pages of other sites are rejected. A new
    MEMORY file is loaded within a second (or on SIGHUP) without dropping a request. /health and /metrics (Prometheus)
    report its state. Stop it with Ctrl-C or SIGTERM, which completes requests in progress first.
    """

    path: AnyFile = argument(kw_only=False, metavar="MEMORY", help="Memory file; reloaded whenever it changes.")
    upstream: str = flag(
        metavar="URL",
        envvar="KGEDIT_UPSTREAM",
        help="OpenAI-compatible server of the model, with /v1; a user and password in it are sent as Basic "
        "authorization.",
    )
    host: str = flag(default="127.0.0.1", group="Machine", help="Address to listen at.")
    port: Annotated[int, Le(65535)] = flag(default=8090, ge=0, group="Machine", help="Port; 0 selects a free one.")
    allowed_hosts: Names = flag(
        "--allowed-host",
        default=(),
        group="Machine",
        metavar="NAME",
        help="Further host name of the proxy, for clients and for pages that are served under it; repeat. IP addresses "
        "and localhost are always allowed.",
    )
    layout: Annotated[str, OneOf(("fenced", "pairs"))] = flag(
        default="fenced",
        group="Questions",
        help="Facts as JSON between marks, or as question and answer for base models.",
    )
    max_label: Annotated[int, Le(4000)] = flag(
        default=200,
        ge=16,
        group="Questions",
        rare=True,
        help="Maximum number of characters of a fact's question or answer.",
    )
    learned_until: str = flag(
        default="",
        group="Questions",
        metavar="DATE",
        help="Day at which the model's training data ends: later values are marked as newer. Default: no marks.",
    )
    explain: bool = flag(
        default=False,
        group="Output",
        help="Add the facts to every response. A request enables it with the header x-kgedit-explain: 1.",
    )
    timeout: float | None = flag(
        default=None,
        gt=0,
        group="Machine",
        help="Read timeout of the upstream in seconds. Default: as long as the client waits.",
    )

    def run(self) -> uvicorn.Server:
        """Create the proxy.

        Returns:
            A server: `run()` runs it until a signal, `serve()` within your event loop.

        Raises:
            KgeditError: if the file is not a memory, or a setting is invalid.
        """
        from kgedit.graph_memory.proxy.bodies import LAYOUTS, Placing
        from kgedit.graph_memory.proxy.proxy import ProxySettings, make_server

        _check_date(self.learned_until)
        chosen = next((name for name in LAYOUTS if name == self.layout), None)
        if chosen is None:
            raise KgeditError(f"There is no layout '{self.layout}'. Choose one of {', '.join(LAYOUTS)}.")
        settings = ProxySettings(
            upstream=self.upstream,
            placing=Placing(layout=chosen, label_length=self.max_label, learned_until=self.learned_until),
            explain=self.explain,
            read_seconds=self.timeout,
            hosts=tuple(self.allowed_hosts),
        )
        return make_server(
            Path(self.path),
            settings,
            host=self.host,
            port=self.port,
            search=self.search,
            embedder=self.embedder,
            device=self.device,
        )


memory_server = function_of(ServeMemory)
