"""`task`: one of many shares of a load, for clusters with a shared folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from kgedit.machine import usable_cores
from kgedit.progress import Steps
from kgedit.store import TASK_STAGES
from kgedit.verbs.home_folder import read_date
from kgedit.verbs.live_progress import step_line
from kgedit.verbs.load_dump import ReadOptions, read_load
from kgedit.verbs.options import AnyPath, Day, HomeVerb, OneOf, argument, flag, options, python_only

if TYPE_CHECKING:
    from kgedit.store.builds import Load


@options
class RunTask(ReadOptions, HomeVerb[int]):
    """Do a part of a load on one of many machines.

    All parts share the home (docs/how-to/full-dumps.md). The stages are parse and finish, in any number of
    parts, with gather between them. A part that failed is repeated. Then load-dump with the same options completes the
    snapshot.
    """

    stage: Annotated[str, OneOf(TASK_STAGES)] = argument(kw_only=False, help="Stage of the load.")
    path: AnyPath = argument(kw_only=False, help="Dump file, plain or compressed (.gz, .bz2, .zst).")
    date: Day = flag(kw_only=False, help="Day of the dump.")
    part: str = flag(default="1/1", metavar="K/N", help="The K-th of N parts: every N-th block or bucket.")
    progress: Steps | None = python_only(default=None, help="Progress callback.")

    def run(self, home: Path) -> int:
        """Do the part.

        Returns:
            Number of blocks or buckets of the part.

        Raises:
            SourceError: if the dump cannot be read.
            StoreError: if the part is not K/N, or the stage before is not complete.
        """
        from kgedit.store.sources import DumpFile
        from kgedit.store.tasks import read_share, run_task

        share, source = read_share(self.part), DumpFile(Path(self.path))
        load: Load = read_load(source, read_date(self.date), self)
        total = source.size if self.stage == "parse" else 1000
        report = (self.progress or step_line)(f"Stage {self.stage}", total, "rows")
        workers = self.workers or usable_cores()
        return run_task(home, load, source, self.stage, share, workers=workers, progress=report)
