"""What is measured of a run beside its answers: what edits cost, and what else a model can do before and after them."""

from __future__ import annotations

from dataclasses import dataclass

from kgedit.records.answers import ModelState


@dataclass(frozen=True, slots=True, kw_only=True)
class EditFailure:
    """One case that a method could not apply, and why."""

    case_id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EditCost:
    """One line of edits.jsonl: what one call of the method cost.

    Attributes:
        timestep: Timestep of the edits.
        case_ids: Edits applied together.
        seconds: Wall time of the call.
        cpu_seconds: Processor time of the call, over all threads: what wall time is on a machine without other work.
        peak_memory_bytes: Peak memory of the device (of the process on CPU) up to the end of the call.
        loss: Final training loss, or None where the method has none.
        failures: The cases among them that could not be applied; the others were.
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
    """One line of ability.jsonl: how well one state of the model predicts a text that has nothing to do with the edits.

    Attributes:
        model_state: The edits that the model had received.
        case_id: Under "single" the case whose edit it had received; else None.
        text: Name of the text.
        text_sha256: Of the text.
        tokens: Tokens that were predicted.
        text_bytes: UTF-8 bytes of the text.
        loss: Mean negative log-likelihood of a token, in nats.
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
    """One line of ability_tasks.jsonl: one metric of a task of lm-evaluation-harness for one state of the model.

    Attributes:
        model_state: The edits that the model had received.
        case_id: Under "single" the case whose edit it had received; else None.
        task: Name of the task.
        metric: As the harness names it.
        value: The metric over all documents.
        error: Its standard error; None where the harness tells none.
        n: Documents.
        version: Of the task.
        higher_is_better: None where the harness does not say.
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
