"""`cycles`: classes below themselves and parts of their own parts, in a snapshot."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kgedit.verbs.home_folder import read_date
from kgedit.verbs.options import Day, HomeVerb, flag, options

if TYPE_CHECKING:
    import pyarrow as pa


@options
class Cycles(HomeVerb["pa.Table"]):
    """List cycles among classes and among containers.

    Returns one row per member of a cycle, by subclass of (P279) and by containment (P131, P171, P279, P361 and P527).
    Filters and kinds of change follow these chains; in a cycle each member counts as below, or within, every other.
    Reads the store; no server is needed.
    """

    date: Day = flag(kw_only=False, complete="snapshot_dates", help="Date of the snapshot.")

    def run(self, home: Path) -> pa.Table:
        """Find them.

        Returns:
            Columns relation ("subclass of" or "containment"), cycle (the member with the smallest number), id, label.

        Raises:
            StoreError: if the snapshot is not loaded.
        """
        from kgedit.store.snapshots import open_snapshot
        from kgedit.verbs.subgraphs import cycles

        return cycles(open_snapshot(home, read_date(self.date)))
