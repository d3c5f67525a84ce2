"""Prompts as token ids with the position of the subject's last token, and reads of the model there.

The position comes from the tokenizer's character spans: decoding and re-encoding would shift it at merges and
possessives.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kgedit.llm.contexts import Context
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.surgery.onednn import frozen_products
from kgedit.llm.surgery.structure import by_row, hidden_of, hooks
from kgedit.llm.tokenization import token_spans
from kgedit.records.cases import Case

_MOST_TOKENS = 4096
"""Maximum tokens of a batch with its padding; it bounds memory whatever the number of prompts."""


@dataclass(frozen=True, slots=True)
class SubjectPrompt:
    """A prompt as the model reads it.

    Attributes:
        ids: Token ids.
        subject: Index of the subject's last token in `ids`.
    """

    ids: tuple[int, ...]
    subject: int


class _ReachedError(Exception):
    """Ends a forward pass above the highest block that is read."""


def subject_problem(model: LanguageModel, case: Case) -> str:
    """Reason why the subject's position in the question is unknown, or ""."""
    subject, count = case.fact.subject_label, case.question.count(case.fact.subject_label)
    if not subject or count == 0:
        return f"the subject '{subject}' is not in the question '{case.question}'"
    if count > 1:
        return f"the subject '{subject}' occurs {count} times in the question '{case.question}'"
    if not any(start < stop for start, stop in token_spans(model.tokenizer, subject)[1]):
        return f"the model's tokenizer has no token for the subject '{subject}'"
    return ""


def subject_prompt(
    model: LanguageModel, case: Case, context: Context, *, random_prefix: Sequence[int] = ()
) -> SubjectPrompt:
    """Encode a case's question in a context.

    Args:
        case: One without a `subject_problem`.
        random_prefix: Tokens of another text, prepended to the prompt as a separate sentence.
    """
    end = len(context.before_question) + case.question.index(case.fact.subject_label) + len(case.fact.subject_label)
    return encode_with_subject(model, context.prompt(case.question), end, random_prefix=random_prefix)


def encode_with_subject(
    model: LanguageModel, text: str, end: int, *, random_prefix: Sequence[int] = ()
) -> SubjectPrompt:
    """Encode a text as a `SubjectPrompt`.

    Args:
        end: Number of characters up to the end of the subject.
        random_prefix: See `subject_prompt`.
    """
    lead = ". " if random_prefix else ""
    (ids, spans), last = token_spans(model.tokenizer, lead + text), len(lead) + end - 1
    # A span may end before `last`: NFC merges a letter and its accents into one character with the span of the letter,
    # and post-processors trim spaces.
    position = max((index for index, (start, stop) in enumerate(spans) if start <= last and start < stop), default=0)
    ahead = [*model.leading_ids(), *random_prefix]
    return SubjectPrompt((*ahead, *ids), len(ahead) + position)


def inputs_at(model: LanguageModel, layers: Sequence[int], prompts: Sequence[SubjectPrompt]) -> dict[int, torch.Tensor]:
    """Inputs of the down-projections of some blocks at the subjects' last tokens: prompts x inner width each."""
    found: dict[int, list[torch.Tensor]] = {layer: [] for layer in layers}

    def note(layer: int, positions: tuple[torch.Tensor, torch.Tensor]) -> Any:
        return lambda _, inputs: found[layer].append(by_row(inputs[0], len(positions[0]))[positions])

    for ids, mask, positions in _batches(model, prompts):
        handles = [
            model.blocks[layer].down_projection.register_forward_pre_hook(note(layer, positions)) for layer in layers
        ]
        with hooks(*handles):
            run_through(model, ids, mask, layer=max(layers))
    return {layer: torch.cat(rows) for layer, rows in found.items()}


def inputs_of(model: LanguageModel, layer: int, texts: Sequence[Sequence[int]]) -> list[torch.Tensor]:
    """Inputs of a block's down-projection at all tokens of some texts: tokens x inner width each."""
    found: list[torch.Tensor] = []
    ends = [SubjectPrompt(tuple(text), len(text) - 1) for text in texts]
    for ids, mask, _ in _batches(model, ends):

        def note(_: Any, inputs: tuple[torch.Tensor, ...], mask: torch.Tensor = mask) -> None:
            rows = by_row(inputs[0], len(mask))
            found.extend(row[own.bool().to(row.device)] for row, own in zip(rows, mask, strict=True))

        with hooks(model.blocks[layer].down_projection.register_forward_pre_hook(note)):
            run_through(model, ids, mask, layer=layer)
    return found


def outputs_at(model: LanguageModel, module: Any, prompts: Sequence[SubjectPrompt], *, layer: int) -> torch.Tensor:
    """Outputs of a module of block `layer`, or of the block itself, at the subjects' last tokens: prompts x width."""
    found: list[torch.Tensor] = []

    def note(positions: tuple[torch.Tensor, torch.Tensor]) -> Any:
        return lambda _, __, output: found.append(by_row(hidden_of(output), len(positions[0]))[positions])

    for ids, mask, positions in _batches(model, prompts):
        with hooks(module.register_forward_hook(note(positions))):
            run_through(model, ids, mask, layer=layer)
    return torch.cat(found)


def run_through(model: LanguageModel, ids: torch.Tensor, mask: torch.Tensor, *, layer: int) -> None:
    """Run the model up to the end of block `layer`."""

    def stop(_: Any, __: Any, ___: Any) -> None:
        raise _ReachedError

    with hooks(model.blocks[layer].module.register_forward_hook(stop)), frozen_products(model), torch.no_grad():
        try:
            model.forward(ids, mask, last=1)
        except _ReachedError:
            return
    raise RuntimeError(f"the forward pass never reached block {layer}")


def _batches(
    model: LanguageModel, prompts: Sequence[SubjectPrompt]
) -> Iterator[tuple[torch.Tensor, torch.Tensor, tuple[torch.Tensor, torch.Tensor]]]:
    """Left-padded batches in order, with the positions of the subjects as (rows, columns)."""
    size = max(1, _MOST_TOKENS // max(len(prompt.ids) for prompt in prompts))
    for start in range(0, len(prompts), size):
        own = prompts[start : start + size]
        ids, mask = model.pad_left([prompt.ids for prompt in own])
        columns = [ids.shape[1] - len(prompt.ids) + prompt.subject for prompt in own]
        yield ids, mask, (torch.arange(len(own)), torch.tensor(columns))
