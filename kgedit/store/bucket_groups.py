"""Buckets of several snapshots that contain the same subjects, so that snapshots are compared a part at a time.

Each snapshot has a power of two of buckets, by one hash of the subject. Bucket k of B is therefore buckets k, k + B,
k + 2B, ... of a snapshot with more of them.
"""

from __future__ import annotations

import glob
from collections.abc import Iterable
from dataclasses import dataclass

from kgedit.store.engine import literal
from kgedit.store.snapshots import Snapshot, SnapshotTable


@dataclass(frozen=True, slots=True)
class BucketGroup:
    """Subjects with one hash, in any snapshot with at least `of` buckets.

    Attributes:
        number: Number of the bucket, in [0, of).
        of: Number of buckets that the subjects are divided into.
    """

    number: int
    of: int

    def rows(self, snapshot: Snapshot, table: SnapshotTable) -> str:
        """SQL relation of the rows of a snapshot's table about these subjects.

        Raises:
            DamagedFileError: if a file is missing or differs from what was loaded.
        """
        paths = [snapshot.bucket_file(table, bucket) for bucket in range(self.number, snapshot.buckets, self.of)]
        return f"read_parquet([{', '.join(literal(glob.escape(str(path))) for path in paths)}])"


def bucket_groups(snapshots: Iterable[Snapshot]) -> list[BucketGroup]:
    """Groups that together contain all subjects; as many as the snapshot with the fewest buckets has."""
    of = min(snapshot.buckets for snapshot in snapshots)
    return [BucketGroup(number, of) for number in range(of)]
