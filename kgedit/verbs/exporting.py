"""Exports one timestep, or a whole stream of them, from a home."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from kgedit.checksums import SUMS, write_checksums
from kgedit.engines.graph import GraphEngine
from kgedit.engines.protocol import Engine
from kgedit.engines.store import StoreEngine
from kgedit.errors import TimestepError
from kgedit.exporters import EXPORTERS
from kgedit.files import sync
from kgedit.graph.finishing import open_finished
from kgedit.graph.locks import say
from kgedit.graph.scopes import kept_scope
from kgedit.store.disk import disk_errors
from kgedit.store.scope import Scope
from kgedit.store.snapshots import Snapshot, list_snapshots
from kgedit.store.window import Window
from kgedit.timesteps import export as wikibigedit
from kgedit.timesteps.kinds import check_kinds
from kgedit.timesteps.profiles import check_profile, functional_by
from kgedit.timesteps.stream import Stream, write_stream
from kgedit.timesteps.timestep import Timestep, timestep_folder
from kgedit.timesteps.wikifactdiff import export as wikifactdiff

Told = Callable[[str, bool], None]
"""Called with each timestep's name, and whether an existing one was kept."""

KIND_EMBEDDER = "all-minilm-l6-v2"
"""Embedder that compares the meanings of labelled changes by default."""

ENGINES = ("auto", GraphEngine.name, StoreEngine.name)
"""Engines of an export: Cypher over the graph, SQL over the store, or a choice between them."""

MOST_CHANGED_ITEMS = 20_000
"""Maximum number of items that differ between the snapshots for which `auto` chooses the graph: beyond, Cypher takes
minutes (docs/performance.md)."""

MOST_ITEMS, MOST_PAIRS = 20_000, 20_000_000
"""Maximum number of items, and of changed items times items, for which `auto` chooses the graph for the profile
wikifactdiff, whose cosine compares most pairs: beyond, Cypher takes minutes and gigabytes (docs/performance.md)."""

_AGAIN = "give the same command again"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """Options of an export; the attributes are the arguments of `Home.export_timestep`.

    Raises:
        TimestepError: if an option is not one of the profile's, or a kind is unknown.
    """

    profile: str = "wikibigedit"
    seed: int = 0
    known_facts: int = 2000
    templates: Path | None = None
    personas: Path | None = None
    forms: tuple[str, ...] | None = None
    compat: str | None = None
    pageviews: tuple[Path, ...] = ()
    kinds: tuple[str, ...] = ()
    labelled_changes: Path | None = None
    kind_embedder: str | None = None
    functional_by: str | None = None
    ask_as_of: bool = False
    changed_locality: bool = False
    persona_style: str = "reworded"
    only: Path | None = None
    counts: Path | None = None
    engine: str = ENGINES[0]

    def __post_init__(self) -> None:
        own = {
            "compat": self.compat,
            "kinds": self.kinds,
            "labelled-changes": self.labelled_changes,
            "kind-embedder": self.kind_embedder,
            "changed-locality": self.changed_locality,
        }
        check_profile(self.profile, own)
        check_kinds(self.kinds)
        _check_engine(self.engine)
        functional_by(self.profile, self.functional_by)
        if self.kind_embedder and not self.labelled_changes:
            raise TimestepError(
                "--kind-embedder is of use with --labelled-changes FILE only. Add that, or leave it out."
            )

    @property
    def writers(self) -> list[Callable[[Timestep], Path]]:
        """Writers of the formats other than the tables."""
        return [EXPORTERS[form] for form in ((self.profile,) if self.forms is None else self.forms)]

    def wikibigedit(self) -> wikibigedit.WikiBigEditSettings:
        """Settings of the profile wikibigedit."""
        return wikibigedit.WikiBigEditSettings(
            seed=self.seed,
            known_facts=self.known_facts,
            templates=self.templates,
            personas=self.personas,
            persona_style=self.persona_style,
            kinds=self.kinds,
            labelled_changes=self.labelled_changes,
            kind_embedder=_kind_embedder(self.kind_embedder) if self.labelled_changes else None,
            functional_by=functional_by(self.profile, self.functional_by),
            ask_as_of=self.ask_as_of,
            changed_locality=self.changed_locality,
            only=self.only,
            pageviews=self.pageviews,
            counts=self.counts,
        )

    def wikifactdiff(self) -> wikifactdiff.WikiFactDiffSettings:
        """Settings of the profile wikifactdiff."""
        return wikifactdiff.WikiFactDiffSettings(
            seed=self.seed,
            known_facts=self.known_facts,
            compat=self.compat,
            pageviews=self.pageviews,
            templates=self.templates,
            personas=self.personas,
            persona_style=self.persona_style,
            functional_by=functional_by(self.profile, self.functional_by),
            ask_as_of=self.ask_as_of,
            only=self.only,
            counts=self.counts,
        )


