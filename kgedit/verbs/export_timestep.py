"""`export-timestep`: exports the changes between two snapshots, or between all neighbouring ones, as questions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from kgedit.verbs.export_options import ExportOptions
from kgedit.verbs.home_folder import read_date
from kgedit.verbs.options import Day, HomeVerb, flag, options, python_only

if TYPE_CHECKING:
    from kgedit.timesteps.stream import Stream
    from kgedit.timesteps.timestep import Timestep


@options
class ExportTimestep(ExportOptions, HomeVerb["Timestep"]):
    """Export the changes between two snapshots as questions.

    The folder contains a timestep: edits with their rephrased, persona, locality and two-hop questions. With --profile
    wikifactdiff it also contains what became true, ceased to be true and stayed true for each subject and relation,
    with neighbours.

    An existing timestep is kept if the export would be identical, so with --all an interrupted command resumes.
    """

    older: Day = flag("--from", kw_only=False, complete="snapshot_dates", help="Date of the older snapshot.")
    newer: Day = flag("--to", kw_only=False, complete="snapshot_dates", help="Date of the newer snapshot.")

    def run(self, home: Path) -> Timestep:
        """Export the timestep, or keep an identical one.

        Raises:
            StoreError: if a snapshot is not loaded.
            TimestepError: if the folder contains anything else, the dates are reversed, the graph lacks a snapshot, or
                an option is not one of the profile's.
        """
        from kgedit.store.snapshots import open_snapshot
        from kgedit.timesteps.timestep import timestep_folder, timesteps_folder
        from kgedit.verbs.exporting import export_pair, keep_exported

        self.check()
        old, new = (open_snapshot(home, read_date(day)) for day in (self.older, self.newer))
        folder = timestep_folder(timesteps_folder(home), old.date, new.date, self.profile)
        folder = folder if self.out is None else Path(self.out)
        export = keep_exported if folder.exists() and not self.overwrite else export_pair
        return export(home, old, new, folder, options=self)


@options
class ExportAll(ExportOptions, HomeVerb["Stream"]):
    """Export timesteps between all consecutive snapshots, and the stream that links them (docs/how-to/streams.md).

    Each is byte-identical to the output of `export_timestep`. An existing identical timestep is kept, so an interrupted
    call resumes.
    """

    on_timestep: Callable[[str, bool], None] | None = python_only(
        default=None, help="Called with each timestep's name, and whether it was kept."
    )

    def run(self, home: Path) -> Stream:
        """Export the timesteps and the stream.

        Raises:
            TimestepError: if there are fewer than two snapshots, a folder contains a timestep exported with other
                options, the graph lacks a snapshot, or an option is not one of the profile's.
        """
        from kgedit.timesteps.timestep import timesteps_folder
        from kgedit.verbs.exporting import export_stream

        self.check()
        folder = timesteps_folder(home) if self.out is None else Path(self.out)
        return export_stream(home, folder, options=self, on_timestep=self.on_timestep or (lambda _name, _kept: None))
