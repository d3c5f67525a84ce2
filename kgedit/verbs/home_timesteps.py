"""Timesteps of a home: exports and opens them, and checks edits against its snapshots."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kgedit.resources import use_home
from kgedit.verbs.export_timestep import ExportAll, ExportTimestep
from kgedit.verbs.home_folder import Date, HomeFolder, read_date
from kgedit.verbs.options import method_of
from kgedit.wikidata.times import day_number

if TYPE_CHECKING:
    from kgedit.timesteps.timestep import Timestep


class HomeTimesteps(HomeFolder):
    """Part of a home that exports timesteps from pairs of its snapshots."""

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
