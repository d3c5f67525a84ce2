"""Answers: one per question asked of one state of a model, and what judges said of it.

Any score is the product of four choices: input, generation, truncation, metric (Mirage, section 3). An answer
names the first three and keeps the prompt and the text, so that every metric can be computed again from the file.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from kgedit.records.cases import Axis, Chain
from kgedit.records.error_classes import ErrorClass


@dataclass(frozen=True, slots=True)
class ModelState:
    """Which edits a model had received when it was asked.

    Attributes:
        timestep: The last timestep that edits were applied of; None before any edit.
        edits: Number of its edits applied so far, where not all of them were; None for all.
    """

    timestep: str | None = None
    edits: int | None = None


UNEDITED = ModelState()
"""The state of a model before any edit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """What a locality question is about.

    Attributes:
        subject: Id of the entity.
        label: Its label.
        similarity: To the edit's subject, the higher the nearer; None where nobody knows.
        popularity: ln(median monthly views + 1); None where nobody knows.
        basis: How it was found, such as "graph" (kgedit.records.cases.Probe); None where nobody knows.
    """

    subject: str
    label: str
    similarity: float | None
    popularity: float | None
    basis: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One question asked of one state of the model. One line of answers.jsonl.

    Attributes:
        model_state: The edits that the model had received.
        timestep: Timestep that the case belongs to.
        case_id: The case.
        relation: Property of the case's fact: the cluster of every interval.
        axis: Axis of the probe.
        preset: Name of the preset asked under.
        context: The preset's input module.
        generation: The preset's generation module.
        truncation: The preset's truncation module.
        question: The bare question.
        prompt: As sent to the model.
        answers: Accepted answers, the gold one first.
        text: As generated and truncated; under teacher forcing the arg max at each of the correct answer's tokens.
        token_match: Share of gold tokens that stood at their index: arg max under teacher forcing, else generated.
        prompt_tokens: Length of the prompt in tokens.
        new_tokens: Tokens generated, or gold tokens fed.
        seconds: The question's share of the batch's wall time, by its tokens; 0 where the reply came from the cache.
        probability: Under teacher forcing, exp of the mean log-probability of the gold answer's tokens.
        old_probability: The same of the answer before the edit, of several the likeliest; None where there is none.
        retrieved: case_ids put into the prompt by a retrieval method, best first; empty otherwise.
        second_case_id: The case of a two-hop question's second fact, which retrieval must find too; None where that is
            no case, and on other axes.
        expires: Later timestep of the run that edits a fact behind the question; it is not asked from then on.
        neighbour: What a locality question is about; None on other axes.
        scenario: The case's, where the edited fact is asked for; runs of earlier versions have it only where the
            scenario has separate scores (kgedit.metrics.scenarios).
        static_probability: Of the answers that stay right, their mean probability; None where there is none.
        alternative_probability: Of the case's alternatives, likewise.
        highest_alternative: Of these, the highest.
        chain: The chain behind a multi-hop question, as the probe has it; None on other axes and for two plain hops.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class BertScore:
    """How near a text is to its nearest reference by the embeddings of their tokens (Zhang et al. 2020).

    Attributes:
        precision: Of the text's tokens: mean cosine with the most similar token of the reference.
        recall: Of the reference's tokens: the same with the text's.
        f1: Their harmonic mean; 0 where neither is above 0.
    """

    precision: float
    recall: float
    f1: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedAnswer(Answer):
    """An answer with what models said of it, put together when a run is scored; answers.jsonl has none of it.

    Attributes:
        right: A judge's verdict; None where it gave none.
        error: What the judge says is wrong with the answer; None where it does not say.
        bertscore: What an encoder measured; None where none did.
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
    """The answer with one more judgement; those that it has stay."""
    given = {"right": right, "error": error, "bertscore": bertscore}
    values: dict[str, Any] = {name: getattr(answer, name) for name in _FIELDS}
    for name, value in given.items():
        values[name] = getattr(answer, name, None) if value is None else value
    return JudgedAnswer(**values)
