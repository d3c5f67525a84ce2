"""Joins part files into the buckets of each snapshot. Several snapshots, as of several days, are written together.

First, a few queries over all parts find what a bucket needs of the other ones (kgedit.store.planning). Then the parts
are gathered by bucket, and each bucket is finished separately. An interrupted load keeps the plan, the gathered runs
and the finished buckets, unless a block was parsed again since, with another content.

Rows keep the dump's order within a bucket: sorting them by subject would spill as much as the whole dump, and no reader
needs it because all of them join by hash.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from kgedit.machine import available_memory
from kgedit.progress import Advance, ignore
from kgedit.store.as_of import PLACES
from kgedit.store.blocks import parsed_digest
from kgedit.store.buckets import BucketTarget, write_bucket
from kgedit.store.files import write_json
from kgedit.store.gathering import Gathered, gather
from kgedit.store.part_files import PartFiles
from kgedit.store.planning import PLAN, JoinPlan, Target, plan_join

_MEMORY_PER_BUCKET = 3 << 28
"""Bytes that finishing a bucket takes: DuckDB's memory, and the rows that are being written."""


@dataclass(frozen=True, slots=True)
class Joined:
    """Counts of a snapshot's rows, and of rows left out as repetitions.

    Attributes:
        redirects_left_out: Number of rejected redirects, by reason.
        placements: For projections, number of the dump's statements by placement; they add up to all but repeated ones.
        later_entities: For projections, number of the dump's entities that did not exist yet.
    """

    claims: int
    claims_with_value: int
    facts: int
    entities: int
    redirects: int
    repeated_entities: int
    repeated_statements: int
    statements_of_repeated_entities: int
    redirects_left_out: dict[str, int]
    placements: Counter[str] = field(default_factory=Counter)
    later_entities: int = 0


def join_parts(
    parts: PartFiles,
    blocks: int,
    targets: Sequence[Target],
    *,
    workers: int = 1,
    datatypes_by_property: bool = False,
    progress: Advance,
) -> list[Joined]:
    """Write the claims, facts and entities of each snapshot, by bucket (kgedit.store.buckets.write_bucket).

    The hidden files of counts that it leaves beside them are for a later attempt: see `remove_counts`.

    Args:
        parts: The part files.
        blocks: Number of blocks.
        targets: The snapshots; several only if they are projections.
        workers: Maximum number of runs that are gathered at once, and of threads that finish buckets.
        datatypes_by_property: Whether a statement without a datatype gets that of its property.
        progress: Called with the thousandths done and the number of rows joined.
    """
    finishing = _finishing(parts, blocks, targets, workers, datatypes_by_property)
    counts = finishing.some(range(parts.buckets), progress)
    return [joined_rows(of, left_out) for of, left_out in zip(counts, finishing.plan.left_out, strict=True)]


def finish_buckets(
    parts: PartFiles,
    blocks: int,
    targets: Sequence[Target],
    *,
    numbers: Sequence[int],
    workers: int = 1,
    datatypes_by_property: bool = False,
    progress: Advance = ignore,
) -> None:
    """Do a part of `join_parts`: plan and gather unless that is done, and finish the buckets with these numbers."""
    _finishing(parts, blocks, targets, workers, datatypes_by_property).some(numbers, progress)


