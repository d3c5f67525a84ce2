"""Published edits, read as cases: one module per format, recognised by content.

`open_edits` is the entry point, also for timesteps exported by kgedit.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from kgedit.records.cases import Case, KnownFact
from kgedit.timesteps.edit_files.contract import EDIT_FORMATS
from kgedit.timesteps.edit_files.edit_file import EditFile
from kgedit.timesteps.timestep import Timestep

__all__ = ["EDIT_FORMATS", "EditFile", "Edits", "open_edits"]


class Edits(Protocol):
    """The edits of one step of a run: an exported timestep, or a file of edits."""

    @property
    def name(self) -> str:
        """Name, unique within a run."""

    @property
    def sha256(self) -> str:
        """Hash of the content."""

    @property
    def unused_fields(self) -> tuple[str, ...]:
        """Fields that are not part of any case, as text."""

    def cases(
        self, *, neighbours: int | None = None, archive_as: str | None = None, two_hop_rephrases: bool = False
    ) -> Iterator[Case]:
        """Yield every case with its probes, in a fixed order.

        Args:
            neighbours: Maximum number of probes on each locality axis; None means the default of the edits.
            archive_as: Target for facts that ended without a successor; None leaves them out.
            two_hop_rephrases: Whether to add paraphrases of two-hop questions, if there are any.
        """

    def known_facts(self) -> list[KnownFact]:
        """Facts that held before, with questions."""


def open_edits(path: Path) -> Edits:
    """Open an exported timestep's folder, or a file of edits in any format.

    Raises:
        TimestepError: if it is neither.
    """
    return EditFile.open(path) if path.is_file() else Timestep.open(path)
