"""Where the tokens of an edit's subject are in its prompts: what WISE's `subject_mask` keeps apart from the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from kgedit.llm.contexts import Context
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.targets import TargetBatch
from kgedit.llm.token_spans import token_spans
from kgedit.records.cases import Case
from kgedit.records.measurements import EditFailure


@dataclass(frozen=True, slots=True)
class MarkedPrompt:
    """A prompt, and a part of it by its characters.

    Attributes:
        text: The whole prompt.
        start: First character of the part.
        stop: Character behind its last.
    """

    text: str
    start: int
    stop: int


def subject_failures(cases: Sequence[Case]) -> tuple[EditFailure, ...]:
    """The cases whose question does not name the subject, with the reason."""
    return tuple(
        EditFailure(
            case_id=case.case_id,
            reason=f"the subject '{case.fact.subject_label}' is not in the question '{case.question}'",
        )
        for case in cases
        if not case.fact.subject_label or case.fact.subject_label not in case.question
    )


def subject_span(case: Case, context: Context, *, ahead: str) -> MarkedPrompt:
    """A case's question in a context, with the first occurrence of its subject marked.

    Args:
        case: One without a subject failure.
        ahead: Text that stands ahead of the question.
    """
    subject = case.fact.subject_label
    start = len(context.before_question) + len(ahead) + case.question.index(subject)
    return MarkedPrompt(context.prompt(ahead + case.question), start, start + len(subject))


def tokens_within(model: LanguageModel, prompts: Sequence[MarkedPrompt], targets: TargetBatch) -> torch.Tensor:
    """True for the tokens that hold a character of the marked parts: rows x length.

    Args:
        targets: The prompts in their order, with targets behind.
    """
    found = torch.zeros(targets.ids.shape, dtype=torch.bool)
    for row, (prompt, end) in enumerate(zip(prompts, targets.ends.tolist(), strict=True)):
        _, spans = token_spans(model.tokenizer, prompt.text)
        first = end + 1 - len(spans)
        for column, (start, stop) in enumerate(spans, first):
            found[row, column] = start < prompt.stop and stop > prompt.start
    return found.to(targets.ids.device)
