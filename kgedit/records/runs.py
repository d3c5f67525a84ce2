"""What a run leaves behind: one Answer per question asked, one EditCost per edit or batch of edits.

Any score is the product of four choices: input, generation, truncation, metric (Mirage, section 3). An answer
names the first three and keeps the prompt and the text, so that every metric can be computed again from the file.
"""

from __future__ import annotations

from dataclasses import dataclass

from kgedit.records.cases import Axis


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A named way of asking.

    Attributes:
        name: "synthetic", "wild" or the user's own.
        context: Name of a file under prompts/contexts that turns a question into a prompt.
        generation: "teacher_forcing" (the gold answer is fed, arg max read off) or "greedy".
        truncation: "gold_length", or "newline_period" (stop at newline, end of text or ".").
        max_new_tokens: Limit of free generation.
        metric: Name in the registry of metrics.
    """

    name: str
    context: str
    generation: str
    truncation: str
    max_new_tokens: int
    metric: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One question asked of one state of the model. One line of answers.jsonl.

    Attributes:
        after: Name of the timestep whose edits were the last to be applied; None before any edit.
        timestep: Timestep that the case belongs to.
        case_id: The case.
        axis: Axis of the probe.
        preset: Name of the preset asked under.
        context: The preset's input module.
        generation: The preset's generation module.
        truncation: The preset's truncation module.
        question: The bare question.
        prompt: As sent to the model.
        answers: Accepted answers, the gold one first.
        text: As generated and truncated; under teacher forcing the arg max tokens at the gold answer's places.
        token_match: Share of gold tokens that were arg max, under teacher forcing; else None.
        prompt_tokens: Length of the prompt in tokens.
        new_tokens: Tokens generated, or gold tokens fed.
        seconds: Wall time of the batch divided by its questions.
        retrieved: case_ids put into the prompt by a retrieval method, best first; empty otherwise.
    """

    after: str | None
    timestep: str
    case_id: str
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
    retrieved: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EditCost:
    """One line of edits.jsonl: what one call of the method cost.

    Attributes:
        timestep: Timestep of the edits.
        case_ids: Edits applied together.
        seconds: Wall time of the call.
        peak_memory_bytes: Peak memory of the device (of the process on CPU) up to the end of the call.
        loss: Final training loss, or None where the method has none.
        note: Why an edit could not be applied, or "".
    """

    timestep: str
    case_ids: tuple[str, ...]
    seconds: float
    peak_memory_bytes: int
    loss: float | None = None
    note: str = ""