def _kind_embedder(given: str | None) -> str | None:
    """Embedder to load; None for "none", which compares words alone."""
    return None if given == "none" else given or KIND_EMBEDDER


def export_pair(home: Path, old: Snapshot, new: Snapshot, folder: Path, *, options: ExportOptions) -> Timestep:
    """Export the timestep between two snapshots and replace an existing folder."""
    with disk_errors(folder, again=_AGAIN), _open_engine(home, old, new, options) as engine:
        if options.profile == "wikifactdiff":
            return wikifactdiff.export_timestep(
                old, new, folder, settings=options.wikifactdiff(), engine=engine, writers=options.writers
            )
        return wikibigedit.export_timestep(
            engine,
            old,
            new,
            folder,
            settings=options.wikibigedit(),
            earlier=_earlier(home, old),
            writers=options.writers,
        )


@contextmanager
def _open_engine(home: Path, old: Snapshot, new: Snapshot, options: ExportOptions) -> Iterator[Engine]:
    """Engine named by the options; the store's starts no server."""
    is_free = options.engine == "auto"
    chosen = choose_engine(home, old, new, options.profile) if is_free else options.engine
    if chosen == StoreEngine.name:
        yield StoreEngine()
        return
    with open_finished(home) as graph:
        engine = GraphEngine(graph)
        lacks = not {old.date, new.date} <= set(graph.snapshot_dates())
        yield StoreEngine() if lacks and is_free else engine


def choose_engine(home: Path, old: Snapshot, new: Snapshot, profile: str) -> str:
    """Engine that `auto` selects: the graph if the home has a suitable one and the window is small enough."""
    scope = kept_scope(home)
    if scope is None:
        return StoreEngine.name
    if profile == "wikifactdiff" and scope != Scope():
        say(f"The graph holds {scope.describe()}: the store answers, which has all statements.")
        return StoreEngine.name
    with Window(old, new, spill=home / ".spill") as window:
        found = window.select(
            "SELECT count(*) AS changed, (SELECT count(*) FROM old_entities WHERE kind = 'item') AS items "
            "FROM old_entities o FULL JOIN new_entities n ON o.id = n.id WHERE o.digest IS DISTINCT FROM n.digest"
        )
    changed, items = (found[name][0].as_py() for name in ("changed", "items"))
    suits = changed <= MOST_CHANGED_ITEMS
    if profile == "wikifactdiff":
        suits = suits and items <= MOST_ITEMS and changed * items <= MOST_PAIRS
    return GraphEngine.name if suits else StoreEngine.name


def _check_engine(name: str) -> None:
    if name not in ENGINES:
        raise TimestepError(f"There is no engine {name!r}. There are: {', '.join(ENGINES)}.")


