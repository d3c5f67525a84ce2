"""Refuses texts that are longer than a model's table of positions, before the model reads any of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from textwrap import shorten

from kgedit.errors import ModelError
from kgedit.llm.contexts import Context
from kgedit.llm.generation import longest
from kgedit.llm.language_model import LanguageModel
from kgedit.records.cases import Case
from kgedit.records.runs import Preset
from kgedit.runs.evaluator import AskedProbe, probes_under, word

_SHOWN = 3
"""Maximum number of texts in a message."""

_MARKS = 8
"""Maximum number of tokens that a tokenizer adds to a text."""


def refuse_long_edits(model: LanguageModel, cases: Sequence[Case], contexts: Sequence[Context]) -> None:
    """Check that the model can read each edit's prompt with its answer.

    Args:
        contexts: Contexts that edits are trained in.

    Raises:
        ModelError: if a text has more tokens than the model has positions; models that compute positions read any.
    """

    def lengths(limit: int) -> Iterator[tuple[Case, str, int]]:
        for case in cases:
            for context in contexts:
                prompt = context.prompt(case.question)
                # A token has at least one byte, so that few texts need to be tokenized.
                if _bytes(prompt) + _bytes(case.answer) + _MARKS > limit:
                    tokens = len(model.encode(prompt)) + len(model.encode_target(case.answer, after=prompt))
                    yield case, f"in the context {context.name}", tokens

    if model.most_positions is not None:
        _refuse(model, lengths(model.most_positions))


def refuse_long_questions(
    model: LanguageModel, cases: Sequence[Case], presets: Sequence[Preset], contexts: Mapping[str, Context]
) -> None:
    """Check that the model can read each question, with the longest answer that a preset allows.

    Args:
        contexts: Contexts by preset.

    Raises:
        ModelError: see `refuse_long_edits`.
    """

    def lengths(limit: int) -> Iterator[tuple[Case, str, int]]:
        for preset in presets:
            for case in cases:
                for probe in probes_under(case, preset):
                    question = word(model, AskedProbe(case, probe), preset, context=contexts[preset.name]).question
                    answer = max(preset.max_new_tokens, *map(_bytes, question.fed))
                    if _bytes(question.prompt) + preset.thinking_tokens + answer + _MARKS > limit:
                        yield case, f"{probe.axis}, preset {preset.name}", longest(model, question, preset)

    if model.most_positions is not None:
        _refuse(model, lengths(model.most_positions))


def _bytes(text: str) -> int:
    return len(text.encode())


def _refuse(model: LanguageModel, lengths: Iterator[tuple[Case, str, int]]) -> None:
    long = [(case, where, tokens) for case, where, tokens in lengths if tokens > (model.most_positions or 0)]
    if long:
        shown = "; ".join(
            f"{case.id_in_run}, '{shorten(case.question, 40, placeholder='…')}' ({where}): {tokens} tokens"
            for case, where, tokens in long[:_SHOWN]
        )
        more = f"; {len(long) - _SHOWN} more" if len(long) > _SHOWN else ""
        raise ModelError(
            f"{model.name or 'The model'} has {model.most_positions} positions, fewer than these texts need with their "
            f"answers: {shown}{more}. Leave these cases out, or take a model with a longer context."
        )
