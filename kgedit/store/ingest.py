"""From a dump file to a snapshot folder: parse blocks into part files, then join them once.

Whatever happens on the way, the store shows either the snapshot that was there before or the whole new one.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kgedit import __version__
from kgedit.errors import SourceError, StoreError
from kgedit.store.blocks import LoadProgress, parse_blocks
from kgedit.store.disk import disk_errors
from kgedit.store.files import only_writer, replace_folder, write_json
from kgedit.store.framing import JSON_LINES, Framing
from kgedit.store.joining import Joined, join_parts, read_redirects
from kgedit.store.late_values import MISSING_VALUE, read_late_values
from kgedit.store.schemas import Loader
from kgedit.store.snapshots import Snapshot, open_snapshot, snapshot_folder
from kgedit.store.sources import DumpFile
from kgedit.wikidata.times import day_number

READ = ("lines", "statements", "entities")
"""Counts of what was read and kept; every other count names a reason for leaving something out, or a note."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What to load and how; everything but `max_error_rate` is part of the snapshot's identity.

    Attributes:
        date: Day of the dump.
        loader: Name in the registry of loaders.
        loader_version: That loader's version.
        make_loader: Makes the loader; must be picklable.
        options: The loader's options as they go into the manifest.
        limit: Only so many lines, or None for all.
        redirects: Tab-separated file (from, to, and optionally the first date), or None.
        bad_lines: Counts that make a line bad.
        bad_statements: Counts that make a statement bad.
        notes: Counts of peculiarities that cost nothing.
        max_error_rate: Share of bad lines, or of bad statements, above which the load fails.
        framing: How the loader's format is cut.
        lacks: What the format cannot give, in words.
        datatypes_by_property: Whether a statement without a datatype takes that of its property.
        slice_of: What the dump is a slice of (a query, a list of items), in words; None for all of Wikidata. What a
            slice lacks is unknown, not removed.
    """

    date: datetime.date
    loader: str
    loader_version: str
    make_loader: Callable[[], Loader]
    options: dict[str, Any]
    limit: int | None
    redirects: Path | None
    bad_lines: tuple[str, ...]
    bad_statements: tuple[str, ...]
    max_error_rate: float
    notes: tuple[str, ...] = ()
    framing: Framing = JSON_LINES
    lacks: tuple[str, ...] = ()
    datatypes_by_property: bool = False
    slice_of: str | None = None

    def identity(self, source: DumpFile) -> dict[str, Any]:
        """What must agree for an interrupted load to be resumed."""
        return {
            "kgedit": __version__,
            "date": str(self.date),
            "source": {"name": source.path.name, "size": source.size},
            "loader": {"name": self.loader, "version": self.loader_version, **self.options},
            "limit": self.limit,
            "redirects": _named(self.redirects) if self.redirects else None,
            "block_bytes": source.block_bytes,
            "slice_of": self.slice_of,
            "lacks": list(self.lacks),
        }


def _named(file: Path) -> dict[str, str]:
    try:
        return {"name": file.name, "sha256": hashlib.sha256(file.read_bytes()).hexdigest()}
    except OSError as error:
        raise SourceError(f"The redirects {file} cannot be read: {error.strerror}. Check the path.") from error


def _silent(_done: int, _counted: int) -> None:
    """Progress that nobody watches."""


def ingest(
    home: Path,
    load: Load,
    source: DumpFile,
    *,
    workers: int,
    overwrite: bool,
    progress: LoadProgress,
    joining: LoadProgress = _silent,
) -> Snapshot:
    """Load a dump into the store; a snapshot that is there already is left as it is.

    Args:
        home: Folder of the store.
        load: What to load.
        source: The dump.
        workers: Processes that parse.
        overwrite: Whether a snapshot of that date may be replaced.
        progress: Called with the bytes of the source read so far and the lines parsed so far.
        joining: Called with the thousandths and the rows that are joined so far.

    Raises:
        SourceError: if the dump cannot be read, too much of it is bad, or no entity is in it; the store stays as it
            was.
        StoreError: if another dump is loaded under this date and `overwrite` is not set, or if the store cannot be
            written (disk full, permissions, a file in place of a folder).
    """
    folder = snapshot_folder(home, load.date)
    staging = folder.with_name(f".{folder.name}.loading")
    lock = folder.with_name(f".{folder.name}.lock")
    with disk_errors(home), only_writer(lock, of=f"the snapshot of {load.date}"):
        if (folder / "manifest.json").is_file() and not overwrite:
            snapshot = _same_snapshot(open_snapshot(home, load.date), load, source)
        else:
            _load(staging, folder, load, source, workers, progress, joining)
            snapshot = open_snapshot(home, load.date)
        shutil.rmtree(staging, ignore_errors=True)
    return snapshot


def _load(
    staging: Path,
    folder: Path,
    load: Load,
    source: DumpFile,
    workers: int,
    progress: LoadProgress,
    joining: LoadProgress,
) -> None:
    _prepare(staging, load.identity(source))
    redirects = read_redirects(load.redirects, day_number(load.date)) if load.redirects else {}
    parts, whole = staging / "parts", staging / "whole"
    blocks, counts = parse_blocks(
        parts, source, load.make_loader, framing=load.framing, limit=load.limit, workers=workers, progress=progress
    )
    counts.update(read_late_values(parts, blocks, load.make_loader, spill=staging / "spill"))
    _check_entities(counts, load, source)
    _check_error_rate(counts, load, source)
    shutil.rmtree(whole, ignore_errors=True)
    whole.mkdir()
    rows = join_parts(
        parts,
        blocks,
        whole,
        date=day_number(load.date),
        redirects=redirects,
        datatypes_by_property=load.datatypes_by_property,
        progress=joining,
    )
    write_json(whole / "manifest.json", _manifest(load, source, counts, rows))
    replace_folder(whole, folder)


def _same_snapshot(snapshot: Snapshot, load: Load, source: DumpFile) -> Snapshot:
    manifest = snapshot.manifest
    identity = load.identity(source)
    keys = ("date", "loader", "limit", "redirects", "slice_of")
    same = all(manifest.get(key) == identity[key] for key in keys) and manifest["source"]["size"] == source.size
    if same and load.limit is None:
        for _ in source.blocks(load.framing):
            pass
        same = source.sha256 == manifest["source"]["sha256"]
    if not same:
        raise StoreError(
            f"{snapshot.folder} holds another dump or was loaded with other options ({manifest['source']['name']}). "
            "Nothing was changed. To replace it, add --overwrite."
        )
    return snapshot


def _prepare(staging: Path, identity: dict[str, Any]) -> None:
    """Keep what an earlier attempt at the same load left, and nothing else."""
    marker = staging / "load.json"
    if marker.is_file() and json.loads(marker.read_text(encoding="utf-8")) == identity:
        return
    shutil.rmtree(staging, ignore_errors=True)
    (staging / "parts").mkdir(parents=True)
    write_json(marker, identity)


def _check_entities(counts: Counter[str], load: Load, source: DumpFile) -> None:
    if counts["lines"] == 0:
        raise SourceError(f"{source.path} holds no line that could be an entity. Is it a Wikidata dump?")
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


def _manifest(load: Load, source: DumpFile, counts: Counter[str], rows: Joined) -> dict[str, Any]:
    left_out = Counter({reason: count for reason, count in counts.items() if reason not in (*READ, *load.notes)})
    left_out["repeated entity"] += rows.repeated_entities
    left_out["repeated statement"] += rows.repeated_statements
    left_out["statement of a repeated entity"] += rows.statements_of_repeated_entities
    left_out["redirect in a cycle"] += rows.redirects_in_a_cycle
    identity = load.identity(source)
    identity["source"]["sha256"] = source.sha256 if load.limit is None else None
    return identity | {
        "lines": counts["lines"],
        "statements": counts["statements"],
        "entities": rows.entities,
        "redirected": rows.redirects,
        "claims": rows.claims,
        "claims_with_value": rows.claims_with_value,
        "facts": rows.facts,
        "left_out": {reason: count for reason, count in sorted(left_out.items()) if count},
        "noted": {note: counts[note] for note in sorted(load.notes) if counts[note]},
        "complete": True,
    }
