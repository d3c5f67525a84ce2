"""Measurements of a run besides its answers: cost of edits, and general ability of the model before and after them."""

from __future__ import annotations

from dataclasses import dataclass

from kgedit.records.answers import ModelState


@dataclass(frozen=True, slots=True, kw_only=True)
class EditFailure:
    """A case that a method could not apply, with the reason."""

    case_id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EditCost:
    """Cost of one call of the method. One line of edits.jsonl.

    Attributes:
        timestep: Timestep of the edits.
        case_ids: Cases whose edits were applied together.
        seconds: Wall time of the call.
        cpu_seconds: Processor time of the call over all threads, which is not affected by other load on the machine.
        peak_memory_bytes: Peak memory of the device (of the process on CPU) up to the end of the call.
        loss: Final training loss; None if the method has none.
        failures: Cases that could not be applied; the others were.
    """

    timestep: str
    case_ids: tuple[str, ...]
    seconds: float
    cpu_seconds: float
    peak_memory_bytes: int
    loss: float | None = None
    failures: tuple[EditFailure, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AbilityMeasurement:
    """How well one model state predicts a text unrelated to the edits. One line of ability.jsonl.

    Attributes:
        model_state: Edits that the model had received.
        case_id: With the protocol "single", the case whose edit it had received; else None.
        text: Name of the text.
        text_sha256: SHA-256 of the text.
        tokens: Number of predicted tokens.
        text_bytes: Number of UTF-8 bytes of the text.
        loss: Mean negative log-likelihood per token, in nats.
        seconds: Wall time.
    """

    model_state: ModelState
    case_id: str | None
    text: str
    text_sha256: str
    tokens: int
    text_bytes: int
    loss: float
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskMeasurement:
    """One metric of a task of lm-evaluation-harness for one model state. One line of ability_tasks.jsonl.

    Attributes:
        model_state: Edits that the model had received.
        case_id: With the protocol "single", the case whose edit it had received; else None.
        task: Name of the task.
        metric: Name of the metric in the harness.
        value: Value of the metric over all documents.
        error: Its standard error; None if the harness reports none.
        n: Number of documents.
        version: Version of the task.
        higher_is_better: Direction of the metric; None if the harness does not define it.
    """

    model_state: ModelState
    case_id: str | None
    task: str
    metric: str
    value: float
    error: float | None
    n: int
    version: str
    higher_is_better: bool | None
