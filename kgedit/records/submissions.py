"""A run on a leaderboard: content of its entry.json.

The entry contains no paths of the machine that ran it; models and timesteps are identified by name and hash.
"""

from __future__ import annotations

from dataclasses import dataclass

from kgedit.records.runs import Preparation, RunEnvironment, RunSpec, Selection
from kgedit.records.scores import RunScores

ENTRY_FORMAT = "kgedit-entry-2"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedTimestep:
    """A timestep, or a file of edits, of a submitted run.

    Attributes:
        name: Name within the run.
        sha256: SHA-256 of timestep.json or of the file.
        tables: Table -> SHA-256 of its file; empty for a file of edits.
        cases: Number of cases.
    """

    name: str
    sha256: str
    tables: dict[str, str]
    cases: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitterNote:
    """Statement of the submitter; not part of the identity of the run.

    Attributes:
        submitter: Name of a person or a group; None if anonymous.
        date: Day of submission (YYYY-MM-DD).
        report: Address of the run's report page, or "report.html" if it is in the entry; None without one.
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
        name: Name of the entry and its folder: method, model, protocol, seed, and a hash of the run and its answers.
        statement: Statement of the submitter.
        spec: Resolved spec, with model and timesteps by name.
        environment: Environment of the run.
        preparation: Preparation before the first edit; None if the method needs none.
        selection: How the edited cases were chosen.
        timesteps: Timesteps in the order of learning.
        run_files: File of the run folder -> its SHA-256.
        files: File of the entry's folder except entry.json -> its SHA-256.
        scores: Content of scores.json.
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