def export_stream(home: Path, benchmark: Path, *, options: ExportOptions, overwrite: bool, told: Told) -> Stream:
    """Export the timesteps between all consecutive snapshots of a home, and link them.

    An existing complete timestep is kept if it is identical to the one that would be exported.

    Args:
        home: Folder with the snapshots.
        benchmark: Folder with a subfolder per timestep and another for the stream.
        options: Options of the export.
        overwrite: Whether to replace a timestep that was exported with other options.
        told: Called for each timestep.

    Raises:
        TimestepError: if the home has fewer than two snapshots, or a folder contains another timestep.
    """
    snapshots = list_snapshots(home)
    if len(snapshots) < 2:
        raise TimestepError(
            f"A stream needs two snapshots; {home} has {len(snapshots)}. Load more: kgedit load-dump PATH --date DATE"
        )
    pairs = list(pairwise(snapshots))
    folders = [timestep_folder(benchmark, old.date, new.date, options.profile) for old, new in pairs]
    kept = [
        _is_same(folder, _describe(home, old, new, options)) for (old, new), folder in zip(pairs, folders, strict=True)
    ]
    if not overwrite:
        _refuse_others(folders, kept)
    timesteps = []
    for (old, new), folder, is_kept in zip(pairs, folders, kept, strict=True):
        timestep = Timestep.open(folder) if is_kept else export_pair(home, old, new, folder, options=options)
        if is_kept:
            _write_forms(timestep, options)
        told(timestep.name, is_kept)
        timesteps.append(timestep)
    stream = benchmark / ("stream" if options.profile == "wikibigedit" else f"stream_{options.profile}")
    with disk_errors(stream, again=_AGAIN):
        return write_stream(timesteps, pairs, stream)


def is_exported(home: Path, old: Snapshot, new: Snapshot, folder: Path, *, options: ExportOptions) -> bool:
    """Whether a folder contains the complete timestep that `export_pair` would write."""
    return _is_same(folder, _describe(home, old, new, options))


def keep_exported(home: Path, old: Snapshot, new: Snapshot, folder: Path, *, options: ExportOptions) -> Timestep:
    """Open the timestep that `export_pair` wrote into a folder with the same options.

    Raises:
        TimestepError: if the folder contains anything else.
    """
    if not is_exported(home, old, new, folder, options=options):
        raise TimestepError(
            f"{folder} exists and holds something else, or a timestep of other snapshots or options. Nothing was "
            "changed. To replace it, add --overwrite."
        )
    timestep = Timestep.open(folder)
    _write_forms(timestep, options)
    return timestep


def _earlier(home: Path, old: Snapshot) -> list[Snapshot]:
    return [snapshot for snapshot in list_snapshots(home) if snapshot.date < old.date]


def _describe(home: Path, old: Snapshot, new: Snapshot, options: ExportOptions) -> dict[str, Any]:
    if options.profile == "wikifactdiff":
        return wikifactdiff.describe_export(old, new, settings=options.wikifactdiff())
    return wikibigedit.describe_export(old, new, _earlier(home, old), settings=options.wikibigedit())


def _is_same(folder: Path, described: dict[str, Any]) -> bool:
    if not (folder / "timestep.json").is_file():
        return False
    manifest, expected = Timestep.open(folder).manifest, json.loads(json.dumps(described))
    return all(manifest.get(name) == value for name, value in expected.items())


def _refuse_others(folders: Sequence[Path], kept: Sequence[bool]) -> None:
    other = [folder for folder, is_kept in zip(folders, kept, strict=True) if folder.exists() and not is_kept]
    if other:
        raise TimestepError(
            f"{other[0]} holds another timestep, or one made with other settings or snapshots. Nothing was changed. "
            "To replace it, add --overwrite."
        )


def _write_forms(timestep: Timestep, options: ExportOptions) -> None:
    """Write the requested formats next to an existing timestep; existing ones are byte-identical afterwards."""
    with disk_errors(timestep.folder, again=_AGAIN):
        for write in options.writers:
            write(timestep)
        if options.writers and (timestep.folder / SUMS).is_file():
            sync(write_checksums(timestep.folder))  # its other files were checked when it was opened
