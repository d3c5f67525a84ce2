"""`audit`: checks the rows of a file of edits against two snapshots."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from kgedit.resources import use_home
from kgedit.verbs.home_folder import read_date
from kgedit.verbs.options import AnyPath, Day, HomeVerb, argument, flag, options

if TYPE_CHECKING:
    from kgedit.timesteps.audit import Audit


@options
class AuditEdits(HomeVerb["Audit"]):
    """Check a file of edits against two snapshots.

    FILE is any file that `run-edit --edits` accepts, or a timestep: its folder, its name in the home, or two dates as
    2021-01-04..2023-02-27. Labels are resolved to ids if ids are missing. A row is valid if its edit is a current main
    statement that changed in the window, its locality questions ask for facts that did not change, and its two-hop
    questions depend on the edit. The table counts verdicts and reasons with 95 % intervals (Wilson). A valid row is not
    an update if, for example, the change is a late entry or a refinement: a second table counts the valid rows by kind
    of change, with the mean confidence of each kind. csv has one line per row of the file; json has all of these. Reads
    the store; no server is needed.
    """

    file: AnyPath = argument(kw_only=False, complete="timesteps", help="File of edits, or a timestep.")
    older: Day = flag(
        "--from",
        kw_only=False,
        complete="snapshot_dates",
        help="Date of the older snapshot, in which the edits must not be true yet.",
    )
    newer: Day = flag(
        "--to",
        kw_only=False,
        complete="snapshot_dates",
        help="Date of the newer snapshot, in which they must be true.",
    )

    def run(self, home: Path) -> Audit:
        """Check the file.

        Raises:
            StoreError: if a snapshot is not loaded.
            TimestepError: if the file cannot be read, or the dates are reversed.
        """
        from kgedit.store.disk import disk_errors
        from kgedit.store.snapshots import list_snapshots, open_snapshot
        from kgedit.timesteps.audit import audit_edits
        from kgedit.timesteps.edit_files import open_edits

        old, new = (open_snapshot(home, read_date(date)) for date in (self.older, self.newer))
        earlier = [snapshot for snapshot in list_snapshots(home) if snapshot.date < old.date]
        spill = home / "snapshots" / f".audit-{os.getpid()}"
        with use_home(home), disk_errors(home, again="give the same command again"):
            return audit_edits(open_edits(Path(self.file)), old, new, earlier, spill=spill)
