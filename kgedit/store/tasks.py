"""Shares of a load or of a delta, for many processes on machines with a shared folder.

A share of a stage leaves what it did in the folder of an interrupted load or delta, complete or not at all. Afterwards
`kgedit.store.ingest.ingest` of the same load, or `kgedit.store.delta.write_delta`, finds it and does what is missing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kgedit.errors import StoreError
from kgedit.machine import freed_memory_returned
from kgedit.progress import Advance
from kgedit.store.blocks import parse_blocks, unparsed_blocks
from kgedit.store.builds import Load, read_late_values
from kgedit.store.delta import delta_folder, delta_parts, write_delta_parts
from kgedit.store.disk import disk_errors
from kgedit.store.files import write_json
from kgedit.store.ingest import BLOCKS, check_looks_same, join_targets, staging_folder
from kgedit.store.joining import finish_buckets, is_planned
from kgedit.store.part_files import PartFiles
from kgedit.store.planning import PLAN
from kgedit.store.scope import Scope
from kgedit.store.snapshots import Snapshot, read_snapshot, refuse_parts, snapshot_folder
from kgedit.store.sources import DumpFile


@dataclass(frozen=True, slots=True)
class Share:
    """The k-th of n equal shares of a stage: every n-th block or bucket.

    Attributes:
        number: From 1 to `of`.
        of: Number of shares.
    """

    number: int
    of: int

    def __contains__(self, index: int) -> bool:
        """Whether a block or bucket belongs to the share."""
        return index % self.of == self.number - 1


def read_share(text: str) -> Share:
    """Read a share such as "3/8".

    Raises:
        StoreError: if the text is not K/N with K from 1 to N.

    >>> read_share("3/8")
    Share(number=3, of=8)
    """
    number, slash, of = text.partition("/")
    if not (slash and number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of)):
        raise StoreError(f"{text!r} is not a part. Write K/N with K from 1 to N, such as 3/8.")
    return Share(int(number), int(of))


def run_task(
    home: Path, load: Load, source: DumpFile, stage: str, share: Share, *, workers: int, progress: Advance
) -> int:
    """Do a share of a stage; what an earlier attempt at it did is kept.

    Args:
        home: Home folder, shared by all processes.
        load: Options of the load, the same for all shares.
        source: The dump.
        stage: One of kgedit.store.LOAD_STAGES; gather has one share.
        share: The share.
        workers: Number of worker processes, or of runs gathered or buckets finished at once.
        progress: Called as those of `ingest`.

    Returns:
        Number of blocks or buckets of the share.

    Raises:
        SourceError: if the dump cannot be read.
        StoreError: if the stage before is not complete, the folder holds an unfinished load with other options, or
            `ingest` would refuse the load.
    """
    staging = staging_folder(home, load)
    with disk_errors(home), freed_memory_returned():
        _check_ingestible(home, load, source)
        _share(staging, load.unfinished(source))
        if stage == "parse":
            blocks = _parse(staging, load, source, share, workers, progress)
            return sum(number in share for number in range(blocks))
        if stage == "gather":
            if share.of != 1:
                raise StoreError("The stage gather has one part. Leave out --part, or give 1/1.")
            _gather(staging, load, source, workers)
            return load.buckets(source)
        return _finish(staging, load, source, share, workers, progress)


def _check_ingestible(home: Path, load: Load, source: DumpFile) -> None:
    """Refuse at once what `ingest` would refuse after all parts have ended."""
    refuse_parts(home)
    folder = snapshot_folder(home, load.date)
    if (folder / "manifest.json").is_file():
        remove = f"remove it first: kgedit drop-snapshot {load.date}"
        check_looks_same(read_snapshot(folder), load, source, to_replace=remove)


def _share(staging: Path, identity: dict[str, Any]) -> None:
    """Create the folder, or check that it is of the same load; unlike a load, a task never empties it."""
    marker = staging / "load.json"
    if not marker.is_file():
        (staging / "parts").mkdir(parents=True, exist_ok=True)
        write_json(marker, identity)
    if json.loads(marker.read_bytes()) != identity:
        raise StoreError(f"{staging} holds an unfinished load of another dump or with other options. Remove it.")


def _parse(staging: Path, load: Load, source: DumpFile, share: Share, workers: int, progress: Advance) -> int:
    blocks, _ = parse_blocks(
        _parts(staging, load, source),
        source,
        load.make_loader,
        framing=load.framing,
        limit=load.limit,
        workers=workers,
        progress=progress,
        chosen=share.__contains__,
    )
    write_json(staging / BLOCKS, {"blocks": blocks})
    return blocks


def _parts(staging: Path, load: Load, source: DumpFile) -> PartFiles:
    return PartFiles(staging / "parts", load.buckets(source))


def _blocks(staging: Path) -> int:
    """Number of blocks, all of which are parsed."""
    try:
        blocks = int(json.loads((staging / BLOCKS).read_bytes())["blocks"])
    except FileNotFoundError as error:
        raise StoreError("No part of the stage parse has ended. Run it first: kgedit task parse") from error
    if missing := unparsed_blocks(staging / "parts", blocks):
        raise StoreError(
            f"{len(missing):,} of {blocks:,} blocks are not parsed, the first is number {missing[0]}. Run the missing "
            "parts of the stage parse, with the same N."
        )
    return blocks


def _gather(staging: Path, load: Load, source: DumpFile, workers: int) -> None:
    blocks = _blocks(staging)
    parts = _parts(staging, load, source)
    read_late_values(parts, blocks, load.make_loader, spill=staging / "spill")
    targets, by_property = join_targets(staging, [load]), load.datatypes_by_property
    finish_buckets(parts, blocks, targets, numbers=(), workers=workers, datatypes_by_property=by_property)


def _finish(staging: Path, load: Load, source: DumpFile, share: Share, workers: int, progress: Advance) -> int:
    parts, blocks, targets = _parts(staging, load, source), _blocks(staging), join_targets(staging, [load])
    if not is_planned(parts, blocks, targets):
        changed = (staging / PLAN).is_dir()  # the last that gather writes
        reason = "The blocks changed after they were gathered" if changed else "The blocks are not gathered yet"
        raise StoreError(f"{reason}. Run this stage first: kgedit task gather")
    numbers = [number for number in range(parts.buckets) if number in share]
    finish_buckets(
        parts,
        blocks,
        targets,
        numbers=numbers,
        workers=workers,
        progress=progress,
        datatypes_by_property=load.datatypes_by_property,
    )
    return len(numbers)


def run_delta_task(home: Path, older: Snapshot, newer: Snapshot, scope: Scope, share: Share) -> int:
    """Write a share of the changes between two consecutive snapshots.

    Args:
        home: Home folder, shared by all processes.
        older: The older snapshot.
        newer: The next one.
        scope: Scope of the graph.
        share: The share.

    Returns:
        Number of buckets of the share.
    """
    numbers = [number for number in range(delta_parts(older, newer)) if number in share]
    with disk_errors(home):
        write_delta_parts(older, newer, scope, delta_folder(home, newer), numbers)
    return len(numbers)
