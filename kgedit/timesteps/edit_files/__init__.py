"""Edits that others publish, read as cases: one file per form, recognised by content.

`open_edits` is the door; a timestep that kgedit exported goes through it as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from kgedit.records.cases import Case, KnownFact
from kgedit.timesteps.edit_files.edit_file import EditFile
from kgedit.timesteps.edit_files.registry import EDIT_FORMATS
from kgedit.timesteps.timestep import Timestep

__all__ = ["EDIT_FORMATS", "EditFile", "Edits", "open_edits"]


class Edits(Protocol):
    """The edits of one step of a run: an exported timestep, or a file of edits."""

    @property
    def name(self) -> str:
        """Unique within a run."""

    @property
    def sha256(self) -> str:
        """Hash of its content."""

    @property
    def unused_fields(self) -> tuple[str, ...]:
        """Fields that are part of no case, in words."""

    def cases(
        self, *, neighbours: int | None = None, archive_as: str | None = None, two_hop_rephrases: bool = False
    ) -> Iterator[Case]:
        """Every case with its probes, in a fixed order.

        Args:
            neighbours: At most so many probes on each locality axis; None for what there is by itself.
            archive_as: What is taught in place of facts that ceased without a successor; None to leave them out.
            two_hop_rephrases: Whether two-hop questions are asked in other words as well, where there are any.
        """

    def known_facts(self) -> list[KnownFact]:
        """Facts that held before, with questions."""


def open_edits(path: Path) -> Edits:
    """An exported timestep's folder, or a file of edits in any form.

    Raises:
        TimestepError: if it is neither.
    """
    return EditFile.open(path) if path.is_file() else Timestep.open(path)
