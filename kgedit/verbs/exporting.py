"""Exports one timestep, or a whole stream of them, from a home."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from kgedit.checksums import SUMS, write_checksums
from kgedit.errors import KgeditError, TimestepError
from kgedit.exporters import EXPORTERS
from kgedit.files import sync
from kgedit.graph.managed.processes import say
from kgedit.graph.state import open_finished
from kgedit.store.disk import disk_errors
from kgedit.store.scope import Scope, kept_scope
from kgedit.store.snapshots import Snapshot, list_snapshots, open_snapshot
from kgedit.store.window import Window
from kgedit.timesteps import export as wikibigedit
from kgedit.timesteps.engines import Engine
from kgedit.timesteps.engines.graph import GraphEngine
from kgedit.timesteps.engines.store import StoreEngine
from kgedit.timesteps.profiles import PROFILES
from kgedit.timesteps.stream import Stream, write_stream
from kgedit.timesteps.timestep import Timestep, timestep_folder
from kgedit.timesteps.wikifactdiff import export as wikifactdiff
from kgedit.verbs.export_options import ExportOptions
from kgedit.verbs.home_folder import read_date

MOST_CHANGED_ITEMS = 20_000
"""Maximum number of items that differ between the snapshots for which `auto` chooses the graph: beyond, Cypher takes
minutes (docs/measurements/2026-11-25-performance.md)."""

MOST_ITEMS, MOST_PAIRS = 20_000, 20_000_000
"""Maximum number of items, and of changed items times items, for which `auto` chooses the graph for the profile
wikifactdiff, whose cosine compares most pairs: beyond, Cypher takes minutes and gigabytes
(docs/measurements/2026-11-25-performance.md)."""

_AGAIN = "give the same command again"


def _writers(options: ExportOptions) -> list[Callable[[Timestep], Path]]:
    """Writers of the formats other than the tables."""
    return [EXPORTERS[form] for form in ((options.profile,) if options.forms is None else options.forms)]


def export_pair(home: Path, old: Snapshot, new: Snapshot, folder: Path, *, options: ExportOptions) -> Timestep:
    """Export the timestep between two snapshots and replace an existing folder."""
    with disk_errors(folder, again=_AGAIN), _open_engine(home, old, new, options) as engine:
        if options.profile == "wikifactdiff":
            return wikifactdiff.export_timestep(
                old, new, folder, settings=options.wikifactdiff(), engine=engine, writers=_writers(options)
            )
        return wikibigedit.export_timestep(
            engine,
            old,
            new,
            folder,
            settings=options.wikibigedit(),
            earlier=_earlier(home, old),
            writers=_writers(options),
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
            "FROM changed_entities"
        )
    changed, items = (found[name][0].as_py() for name in ("changed", "items"))
    suits = changed <= MOST_CHANGED_ITEMS
    if profile == "wikifactdiff":
        suits = suits and items <= MOST_ITEMS and changed * items <= MOST_PAIRS
    return GraphEngine.name if suits else StoreEngine.name


def export_stream(
    home: Path, folder: Path, *, options: ExportOptions, on_timestep: Callable[[str, bool], None]
) -> Stream:
    """Export the timesteps between all consecutive snapshots of a home, and link them.

    An existing complete timestep is kept if it is identical to the one that would be exported.

    Args:
        home: Folder with the snapshots.
        folder: Folder with a subfolder per timestep and another for the stream.
        options: Options of the export.
        on_timestep: Called for each timestep.

    Raises:
        TimestepError: if the home has fewer than two snapshots, or a folder contains another timestep.
    """
    snapshots = list_snapshots(home)
    if len(snapshots) < 2:
        raise TimestepError(
            f"A stream needs two snapshots; {home} has {len(snapshots)}. Load more: kgedit load-dump PATH --date DATE"
        )
    pairs = list(pairwise(snapshots))
    folders = [timestep_folder(folder, old.date, new.date, options.profile) for old, new in pairs]
    kept = [_is_same(path, _describe(home, old, new, options)) for (old, new), path in zip(pairs, folders, strict=True)]
    if not options.overwrite:
        _refuse_others(folders, kept)
    timesteps = []
    for (old, new), path, is_kept in zip(pairs, folders, kept, strict=True):
        timestep = Timestep.open(path) if is_kept else export_pair(home, old, new, path, options=options)
        if is_kept:
            _write_forms(timestep, options)
        on_timestep(timestep.name, is_kept)
        timesteps.append(timestep)
    stream = folder / ("stream" if options.profile == "wikibigedit" else f"stream_{options.profile}")
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


def why_no_cases(
    home: Path, timestep: Path, dates: Sequence[str], *, options: ExportOptions, effect: str = "", others: str = ""
) -> str:
    """Say that a timestep has no case, with a profile that has some, or with what else to try.

    The other profiles are tried in a temporary folder. That is as fast as the export before it, which found nothing.

    Args:
        dates: Dates of the two snapshots.
        options: Options of the export, which those of the other profiles share.
        effect: End of the first sentence.
        others: What to do if no other profile has a case; "" means the advice to export another timestep.
    """
    begins = f"No change between {' and '.join(dates)} became a case of the profile {options.profile}{effect}."
    for profile in PROFILES:
        count = 0 if profile == options.profile else _cases_of_profile(home, dates, replace(options, profile=profile))
        if count:
            return f"{begins} {profile} has {count:,}: add --profile {profile} to the same command."
    return f"{begins} " + (
        others
        or "No other profile has any with the same options. Give states that are further apart or contain more items; "
        f"{timestep / 'timestep.json'} counts the changes that each filter dropped."
    )


def _cases_of_profile(home: Path, dates: Sequence[str], options: ExportOptions) -> int:
    """Number of cases; 0 if the snapshots lack what the profile needs, or it has not all of the options."""
    with tempfile.TemporaryDirectory(dir=home) as folder, suppress(KgeditError):
        options.check()
        old, new = (open_snapshot(home, read_date(date)) for date in dates)
        plain = replace(options, engine=StoreEngine.name, forms=())
        return sum(export_pair(home, old, new, Path(folder) / "timestep", options=plain).manifest["cases"].values())
    return 0


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
        for write in _writers(options):
            write(timestep)
        if _writers(options) and (timestep.folder / SUMS).is_file():
            sync(write_checksums(timestep.folder))  # its other files were checked when it was opened
