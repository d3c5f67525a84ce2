"""A home: the folder with snapshots, timesteps, and the graph built from the snapshots."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kgedit.progress import Steps
from kgedit.resources import use_home
from kgedit.verbs.audit import AuditEdits
from kgedit.verbs.browse import Browse, Find
from kgedit.verbs.export_timestep import ExportAll, ExportTimestep
from kgedit.verbs.home_folder import Date, read_date
from kgedit.verbs.home_graph import HomeGraph
from kgedit.verbs.load_dump import LoadChanges, LoadDump, LoadDumpAsOf
from kgedit.verbs.options import method_of
from kgedit.verbs.query import RunQuery
from kgedit.verbs.snapshots import Cycles, DropSnapshot, Relations
from kgedit.verbs.verify import Verify
from kgedit.wikidata.times import day_number

if TYPE_CHECKING:
    from kgedit.timesteps.timestep import Timestep

__all__ = ["Date", "Home", "Steps", "folder_of", "read_date"]


class Home(HomeGraph):
    """A folder of snapshots, with the graph and the timesteps created from them.

    Nothing is read, written or started before a method needs it. Methods that need the graph start the home's own
    server if none is running, or use that of `KGEDIT_GRAPH_URI`.

    Args:
        path: Home folder; None means `$KGEDIT_HOME`, else `./kgedit-data`.
    """

    load_dump = method_of(LoadDump)
    load_dump_as_of = method_of(LoadDumpAsOf)
    load_changes = method_of(LoadChanges)
    drop_snapshot = method_of(DropSnapshot)
    verify = method_of(Verify)
    relations = method_of(Relations)
    cycles = method_of(Cycles)
    query = method_of(RunQuery, name="query")
    find = method_of(Find)
    browser_page = method_of(Browse, name="browser_page")
    audit = method_of(AuditEdits, name="audit")
    export_timestep = method_of(ExportTimestep)
    export_all = method_of(ExportAll)

    def timestep(self, older: Date, newer: Date, *, profile: str = "wikibigedit") -> Timestep:
        """Open the timestep that `export_timestep` wrote into this home.

        Raises:
            TimestepError: if there is none.
        """
        from kgedit.timesteps.timestep import Timestep

        days = (day_number(read_date(older)), day_number(read_date(newer)))
        with use_home(self.path):
            return Timestep.open(self._timestep_folder(*days, profile))

    def _timestep_folder(self, older: int, newer: int, profile: str) -> Path:
        from kgedit.timesteps.timestep import timestep_folder, timesteps_folder

        return timestep_folder(timesteps_folder(self.path), older, newer, profile)


def folder_of(home: Home | str | Path | None) -> Path | None:
    """Folder of a home given as an object or a path; None if there is none."""
    if home is None:
        return None
    return home.path if isinstance(home, Home) else Path(home)
