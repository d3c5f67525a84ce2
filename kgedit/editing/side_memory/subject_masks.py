"""Positions of the subject's tokens in an edit's prompts, for WISE's `subject_mask`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from kgedit.llm.contexts import Context
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.tokenization import token_spans
from kgedit.llm.training import TargetBatch
from kgedit.records.answers import EditFailure
from kgedit.records.cases import Case


@dataclass(frozen=True, slots=True)
class MarkedPrompt:
    """A prompt with a part marked by character indexes.

    Attributes:
        text: The whole prompt.
        start: Index of the part's first character.
        stop: Index after its last character.
    """

    text: str
    start: int
    stop: int


def subject_failures(cases: Sequence[Case]) -> tuple[EditFailure, ...]:
    """Cases whose question does not contain the subject, with the reason."""
    return tuple(
        EditFailure(
            case_id=case.case_id,
            reason=f"the subject '{case.fact.subject_label}' is not in the question '{case.question}'",
        )
        for case in cases
        if not case.fact.subject_label or case.fact.subject_label not in case.question
    )


def subject_span(case: Case, context: Context, *, ahead: str) -> MarkedPrompt:
    """Put a case's question into a context, and mark the first occurrence of its subject.

    Args:
        case: One without a subject failure.
        ahead: Text before the question.
    """
    subject = case.fact.subject_label
    start = len(context.before_question) + len(ahead) + case.question.index(subject)
    return MarkedPrompt(context.prompt(ahead + case.question), start, start + len(subject))


def tokens_within(model: LanguageModel, prompts: Sequence[MarkedPrompt], targets: TargetBatch) -> torch.Tensor:
    """Mask of the tokens that contain a character of the marked parts: rows x length.

    Args:
        targets: The prompts in the same order, followed by targets.
    """
    found = torch.zeros(targets.ids.shape, dtype=torch.bool)
    for row, (prompt, end) in enumerate(zip(prompts, targets.ends.tolist(), strict=True)):
        _, spans = token_spans(model.tokenizer, prompt.text)
        first = end + 1 - len(spans)
        for column, (start, stop) in enumerate(spans, first):
            found[row, column] = start < prompt.stop and stop > prompt.start
    return found.to(targets.ids.device)
