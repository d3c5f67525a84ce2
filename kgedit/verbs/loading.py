"""Loads a dump into a home, as the snapshot of its day or projected to several earlier days."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from pathlib import Path

from kgedit.errors import StoreError
from kgedit.loaders.detection import checked_format
from kgedit.loaders.loads import load_with
from kgedit.machine import usable_cores
from kgedit.progress import Steps
from kgedit.store.ingest import Load, check_looks_same, ingest, ingest_as_of, looks_same
from kgedit.store.schemas import LoaderOptions
from kgedit.store.slices import slice_note
from kgedit.store.snapshots import Snapshot, read_snapshot, snapshot_folder
from kgedit.store.sources import DumpFile
from kgedit.verbs.load_dump import DumpOptions


def load_dump(home: Path, path: Path, date: datetime.date, *, options: DumpOptions, steps: Steps) -> Snapshot:
    """Load a dump as the snapshot of its day."""
    source = DumpFile(path)
    return ingest(
        home,
        _load(source, date, options),
        source,
        workers=options.workers or usable_cores(),
        overwrite=options.overwrite,
        progress=steps(f"Reading {path.name}", source.size, "lines"),
        joining=steps("Joining the blocks", 1000, "rows"),
    )


def is_loaded(home: Path, path: Path, date: datetime.date, *, options: DumpOptions) -> bool:
    """Whether the store has the snapshot that `load_dump` would create, decided without reading the whole dump.

    A file of the same name and size that is no newer than the snapshot counts as the same dump.

    Raises:
        SourceError: if the dump or its redirects cannot be read.
    """
    manifest = snapshot_folder(home, date) / "manifest.json"
    if not manifest.is_file() or manifest.stat().st_mtime < path.stat().st_mtime:
        return False
    source = DumpFile(path)
    return looks_same(read_snapshot(manifest.parent), _load(source, date, options), source)


def check_loadable(home: Path, path: Path, date: datetime.date, *, options: DumpOptions) -> None:
    """Check a dump by its first bytes, its size and the snapshot of its day.

    Raises:
        SourceError: if the dump or its redirects cannot be read.
        StoreError: if another dump is loaded for this day, and `options.overwrite` is not set.
    """
    source = DumpFile(path)
    load = _load(source, date, options)
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
    wanted = sorted(set(days))
    if not wanted:
        raise StoreError("No day is given to project the dump to. Give one or more, such as 2010-12-31.")
    source = DumpFile(path)
    return ingest_as_of(
        home,
        _load(source, wanted[0], options),
        source,
        days=wanted,
        workers=options.workers or usable_cores(),
        overwrite=options.overwrite,
        progress=steps(f"Reading {path.name}", source.size, "lines"),
        joining=steps(f"Projecting to {len(wanted)} days", 1000, "rows"),
    )


def _load(source: DumpFile, date: datetime.date, options: DumpOptions) -> Load:
    return load_with(
        checked_format(source, options.source_format),
        LoaderOptions(tuple(options.languages), options.wiki),
        date=date,
        limit=options.limit,
        redirects=None if options.redirects is None else Path(options.redirects),
        max_error_rate=options.max_error_rate,
        slice_of=options.slice_of or slice_note(source.path),
    )
