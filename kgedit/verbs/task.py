"""`task`: one of many shares of a load, of a delta or of load-changes, for clusters with a shared folder."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from kgedit.errors import StoreError
from kgedit.machine import usable_cores
from kgedit.progress import Steps
from kgedit.store import CHANGES_STAGES, TASK_STAGES
from kgedit.store.scope import Scope, kept_scope
from kgedit.verbs.home_folder import read_date
from kgedit.verbs.live_progress import step_line
from kgedit.verbs.load_dump import OnEngine, ReadOptions, read_load
from kgedit.verbs.options import AnyPath, Day, HomeVerb, OneOf, argument, flag, options, python_only

if TYPE_CHECKING:
    from kgedit.store.builds import Load
    from kgedit.store.snapshots import Snapshot


@options
class RunTask(OnEngine, ReadOptions, HomeVerb[int]):
    """Do a part of a load, of a delta for the graph, or of load-changes, on one of many machines.

    All parts share the home (docs/how-to/full-dumps.md). The stages of a load are parse and finish, in any number of
    parts, with gather between them; then load-dump with the same options completes the snapshot. The stage delta finds
    what changed since the snapshot before; the next command that updates the graph writes it there. After
    select-changes, take-changes in any number of parts writes what changed in another store, and load-changes
    completes it. A part that failed is repeated.
    """

    stage: Annotated[str, OneOf(TASK_STAGES)] = argument(
        kw_only=False, help="Stage of the load or of load-changes, or delta."
    )
    date: Day = flag(kw_only=False, complete="snapshot_dates", help="Day of the dump, or of the newer snapshot.")
    path: AnyPath | None = argument(
        default=None,
        kw_only=False,
        help="Dump file, plain or compressed (.gz, .bz2, .zst); of load-changes the home folder of the other store. "
        "None for delta.",
    )
    older: Day | None = flag("--from", default=None, help="Day of the older snapshot, for stages of load-changes.")
    part: str = flag(default="1/1", metavar="K/N", help="The K-th of N parts: every N-th block or bucket.")
    progress: Steps | None = python_only(default=None, help="Progress callback.")

    def run(self, home: Path) -> int:
        """Do the part.

        Returns:
            Number of blocks or buckets of the part.

        Raises:
            SourceError: if the dump cannot be read.
            StoreError: if the part is not K/N, the stage before is not complete, or options do not fit the stage.
            DamagedFileError: if a file of the other store is damaged.
        """
        if self.stage in CHANGES_STAGES:
            return self._changes(home)
        if self.older is not None:
            raise StoreError(f"The stage {self.stage} has no older day. Leave out --from.")
        if self.stage == "delta":
            return self._delta(home)
        if self.engine == "spark":
            raise StoreError("Spark runs a whole load, not its parts: kgedit load-dump PATH --date DAY --engine spark")
        with self.open_engine():
            return self._load(home)

    def _load(self, home: Path) -> int:
        from kgedit.store.sources import DumpFile
        from kgedit.store.tasks import read_share, run_task

        if self.path is None:
            raise StoreError(f"The stage {self.stage} reads a dump. Give its path after the stage.")
        share, source = read_share(self.part), DumpFile(Path(self.path))
        load: Load = read_load(source, read_date(self.date), self)
        total = source.size if self.stage == "parse" else 1000
        report = (self.progress or step_line)(f"Stage {self.stage}", total, "rows")
        workers = self.workers or usable_cores()
        return run_task(home, load, source, self.stage, share, workers=workers, progress=report)

    def _delta(self, home: Path) -> int:
        from kgedit.store.tasks import read_share, run_delta_task

        if self.path is not None:
            raise StoreError("The stage delta compares two snapshots of the store. Leave out the path of a dump.")
        share, scope = read_share(self.part), kept_scope(home) or Scope()
        if scope.follows_changes:
            raise StoreError(
                f"The graph of {home} contains {scope.describe()}. It is written as a whole after each load, without "
                "deltas."
            )
        older, newer = _neighbours(home, read_date(self.date))
        if self.engine == "spark" and share.of != 1:
            raise StoreError("Spark runs all parts of a delta. Leave out --part.")
        with self.open_engine() as session:
            if session is None:
                return run_delta_task(home, older, newer, scope, share)
            from kgedit.spark.tasks import write_delta_on_spark

            return write_delta_on_spark(session, home, older, newer, scope)

    def _changes(self, home: Path) -> int:
        from kgedit.store.snapshots import open_snapshot
        from kgedit.store.tasks import read_share
        from kgedit.timesteps.changes_only import run_changes_task, take_changes_on_spark

        if self.path is None or self.older is None:
            raise StoreError(
                f"The stage {self.stage} compares two snapshots of another store. Give its home folder after the "
                "stage, and the days: --from DAY --date DAY"
            )
        share, store = read_share(self.part), Path(self.path)
        if self.engine == "spark" and (self.stage == "select-changes" or share.of != 1):
            raise StoreError("Spark runs all parts of take-changes: leave out --part, and select-changes here.")
        old, new = (open_snapshot(store, read_date(day)) for day in (self.older, self.date))
        with self.open_engine() as session:
            if session is None:
                return run_changes_task(home, old, new, self.stage, share)
            return take_changes_on_spark(session, home, old, new)


def _neighbours(home: Path, date: datetime.date) -> tuple[Snapshot, Snapshot]:
    """The snapshot before that of a date, and that one."""
    from kgedit.store.snapshots import list_snapshots, open_snapshot

    newer = open_snapshot(home, date)
    older = [snapshot for snapshot in list_snapshots(home) if snapshot.date < newer.date]
    if not older:
        raise StoreError(f"{newer.name} is the oldest snapshot of {home}. A delta compares it with the one before it.")
    return older[-1], newer
