"""Answers, one per question and model state, with the judgements on them, and the other measurements of a run.

Any score is the product of four choices: input, generation, truncation, metric (Mirage, section 3). An answer names the
first three and stores the prompt and the text, so that every metric can be recomputed from the file.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from kgedit.records.cases import Axis, Chain, qualified_id

ErrorClass = Literal["empty", "repetition", "old answer", "more than the answer", "irrelevant", "incorrect"]
"""Errors of a free answer; the rules are those of kgedit.metrics.answer_table. "more than the answer" is never used by
a judge that calls an answer wrong."""

ERROR_CLASSES: tuple[ErrorClass, ...] = get_args(ErrorClass)


@dataclass(frozen=True, slots=True)
class ModelState:
    """The edits that a model had received when it was evaluated.

    Attributes:
        timestep: Last timestep whose edits were applied; None before any edit.
        edits: Number of its edits applied so far if only some were; None means all.
    """

    timestep: str | None = None
    edits: int | None = None


UNEDITED = ModelState()
"""State of a model before any edit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """Subject of a locality question.

    Attributes:
        subject: Id of the entity.
        label: Its label.
        similarity: Similarity to the edit's subject, higher means closer; None if unknown.
        popularity: ln(median monthly views + 1); None if unknown.
        basis: How it was found, such as "graph" (kgedit.records.cases.Probe); None if unknown.
    """

    subject: str
    label: str
    similarity: float | None
    popularity: float | None
    basis: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Answer to one question in one model state. One line of answers.jsonl.

    Attributes:
        model_state: The edits that the model had received.
        timestep: Timestep that the case belongs to.
        case_id: The case.
        relation: Property of the case's fact, by which every interval is clustered.
        axis: Axis of the probe.
        preset: Name of the preset.
        context: The preset's input module.
        generation: The preset's generation module.
        truncation: The preset's truncation module.
        question: The bare question.
        prompt: Prompt sent to the model.
        answers: Accepted answers, the target first.
        text: Generated and truncated text; with teacher forcing the arg max at each token of the correct answer.
        token_match: Share of target tokens matched at their index: by the arg max with teacher forcing, else as
            generated.
        prompt_tokens: Length of the prompt in tokens.
        new_tokens: Number of tokens generated, reasoning included, or of target tokens fed.
        seconds: The question's share of the batch's wall time, by its tokens; 0 if the reply came from the cache.
        probability: With teacher forcing, exp of the mean log-probability of the target's tokens.
        old_probability: Likewise for the answer before the edit, the likeliest of several; None without one.
        retrieved: case_ids that a retrieval method put into the prompt, best first; empty otherwise. An id that
            different cases of several timesteps share is preceded by the timestep's name and a tab, except in runs of
            earlier versions.
        second_case_id: Case of a two-hop question's second fact, which retrieval must also find; None if that fact is
            not a case, and on other axes.
        expires: Later timestep of the run that edits a fact behind the question, which is not evaluated from then on.
        neighbour: Subject of a locality question; None on other axes.
        scenario: Scenario of the case, on axes that query the edited fact; runs of earlier versions have it only if the
            scenario has separate scores (kgedit.metrics.probability).
        static_probability: Mean probability of the answers that remain correct; None if there are none.
        alternative_probability: Mean probability of the case's alternatives; None if there are none.
        highest_alternative: Highest probability of an alternative; None if there are none.
        chain: Chain of a multi-hop question, as in the probe; None on other axes and for two plain hops.
        thoughts: Reasoning of the model before the answer, which no metric reads; "" without any.
        thoughts_cut: Whether the reasoning ended because its number of tokens was reached.
    """

    model_state: ModelState
    timestep: str
    case_id: str
    relation: str
    axis: Axis
    preset: str
    context: str
    generation: str
    truncation: str
    question: str
    prompt: str
    answers: tuple[str, ...]
    text: str
    token_match: float | None
    prompt_tokens: int
    new_tokens: int
    seconds: float
    probability: float | None = None
    old_probability: float | None = None
    retrieved: tuple[str, ...] = ()
    second_case_id: str | None = None
    expires: str | None = None
    neighbour: Neighbour | None = None
    scenario: str | None = None
    static_probability: float | None = None
    alternative_probability: float | None = None
    highest_alternative: float | None = None
    chain: Chain | None = None
    thoughts: str = ""
    thoughts_cut: bool = False

    def has_retrieved(self, case_id: str | None) -> bool:
        """Whether a case of the answer's timestep was put into the prompt; False for None."""
        if case_id is None or not self.retrieved:
            return False
        return case_id in self.retrieved or qualified_id(self.timestep, case_id) in self.retrieved


@dataclass(frozen=True, slots=True, kw_only=True)
class BertScore:
    """Similarity of a text to its nearest reference by token embeddings (Zhang et al. 2020).

    Attributes:
        precision: Mean over the text's tokens of the cosine with the most similar token of the reference.
        recall: Mean over the reference's tokens of the cosine with the most similar token of the text.
        f1: Their harmonic mean; 0 if neither is above 0.
    """

    precision: float
    recall: float
    f1: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedAnswer(Answer):
    """An answer with judgements by models, assembled when a run is scored; not part of answers.jsonl.

    Attributes:
        right: Verdict of a judge; None without one.
        error: Error class assigned by the judge; None without one.
        bertscore: BERTScore of an encoder; None if not computed.
    """

    right: bool | None = None
    error: ErrorClass | None = None
    bertscore: BertScore | None = None


_FIELDS = [field.name for field in fields(Answer)]


def with_judgement(
    answer: Answer,
    *,
    right: bool | None = None,
    error: ErrorClass | None = None,
    bertscore: BertScore | None = None,
) -> JudgedAnswer:
    """Add a judgement to an answer and keep its existing ones."""
    given = {"right": right, "error": error, "bertscore": bertscore}
    values: dict[str, Any] = {name: getattr(answer, name) for name in _FIELDS}
    for name, value in given.items():
        values[name] = getattr(answer, name, None) if value is None else value
    return JudgedAnswer(**values)


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
