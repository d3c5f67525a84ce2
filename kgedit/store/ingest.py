"""Loads a dump file into snapshot folders: parses blocks into part files, then joins them once.

A dump becomes one snapshot, or is projected to several earlier days in the same pass (kgedit.store.as_of). Whenever a
load fails, the store contains for each day either the earlier snapshot or the complete new one. A load of a dump that
is already loaded compares the dump and the options with those of the snapshot.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import logging
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from kgedit.checksums import write_checksums
from kgedit.errors import SourceError, StoreError
from kgedit.machine import freed_memory_returned
from kgedit.progress import Advance, ignore
from kgedit.store.as_of import PLACEMENTS
from kgedit.store.builds import MISSING_VALUE, Load, LocalBuild, SnapshotBuild, SnapshotPlan
from kgedit.store.disk import disk_errors
from kgedit.store.files import only_writer, replace_folder, write_json
from kgedit.store.joining import Joined, remove_counts
from kgedit.store.planning import Target
from kgedit.store.redirects import GivenRedirects, read_redirects
from kgedit.store.snapshots import Snapshot, open_snapshot, read_snapshot, refuse_parts, snapshot_folder
from kgedit.store.sources import DumpFile
from kgedit.wikidata.times import day_number

READ = ("lines", "statements", "entities")
"""Counts of what was read and kept; every other count is a reason for leaving something out, or a note."""


def ingest(
    home: Path,
    load: Load,
    source: DumpFile,
    *,
    workers: int = 1,
    overwrite: bool,
    progress: Advance = ignore,
    joining: Advance = ignore,
    build: SnapshotBuild | None = None,
) -> Snapshot:
    """Load a dump into the store. An existing snapshot of the same load is kept.

    Args:
        home: Home folder.
        load: Options of the load.
        source: The dump.
        workers: Number of worker processes that parse.
        overwrite: Whether an existing snapshot of that date may be replaced.
        progress: Called with the number of source bytes read and of lines parsed so far.
        joining: Called with the thousandths and the number of rows joined so far.
        build: Builds the files instead of `workers` of this machine; None means those.

    Raises:
        SourceError: if the dump cannot be read, too much of it is bad, or it contains no entity; the store is
            unchanged.
        StoreError: if another dump is loaded for this date, or parts of `kgedit task` are of another load, and
            `overwrite` is false; or if the store cannot be written (disk full, permissions, a file in place of a
            folder).
    """
    staging = staging_folder(home, load)
    build = build or LocalBuild(workers=workers, progress=progress, joining=joining)
    (snapshot,) = _ingest(home, [load], source, staging, build, overwrite)
    return snapshot


def ingest_as_of(
    home: Path,
    load: Load,
    source: DumpFile,
    *,
    days: Iterable[datetime.date],
    workers: int,
    overwrite: bool,
    progress: Advance = ignore,
    joining: Advance = ignore,
) -> list[Snapshot]:
    """Project a dump to several earlier days in one pass. Existing projections of the same load are kept.

    Args:
        home: Home folder.
        load: Options of the load; its own date is ignored.
        source: The dump.
        days: Days of the snapshots.
        workers: Number of worker processes that parse.
        overwrite: Whether existing snapshots of these days may be replaced.
        progress: See `ingest`.
        joining: See `ingest`.

    Returns:
        The snapshots, oldest first.

    Raises:
        SourceError: see `ingest`.
        StoreError: see `ingest`; no snapshot is written.
    """
    loads = [dataclasses.replace(load, date=day, as_of=True) for day in sorted(set(days))]
    staging = _staging(home / "snapshots" / "as-of")
    build = LocalBuild(workers=workers, progress=progress, joining=joining)
    return _ingest(home, loads, source, staging, build, overwrite)


def staging_folder(home: Path, load: Load) -> Path:
    """Folder of an unfinished load."""
    return _staging(snapshot_folder(home, load.date))


def _staging(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.loading")


def _ingest(
    home: Path,
    loads: Sequence[Load],
    source: DumpFile,
    staging: Path,
    build: SnapshotBuild,
    overwrite: bool,
) -> list[Snapshot]:
    with disk_errors(home), freed_memory_returned(), ExitStack() as locks:
        refuse_parts(home)
        if loads[0].as_of:
            locks.enter_context(only_writer(staging.with_suffix(".lock"), of="projections"))
        for load in loads:
            folder = snapshot_folder(home, load.date)
            lock = folder.with_name(f".{folder.name}.lock")
            locks.enter_context(only_writer(lock, of=f"the snapshot of {load.date}"))
        there = [] if overwrite else [load for load in loads if _is_there(home, load)]
        _check_same(home, there, source)
        if missing := [load for load in loads if load not in there]:
            _load(home, missing, source, staging, build, overwrite)
        shutil.rmtree(staging, ignore_errors=True)
        return [open_snapshot(home, load.date) for load in loads]


def _is_there(home: Path, load: Load) -> bool:
    return (snapshot_folder(home, load.date) / "manifest.json").is_file()


def _load(
    home: Path, loads: Sequence[Load], source: DumpFile, staging: Path, build: SnapshotBuild, overwrite: bool
) -> None:
    load = loads[0]
    _prepare(staging, load.unfinished(source) | ({"date": None} if load.as_of else {}), overwrite)
    targets = join_targets(staging, loads)
    buckets = load.buckets(source)

    def check(counts: Counter[str]) -> None:
        _check_entities(counts, load, source)
        _check_error_rate(counts, load, source)

    plan = SnapshotPlan(load=load, source=source, staging=staging, targets=targets, buckets=buckets)
    counts, joined = build(plan, check)
    for one, target, rows in zip(loads, targets, joined, strict=True):
        write_json(target.folder / "manifest.json", _manifest(one, source, counts, rows, buckets))
        write_checksums(target.folder)
    for one, target in zip(loads, targets, strict=True):
        remove_counts(target)
        replace_folder(target.folder, snapshot_folder(home, one.date))


def join_targets(staging: Path, loads: Sequence[Load]) -> list[Target]:
    """Snapshots that `join_parts` writes in the folder of an unfinished load."""
    days = [day_number(load.date) for load in loads]
    return [
        Target(_folder(staging / f"whole-{day}"), day, _redirects(load), as_of=load.as_of)
        for load, day in zip(loads, days, strict=True)
    ]


def _redirects(load: Load) -> GivenRedirects:
    return read_redirects(load.redirects, day_number(load.date)) if load.redirects else GivenRedirects()


def _folder(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder


def _check_same(home: Path, loads: Sequence[Load], source: DumpFile) -> None:
    """Check that existing snapshots of these days are complete and come from the same dump and options."""
    kept = [(load, read_snapshot(snapshot_folder(home, load.date))) for load in loads]
    for _, snapshot in kept:
        snapshot.check()
    for load, snapshot in kept:
        _refuse_other(snapshot, _differences(snapshot, load, source))
    whole = [snapshot for load, snapshot in kept if load.limit is None]
    found = source.path.stat()  # before reading, so that a later change is noticed
    if whole:
        for _ in source.blocks(loads[0].framing):
            pass
    for snapshot in whole:
        loaded = snapshot.manifest["source"]["sha256"]
        _refuse_other(snapshot, [content_difference(loaded, source.sha256)] if loaded != source.sha256 else [])
        _record_comparison(snapshot, found)


def _record_comparison(snapshot: Snapshot, dump: os.stat_result) -> None:
    """Make a manifest as new as the dump, so that kgedit.verbs.load_dump.is_loaded need not compare them again."""
    manifest = snapshot.folder / "manifest.json"
    if manifest.stat().st_mtime_ns < dump.st_mtime_ns:
        with suppress(OSError):  # another user's file: it is compared each time
            os.utime(manifest, ns=(dump.st_atime_ns, dump.st_mtime_ns))


_REPLACE = "add --overwrite."


def _refuse_other(snapshot: Snapshot, differences: Sequence[str], to_replace: str = _REPLACE) -> None:
    if differences:
        listed = "\n".join(f"  - {difference}" for difference in differences)
        raise StoreError(
            f"The snapshot of {snapshot.name} in {snapshot.folder.parent} already exists, and was loaded otherwise:\n"
            f"{listed}\nNothing was changed. To replace it, {to_replace}"
        )


def check_looks_same(snapshot: Snapshot, load: Load, source: DumpFile, *, to_replace: str = _REPLACE) -> None:
    """Refuse a dump whose size or options differ from a loaded snapshot, without reading the dump.

    Args:
        snapshot: The snapshot of the load's day.
        load: Options of the load.
        source: The dump.
        to_replace: Advice how to replace the snapshot, for the message.

    Raises:
        StoreError: if the snapshot was loaded from a dump of another size, or with other options.
    """
    _refuse_other(snapshot, _differences(snapshot, load, source), to_replace)


def looks_same(snapshot: Snapshot, load: Load, source: DumpFile) -> bool:
    """Whether a snapshot was loaded from a dump of this size with the same options; does not read the dump."""
    return not _differences(snapshot, load, source)


def _differences(snapshot: Snapshot, load: Load, source: DumpFile) -> list[str]:
    return load_differences(snapshot.manifest, load.identity(source), as_of=load.as_of)


def _prepare(staging: Path, unfinished: dict[str, Any], overwrite: bool) -> None:
    """Keep the staging folder of an earlier attempt at the same load; otherwise create an empty one."""
    marker = staging / "load.json"
    try:
        earlier = json.loads(marker.read_bytes())
        if earlier == unfinished:
            return
        differences = load_differences(earlier, unfinished, as_of=False) or [_OF_NAME_OR_VERSION]
    except FileNotFoundError:
        differences = []  # no earlier attempt
    except (ValueError, LookupError, TypeError, AttributeError):
        differences = [f"{marker.name} is damaged"]
    if differences:
        _discard(staging, differences, overwrite)
    shutil.rmtree(staging, ignore_errors=True)
    (staging / "parts").mkdir(parents=True)
    write_json(marker, unfinished)


BLOCKS = "blocks.json"
"""File of an unfinished load with the number of its blocks, written by finished parts of `kgedit task parse`."""

_OF_NAME_OR_VERSION = "name of the dump, or version of kgedit"


def _discard(staging: Path, differences: Sequence[str], overwrite: bool) -> None:
    """Warn that the parts of another load are discarded; parts of a cluster are discarded only with `overwrite`."""
    listed = "\n".join(f"  - {difference}" for difference in differences)
    if (staging / BLOCKS).is_file() and not overwrite:
        raise StoreError(
            f"{staging} contains parts that kgedit task finished for another load:\n{listed}\nNothing was changed. "
            "Give the options of these parts, or discard them with --overwrite."
        )
    if any(staging.glob("parts/*")):
        logging.getLogger(__name__).warning(
            "The unfinished load in %s is discarded, because it is of another load:\n%s", staging, listed
        )


def _check_entities(counts: Counter[str], load: Load, source: DumpFile) -> None:
    if counts["lines"] == 0:
        raise SourceError(f"{source.path} contains no line that could be an entity. Is it a Wikidata dump?")
    if counts["entities"] == 0:
        beside = (*READ, *load.bad_statements, MISSING_VALUE, *load.notes)
        found = ", ".join(f"{count:,} {reason}" for reason, count in sorted(counts.items()) if reason not in beside)
        raise SourceError(
            f"No item or property is among the {counts['lines']:,} lines of {source.path} ({found}). The store is "
            "unchanged. Give a dump of Wikidata's items as Wikidata publishes it (JSON has one entity a line)."
        )


def _check_error_rate(counts: Counter[str], load: Load, source: DumpFile) -> None:
    bad_statements = (*load.bad_statements, MISSING_VALUE)
    for what, reasons, read in (("lines", load.bad_lines, "lines"), ("statements", bad_statements, "statements")):
        bad = sum(counts[reason] for reason in reasons)
        if bad > load.max_error_rate * counts[read]:
            reasons_found = ", ".join(f"{counts[reason]:,} {reason}" for reason in reasons if counts[reason])
            raise SourceError(
                f"{bad:,} of {counts[read]:,} {what} of {source.path} cannot be read ({reasons_found}), more than "
                f"{load.max_error_rate:.1%}. The store is unchanged. If this is acceptable, raise --max-error-rate."
            )


def _manifest(load: Load, source: DumpFile, counts: Counter[str], rows: Joined, buckets: int) -> dict[str, Any]:
    left_out = Counter({reason: count for reason, count in counts.items() if reason not in (*READ, *load.notes)})
    left_out["repeated entity"] += rows.repeated_entities
    left_out["repeated statement"] += rows.repeated_statements
    left_out["statement of a repeated entity"] += rows.statements_of_repeated_entities
    left_out.update(rows.redirects_left_out)
    identity = load.identity(source)
    identity["source"]["sha256"] = source.sha256 if load.limit is None else None
    return identity | {
        **({"projected": _projection(rows)} if load.as_of else {}),
        "lines": counts["lines"],
        "statements": counts["statements"],
        "entities": rows.entities,
        "redirected": rows.redirects,
        "claims": rows.claims,
        "claims_with_value": rows.claims_with_value,
        "facts": rows.facts,
        "left_out": {reason: count for reason, count in sorted(left_out.items()) if count},
        "noted": {note: counts[note] for note in sorted(load.notes) if counts[note]},
        "buckets": buckets,
        "complete": True,
    }


def _projection(rows: Joined) -> dict[str, Any]:
    """Counts of the dump's statements by placement, for the manifest of a projection."""
    by_rule = {
        placed: {one.reason: rows.placements[one.reason] for one in PLACEMENTS if one.placed is placed}
        for placed in (True, False)
    }
    return {
        "entities_that_came_later": rows.later_entities,
        "statements_placed_by_dates": by_rule[True],
        "statements_not_placed_by_dates": by_rule[False],
    }


