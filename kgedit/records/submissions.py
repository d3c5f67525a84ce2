"""A run on a leaderboard's board: what entry.json of its folder says.

The entry holds no path of the machine that the run was made on: models and timesteps are known by name and hash.
"""

from __future__ import annotations

from dataclasses import dataclass

from kgedit.records.runs import Preparation, RunEnvironment, RunSpec, Selection
from kgedit.records.scores import RunScores

ENTRY_FORMAT = "kgedit-entry-2"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedTimestep:
    """A timestep, or a file of edits, that a submitted run was made on.

    Attributes:
        name: Its name within the run.
        sha256: Of timestep.json, or of the file.
        tables: Table -> SHA-256 of its file; empty for a file of edits.
        cases: Cases that it holds.
    """

    name: str
    sha256: str
    tables: dict[str, str]
    cases: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitterNote:
    """What the submitter says; it is no part of what the run is known by.

    Attributes:
        submitter: Name of a person or a group; None where nobody is told.
        date: Day of submission (YYYY-MM-DD).
        report: Address of the run's report page, or "report.html" where it lies in the entry; None without one.
        note: One line; "" without one.
    """

    submitter: str | None
    date: str
    report: str | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """Content of entry.json.

    Attributes:
        format: ENTRY_FORMAT.
        name: Of the entry and its folder: method, model, protocol, seed, and a hash of what was run and answered.
        statement: What the submitter says.
        spec: As resolved; model and timesteps by name.
        environment: What the run was made with.
        preparation: What came before the first edit; None where the method needs nothing.
        selection: How the edited cases were chosen.
        timesteps: In the order in which they were learned.
        run_files: File of the run folder -> its SHA-256.
        files: File of the entry's folder, entry.json itself left out -> its SHA-256.
        scores: As scores.json has them.
    """

    format: str
    name: str
    statement: SubmitterNote
    spec: RunSpec
    environment: RunEnvironment
    preparation: Preparation | None
    selection: tuple[Selection, ...]
    timesteps: tuple[SubmittedTimestep, ...]
    run_files: dict[str, str]
    files: dict[str, str]
    scores: RunScores
