"""Published results: a saved edited model (kgedit.json), a board's entry (entry.json), and tables of scores.

None of them contains a path of the machine; models and timesteps are identified by name and hash.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from kgedit.records.runs import Preparation, RunEnvironment, RunSpec, Selection, Setting
from kgedit.records.scores import RunScores


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedEdit:
    """One edit: the prompt and the target."""

    case_id: str
    subject: str
    prompt: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedContext:
    """A context that edits were trained in; the fields are those of `Context`."""

    name: str
    template: str
    in_chat: bool = False
    demonstrations: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedEdits:
    """Content of kgedit.json.

    Attributes:
        format: Version of this record.
        kgedit: Version of kgedit that wrote it.
        method: Name of the editing method.
        source: Publication that describes the method.
        base_model: Unedited model: name on the hub, built-in name, or name of its folder; "" if unnamed.
        base_revision: Its commit on the hub, or "".
        base_fingerprint: Digest of its weights, configuration and tokenizer.
        base_shape: Number of its blocks, and width of its hidden states; () in folders of earlier versions.
        base_format: Its number format and kind of device, on which its fingerprint depends; "" in folders of earlier
            versions.
        weights: Format of the saved weights for transformers or peft: the whole edited model, an adapter, or none.
        memory: Whether edits are stored in memory.json and memory.safetensors.
        settings: All hyperparameters.
        contexts: Contexts that edits were trained in.
        seed: Source of all randomness.
        edits: Edits in the order in which they were applied.
    """

    format: int
    kgedit: str
    method: str
    source: str
    base_model: str
    base_revision: str
    base_fingerprint: str
    weights: Literal["model", "adapter", "none"]
    memory: bool
    settings: dict[str, Setting]
    contexts: tuple[SavedContext, ...]
    seed: int
    edits: tuple[SavedEdit, ...]
    base_shape: tuple[int, ...] = ()
    base_format: str = ""


ENTRY_FORMAT = "kgedit-entry-2"
"""Version of an entry; entries of another version are refused."""


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


RESULTS = pa.schema(
    [
        ("run", pa.string()),
        ("model", pa.string()),
        ("method", pa.string()),
        ("protocol", pa.string()),
        ("edits", pa.int64()),
        ("seed", pa.int64()),
        ("stage", pa.string()),
        ("timestep", pa.string()),
        ("axis", pa.string()),
        ("preset", pa.string()),
        ("metric", pa.string()),
        ("main", pa.bool_()),
        ("is_share", pa.bool_()),
        ("n", pa.int64()),
        ("relations", pa.int64()),
        ("mean", pa.float64()),
        ("low", pa.float64()),
        ("high", pa.float64()),
        ("answers_sha256", pa.string()),
        ("cases_sha256", pa.string()),
    ]
)
"""run: name of the run's folder. model: its name, or the last part of its path. edits: number of different cases
applied. The columns from stage to high are those of kgedit.records.scores.Score; timestep is null if all are pooled.
is_share: whether the metric is a share or a difference of shares, so that 1 means 100 %. answers_sha256 and
cases_sha256: of the scored answers and of the evaluated cases."""
