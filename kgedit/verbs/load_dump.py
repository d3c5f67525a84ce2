"""`load-dump` and `load-changes`: load a dump, or what changed in a larger store."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import BeforeValidator

from kgedit.errors import StoreError
from kgedit.machine import usable_cores
from kgedit.progress import Steps
from kgedit.verbs.graph import ForGraph
from kgedit.verbs.home_folder import read_date
from kgedit.verbs.live_progress import step_line
from kgedit.verbs.options import (
    AnyPath,
    Day,
    ExistingFile,
    ExistingFolder,
    HomeVerb,
    Names,
    OneOf,
    argument,
    flag,
    many,
    options,
)
from kgedit.wikidata.ids import site_address

if TYPE_CHECKING:
    from kgedit.spark.session import Session
    from kgedit.store.builds import Load, SnapshotBuild
    from kgedit.store.snapshots import Snapshot
    from kgedit.store.sources import DumpFile


LOAD_ENGINES = ("local", "spark")
"""Where a snapshot is built."""


@options
class ReadOptions:
    """Options for reading a dump."""

    source_format: str | None = flag(
        default=None, complete="source_formats", rare=True, help="Source format. Default: by the content."
    )
    languages: Names = flag("--language", default=("en", "mul"), help="Label language; repeat for fallbacks.")
    wiki: str = flag(default="enwiki", rare=True, help="Wiki whose article titles are stored.")
    redirects: ExistingFile | None = flag(
        default=None, help="Tab-separated: from, to and (optionally) first date. Dumps leave redirects out."
    )
    limit: int | None = flag(default=None, ge=1, help="Only the first N lines that may be entities.")
    max_error_rate: float = flag(
        default=0.01,
        ge=0,
        le=1,
        rare=True,
        help="Share of unreadable lines or statements above which the load fails.",
    )
    slice_of: str | None = flag(
        default=None,
        metavar="TEXT",
        help="Description of the selected items in PATH: what it lacks is unknown, not removed. Default: that of the "
        "note next to the file, if there is one.",
    )
    workers: int | None = flag(
        default=None, ge=1, group="Machine", help="Parser processes. Default: one for each core."
    )


@options
class DumpOptions(ReadOptions):
    """Options for loading a dump."""

    graph: bool = flag(default=True, group="Output", help="Also update the graph.")
    overwrite: bool = flag(default=False, group="Output", help="Replace a snapshot of this date.")


@options
class OnEngine:
    """Options for work that a Spark cluster can do."""

    engine: Annotated[str, OneOf(LOAD_ENGINES)] = flag(
        default="local", group="Machine", help="Work on this machine, or on a Spark cluster."
    )
    master: str | None = flag(
        default=None,
        group="Machine",
        metavar="URL",
        help="Spark cluster, such as spark://host:7077 or local[4]. Default: that of spark-submit.",
    )

    @contextmanager
    def open_engine(self) -> Iterator[Session | None]:
        """Context with the session on the cluster; None means this machine.

        Raises:
            StoreError: if the options do not fit together.
        """
        if self.engine == "local":
            if self.master is not None:
                raise StoreError("--master is the address of a Spark cluster. Add --engine spark, or leave it out.")
            yield None
        elif self.engine == "spark":
            from kgedit.spark.session import open_session

            with open_session(self.master) as session:
                yield session
        else:
            raise StoreError(f"There is no engine {self.engine!r}. There are: {', '.join(LOAD_ENGINES)}.")


@options
class LoadDump(OnEngine, DumpOptions, ForGraph, HomeVerb["Snapshot"]):
    """Load a Wikidata dump as the snapshot of a date.

    The same command resumes an interrupted load.
    """

    path: AnyPath = argument(kw_only=False, help="Dump in any source format, plain or compressed (.gz, .bz2, .zst).")
    date: Day = flag(kw_only=False, help="Day of the dump.")

    def run(self, home: Path) -> Snapshot:
        """Load the dump.

        Raises:
            SourceError: if the dump cannot be read.
            StoreError: if the store cannot be written, or contains another dump under this date.
            GraphError: if the graph cannot be written.
        """
        self.refuse_unused_scope(graph=self.graph)
        steps = self.progress or step_line
        with self._build(steps) as build:
            snapshot = load_dump(home, Path(self.path), read_date(self.date), options=self, steps=steps, build=build)
        if self.graph:
            self.update(home)
        return snapshot

    @contextmanager
    def _build(self, steps: Steps) -> Iterator[SnapshotBuild | None]:
        """Context with the build on a cluster; None means this machine."""
        with self.open_engine() as session:
            if session is None:
                yield None
            else:
                from kgedit.spark.load import SparkBuild

                yield SparkBuild(session, steps=steps)


@options
class LoadDumpAsOf(DumpOptions, ForGraph, HomeVerb["list[Snapshot]"]):
    """Project a dump to several earlier days by the dates in its qualifiers, in one pass (docs/how-to/streams.md)."""

    path: AnyPath = argument(kw_only=False, help="Dump in any source format, plain or compressed (.gz, .bz2, .zst).")
    days: Annotated[Sequence[Day], BeforeValidator(many)] = flag(
        "--as-of",
        kw_only=False,
        help="Instead of --date: project the dump to earlier days, by its statements' dates; repeat, or separate by "
        "commas.",
    )

    def run(self, home: Path) -> list[Snapshot]:
        """Load the snapshots.

        Raises:
            SourceError: if the dump cannot be read.
            StoreError: if no day is given, or a day already has another snapshot; then none is written.
            GraphError: if the graph cannot be written.
        """
        self.refuse_unused_scope(graph=self.graph)
        wanted, steps = [read_date(day) for day in self.days], self.progress or step_line
        snapshots = load_dump_as_of(home, Path(self.path), wanted, options=self, steps=steps)
        if self.graph:
            self.update(home)
        return snapshots


def load_dump(
    home: Path,
    path: Path,
    date: datetime.date,
    *,
    options: DumpOptions,
    steps: Steps,
    build: SnapshotBuild | None = None,
) -> Snapshot:
    """Load a dump as the snapshot of its day, on this machine if `build` is None."""
    from kgedit.store.builds import LocalBuild
    from kgedit.store.ingest import ingest
    from kgedit.store.sources import DumpFile

    source = DumpFile(path)
    build = build or LocalBuild(
        workers=options.workers or usable_cores(),
        progress=steps(f"Reading {path.name}", source.size, "lines"),
        joining=steps("Joining the blocks", 1000, "rows"),
    )
    return ingest(home, read_load(source, date, options), source, overwrite=options.overwrite, build=build)


def is_loaded(home: Path, path: Path, date: datetime.date, *, options: DumpOptions) -> bool:
    """Whether the store has the snapshot that `load_dump` would create, decided without reading the whole dump.

    A file of the same size that is no newer than the snapshot counts as the same dump.

    Raises:
        SourceError: if the dump or its redirects cannot be read.
    """
    from kgedit.store.snapshots import snapshot_folder

    manifest = snapshot_folder(home, date) / "manifest.json"
    if not manifest.is_file() or manifest.stat().st_mtime < path.stat().st_mtime:
        return False
    return looks_loaded(home, path, date, options=options)


def looks_loaded(home: Path, path: Path, date: datetime.date, *, options: DumpOptions) -> bool:
    """Whether the store has a snapshot of a dump of this size with these options, which `load_dump` compares by hash.

    Raises:
        SourceError: if the dump or its redirects cannot be read.
    """
    from kgedit.store.ingest import looks_same
    from kgedit.store.snapshots import read_snapshot, snapshot_folder
    from kgedit.store.sources import DumpFile

    folder, source = snapshot_folder(home, date), DumpFile(path)
    if not (folder / "manifest.json").is_file():
        return False
    return looks_same(read_snapshot(folder), read_load(source, date, options), source)


def check_loadable(home: Path, path: Path, date: datetime.date, *, options: DumpOptions) -> None:
    """Check a dump by its first bytes, its size and the snapshot of its day.

    Raises:
        SourceError: if the dump or its redirects cannot be read.
        StoreError: if another dump is loaded for this day, and `options.overwrite` is not set.
    """
    from kgedit.store.ingest import check_looks_same
    from kgedit.store.snapshots import read_snapshot, snapshot_folder
    from kgedit.store.sources import DumpFile

    source = DumpFile(path)
    load = read_load(source, date, options)
    folder = snapshot_folder(home, date)
    if (folder / "manifest.json").is_file() and not options.overwrite:
        check_looks_same(read_snapshot(folder), load, source)


def load_dump_as_of(
    home: Path, path: Path, days: Iterable[datetime.date], *, options: DumpOptions, steps: Steps
) -> list[Snapshot]:
    """Project a dump to several days before its own.

    Raises:
        StoreError: if no day is given.
    """
    from kgedit.store.ingest import ingest_as_of
    from kgedit.store.sources import DumpFile

    wanted = sorted(set(days))
    if not wanted:
        raise StoreError("No day is given to project the dump to. Give one or more, such as 2010-12-31.")
    source = DumpFile(path)
    return ingest_as_of(
        home,
        read_load(source, wanted[0], options),
        source,
        days=wanted,
        workers=options.workers or usable_cores(),
        overwrite=options.overwrite,
        progress=steps(f"Reading {path.name}", source.size, "lines"),
        joining=steps(f"Projecting to {len(wanted)} days", 1000, "rows"),
    )


def read_load(source: DumpFile, date: datetime.date, options: ReadOptions) -> Load:
    """Options of a load of a dump, by its format."""
    from kgedit.fetching.slices import slice_note
    from kgedit.loaders.detection import checked_format, load_with
    from kgedit.store.schemas import LoaderOptions

    return load_with(
        checked_format(source, options.source_format),
        LoaderOptions(read_languages(options.languages), _known_wiki(options.wiki)),
        date=date,
        limit=options.limit,
        redirects=None if options.redirects is None else Path(options.redirects),
        max_error_rate=options.max_error_rate,
        slice_of=options.slice_of or slice_note(source.path),
    )


def read_languages(given: Sequence[str]) -> tuple[str, ...]:
    """Language codes as Wikidata writes them, each once: "pt-BR" is pt-br, and one text may list several.

    Raises:
        StoreError: if one is no language code.
    """
    codes = tuple(dict.fromkeys(code.strip().lower() for one in given for code in one.split(",")))
    for code in codes:
        if not _LANGUAGE.fullmatch(code):
            raise StoreError(f"--language {code!r} is no language code. Give one such as en or pt-br.")
    return codes


_LANGUAGE = re.compile(r"[a-z]+(?:-[a-z0-9]+)*", re.ASCII)


def _known_wiki(name: str) -> str:
    if site_address(name).endswith(".invalid/"):
        raise StoreError(f"--wiki {name!r} is no name of a wiki. Give one such as enwiki or dewiki.")
    return name


@options
class LoadChanges(ForGraph, HomeVerb["tuple[Snapshot, Snapshot]"]):
    """Take what changed between two snapshots out of a larger store.

    The new home has everything that an export between them reads. It must contain no other snapshots. The same command
    continues an interrupted one.
    """

    store: ExistingFolder = argument(kw_only=False, help="Home folder of the other store.")
    older: Day = flag("--from", kw_only=False, help="Day of the older snapshot.")
    newer: Day = flag("--to", kw_only=False, help="Day of the newer snapshot.")
    graph: bool = flag(default=True, group="Output", help="Also update the graph.")

    def run(self, home: Path) -> tuple[Snapshot, Snapshot]:
        """Take the changes.

        Returns:
            The older and the newer snapshot, reduced to what changed and its surroundings.

        Raises:
            StoreError: if the store lacks a snapshot, or the home contains other snapshots.
            DamagedFileError: if a file of the other store is damaged.
            GraphError: if the graph cannot be written.
        """
        from kgedit.store.snapshots import open_snapshot
        from kgedit.timesteps.changes_only import take_changes

        self.refuse_unused_scope(graph=self.graph)
        old, new = (open_snapshot(Path(self.store), read_date(day)) for day in (self.older, self.newer))
        taken = take_changes(home, old, new)
        if self.graph:
            self.update(home)
        return taken