_NONE = "none"


def load_differences(manifest: Mapping[str, Any], identity: Mapping[str, Any], *, as_of: bool) -> list[str]:
    """Differences in dump and options, each with the value of the snapshot and the requested one.

    Does not compare the content of the dumps.

    Args:
        manifest: Manifest of the snapshot.
        identity: Identity of the load (`kgedit.store.builds.Load.identity`).
        as_of: Whether the load projects the dump to an earlier day.
    """
    return [
        *_of_dump(manifest["source"], identity["source"]),
        *_of_options(manifest, identity),
        *_of_projection("projected" in manifest, as_of),
    ]


def content_difference(loaded: str | None, requested: str) -> str:
    """Message for dumps of the same size with different SHA-256."""
    return f"dump: the same size, other content (SHA-256 {(loaded or 'unknown')[:12]}… then, {requested[:12]}… now)"


def _of_dump(loaded: Mapping[str, Any], requested: Mapping[str, Any]) -> Iterator[str]:
    if loaded["size"] != requested["size"]:
        then, now = (f"{one['name']} with {one['size']:,} bytes" for one in (loaded, requested))
        yield f"dump: {then} then, {now} now"


def _of_options(manifest: Mapping[str, Any], identity: Mapping[str, Any]) -> Iterator[str]:
    then, now = (_options(one) for one in (manifest, identity))
    for name in dict.fromkeys([*then, *now]):
        if then.get(name) != now.get(name):
            yield f"{name}: {_written(then.get(name))} then, {_written(now.get(name))} now"


def _options(described: Mapping[str, Any]) -> dict[str, Any]:
    """Options, keyed by the names that users know."""
    loader = dict(described.get("loader") or {})
    return {
        "source format": loader.pop("name", None),
        "version of the loader (kgedit was updated)": loader.pop("version", None),
        **loader,
        "limit": described.get("limit"),
        "redirects": described.get("redirects"),
        "slice of": described.get("slice_of"),
    }


def _of_projection(loaded: bool, requested: bool) -> Iterator[str]:
    if loaded != requested:
        kinds = {True: "projected from a later dump", False: "a dump of this day"}
        yield f"kind: {kinds[loaded]} then, {kinds[requested]} now"


def _written(value: Any) -> str:
    if value is None:
        return _NONE
    if isinstance(value, Mapping):
        return f"{value.get('name')} (SHA-256 {str(value.get('sha256'))[:12]}…)"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
