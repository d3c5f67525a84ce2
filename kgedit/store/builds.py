"""How the files of snapshots are built from a dump: in processes and threads of this machine, or on a cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from kgedit.progress import Advance, ignore
from kgedit.store.blocks import parse_blocks
from kgedit.store.joining import Joined, join_parts
from kgedit.store.late_values import read_late_values
from kgedit.store.planning import Target
from kgedit.store.sources import DumpFile

if TYPE_CHECKING:
    from kgedit.store.ingest import Load

CheckCounts = Callable[[Counter[str]], None]
"""Raises SourceError if the counts of what was parsed are those of a bad dump."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotPlan:
    """Snapshots to build from a dump.

    Attributes:
        load: Options of the load; of several, its date is that of the first one.
        source: The dump, whose `sha256` the build sets.
        staging: Folder for what a later attempt can use.
        targets: The snapshots; several only if they are projections.
        buckets: Number of buckets of each snapshot.
    """

    load: Load
    source: DumpFile
    staging: Path
    targets: Sequence[Target]
    buckets: int


class SnapshotBuild(Protocol):
    """Builds the files of all buckets in the folders of the targets."""

    def __call__(self, plan: SnapshotPlan, check: CheckCounts) -> tuple[Counter[str], list[Joined]]:
        """Build the files.

        Args:
            plan: What to build.
            check: Called between parsing and writing.

        Returns:
            Counts of what was parsed (kgedit.store.schemas.Parsed), and of the rows of each snapshot.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalBuild:
    """Builds snapshots on this machine.

    Attributes:
        workers: Number of worker processes that parse.
        progress: Called with the number of source bytes read and of lines parsed so far.
        joining: Called with the thousandths and the number of rows joined so far.
    """

    workers: int
    progress: Advance = ignore
    joining: Advance = ignore

    def __call__(self, plan: SnapshotPlan, check: CheckCounts) -> tuple[Counter[str], list[Joined]]:
        """Parse the blocks that no earlier attempt parsed, and join them."""
        load, parts = plan.load, plan.staging / "parts"
        blocks, counts = parse_blocks(
            parts,
            plan.source,
            load.make_loader,
            framing=load.framing,
            limit=load.limit,
            workers=self.workers,
            progress=self.progress,
        )
        counts.update(read_late_values(parts, blocks, load.make_loader, spill=plan.staging / "spill"))
        check(counts)
        joined = join_parts(
            parts,
            blocks,
            plan.targets,
            buckets=plan.buckets,
            workers=self.workers,
            datatypes_by_property=load.datatypes_by_property,
            progress=self.joining,
        )
        return counts, joined