def _finishing(
    parts: PartFiles, blocks: int, targets: Sequence[Target], workers: int, datatypes_by_property: bool
) -> _Finishing:
    staging, made_of = parts.folder.parent, _made_of(parts, blocks, targets)
    runs = staging / "gathered"
    if _read_made_of(parts) != made_of:
        for earlier in (runs, staging / PLAN):
            shutil.rmtree(earlier, ignore_errors=True)
        for target in targets:
            remove_counts(target)
        write_json(staging / _MADE_OF, made_of)
    workers = min(workers, max(available_memory() // 2 // _MEMORY_PER_BUCKET, 1))
    at_once = min(workers, parts.buckets)
    gathered = gather(parts, blocks, runs, workers=at_once)
    # The plan is the last thing that is written before buckets are finished: if it is there, the runs are.
    plan = plan_join(parts, blocks, targets, datatypes_by_property=datatypes_by_property)
    return _Finishing(gathered, targets, plan, staging / "spill", at_once, workers // at_once)


_MADE_OF = "joined-from.json"
"""File beside the parts that states what the plan, the runs and the finished buckets were made of."""


def _made_of(parts: PartFiles, blocks: int, targets: Sequence[Target]) -> dict[str, Any]:
    days = [target.date for target in targets]
    return {"parsed": parsed_digest(parts.folder, blocks), "days": days, "buckets": parts.buckets}


def _read_made_of(parts: PartFiles) -> Any:
    try:
        return json.loads(parts.folder.with_name(_MADE_OF).read_bytes())
    except (FileNotFoundError, ValueError):
        return None


def is_planned(parts: PartFiles, blocks: int, targets: Sequence[Target]) -> bool:
    """Whether these parts are gathered and planned, so that their buckets can be finished."""
    return _read_made_of(parts) == _made_of(parts, blocks, targets) and parts.folder.with_name(PLAN).is_dir()


def joined_rows(counts: Counter[str], redirects_left_out: dict[str, int]) -> Joined:
    """Counts of a snapshot, from the sums of those of its buckets (kgedit.store.buckets.write_bucket)."""
    return Joined(
        claims=counts["claims"],
        claims_with_value=counts["claims with value"],
        facts=counts["facts"],
        entities=counts["entities"],
        redirects=counts["redirects"],
        repeated_entities=counts["repeated entities"],
        repeated_statements=counts["repeated statements"],
        statements_of_repeated_entities=counts["statements of repeated entities"],
        redirects_left_out=redirects_left_out,
        placements=Counter({place: counts[place] for place in PLACES if counts[place]}),
        later_entities=counts["later entities"],
    )


def remove_counts(target: Target) -> None:
    """Remove the files that mark finished buckets, before the snapshot is put in place."""
    for path in target.folder.glob("*.counts-*.json*"):  # also those that a killed process has not renamed
        path.unlink()


@dataclass(frozen=True, slots=True)
class _Finishing:
    """Finishes gathered buckets of some snapshots.

    Attributes:
        gathered: The rows.
        targets: The snapshots.
        plan: Tables of the whole dump.
        spill: Folder for the spill folders of the buckets.
        at_once: Number of buckets that are finished at once.
        threads_each: Number of threads that finish a bucket.
    """

    gathered: Gathered
    targets: Sequence[Target]
    plan: JoinPlan
    spill: Path
    at_once: int
    threads_each: int

    def some(self, numbers: Sequence[int], progress: Advance) -> list[Counter[str]]:
        """Finish some buckets in threads: DuckDB and Arrow release the interpreter's lock."""
        counts: list[Counter[str]] = [Counter() for _ in self.targets]
        with ThreadPoolExecutor(self.at_once) as pool:
            for of_bucket in pool.map(self._one, numbers):
                for sums, more in zip(counts, of_bucket, strict=True):
                    sums.update(more)
                done = counts[0]["claims"] + counts[0]["entities"]
                progress(min(1000 * done // max(self.plan.rows, 1), 1000), done)
        return counts

    def _one(self, number: int) -> list[Counter[str]]:
        targets = [self._target(place, number) for place in range(len(self.targets))]
        finished = [_finished(target) for target in targets]
        if all(counts is not None for counts in finished):
            return [counts for counts in finished if counts is not None]
        read, spill = partial(self.gathered.rows, number), self.spill / f"bucket-{number:05d}"
        broadcast, share, threads = self.plan.broadcast, self.at_once, self.threads_each
        made = write_bucket(read, targets, broadcast, spill=spill, share=share, threads=threads)
        for target, counts in zip(targets, made, strict=True):
            write_json(_counts_file(target), {"counts": counts, "sizes": _sizes(target)})
        return made

    def _target(self, place: int, number: int) -> BucketTarget:
        target, buckets = self.targets[place], self.gathered.parts.buckets
        return BucketTarget(
            folder=target.folder,
            date=target.date,
            redirects=self.plan.redirects_of(place, number, buckets),
            as_of=target.as_of,
            number=number,
            buckets=buckets,
        )


def _counts_file(target: BucketTarget) -> Path:
    return target.folder / f".counts-{target.number:05d}.json"


def _sizes(target: BucketTarget) -> list[int]:
    """Sizes of the files of a bucket, which differ if the machine failed before they were written to the disk."""
    return [target.file(table).stat().st_size for table in ("claims", "facts", "entities")]


def _finished(target: BucketTarget) -> Counter[str] | None:
    """Counts of a bucket that an earlier attempt finished; None if it must be finished."""
    try:
        done = json.loads(_counts_file(target).read_bytes())
        return Counter(done["counts"]) if done["sizes"] == _sizes(target) else None
    except (FileNotFoundError, ValueError):
        return None
