"""Audits a file of edits against two snapshots: finds the invalid rows, and the reasons."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from kgedit.errors import TimestepError
from kgedit.progress import step
from kgedit.store.snapshots import Snapshot
from kgedit.timesteps.audit.checks import judge_edits, judge_locality, judge_two_hops
from kgedit.timesteps.audit.claims import claimed_rows, open_snapshots
from kgedit.timesteps.audit.result import Audit, find_kinds, summarise
from kgedit.timesteps.edit_files import Edits
from kgedit.wikidata.times import not_before

__all__ = ["Audit", "audit_edits"]

_STEPS = 6  # as reported to the progress


def audit_edits(edits: Edits, old: Snapshot, new: Snapshot, earlier: Sequence[Snapshot] = (), *, spill: Path) -> Audit:
    """Check every edit with its locality and two-hop questions.

    Args:
        edits: A file of edits, or a timestep.
        old: Snapshot in which the edits should not hold yet.
        new: Snapshot in which they should hold.
        earlier: Loaded snapshots before the older one, by which a change can be judged a revert.
        spill: Folder for data that does not fit in memory; it is deleted.

    Raises:
        TimestepError: if the snapshots are in the wrong order.
    """
    if old.date >= new.date:
        raise TimestepError(not_before(old.name, new.name))
    step("reading the file", 0, _STEPS)
    claimed = claimed_rows(edits)
    try:
        with open_snapshots(old, new, claimed, spill=spill) as connection:
            step("judging edits", 1, _STEPS)
            judge_edits(connection, date=new.date)
            step("judging kinds of change", 2, _STEPS)
            find_kinds(connection, old, new, earlier, spill=spill / "kinds")
            step("judging locality questions", 3, _STEPS)
            judge_locality(connection)
            step("judging two-hop questions", 4, _STEPS)
            judge_two_hops(connection)
            step("counting", 5, _STEPS)
            return summarise(connection, edits, old, new)
    finally:
        shutil.rmtree(spill, ignore_errors=True)
