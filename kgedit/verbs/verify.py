"""`verify`: compares all files of a home with their checksums."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kgedit.progress import Steps
from kgedit.verbs.live_progress import step_line
from kgedit.verbs.options import HomeVerb, flag, options, python_only

if TYPE_CHECKING:
    from kgedit.verbs.verifying import VerifiedPart


@options
class Verify(HomeVerb["list[VerifiedPart]"]):
    """Check that no file of a home is damaged.

    Reads every snapshot, timestep, stream, run, memory and cache in HOME ($KGEDIT_HOME by default) and compares it with
    the checksum recorded when it was written. Other commands check a file before they first use it, and trust large
    files whose size and time have not changed since; this command reads everything. The exit code is 1 if a file is
    damaged.
    """

    record: bool = flag(
        default=False, help="Record checksums for snapshots and timesteps that have none, if they can be decoded."
    )
    progress: Steps | None = python_only(default=None, help="Progress callback.")

    def run(self, home: Path) -> list[VerifiedPart]:
        """Read and compare.

        Returns:
            One row per snapshot, timestep, run and so on.
        """
        from kgedit.store.disk import disk_errors
        from kgedit.verbs.verifying import verify_home

        with disk_errors(home):
            report = (self.progress or step_line)("Reading the home", 1000, "parts")
            return verify_home(home, record=self.record, progress=report)
