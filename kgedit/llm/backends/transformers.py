"""`transformers`: the locally loaded model with its current edits. The default."""

from __future__ import annotations

from collections.abc import Sequence

from kgedit.llm.backends.contract import Backend
from kgedit.llm.generation import PresetQuestion, ask_each, plan
from kgedit.llm.replies import Reply

_BATCHES_AT_ONCE = 8
"""Batches planned as one: while a long answer is decoded, waiting questions fill the slots of finished ones."""


class TransformersBackend(Backend):
    """Answers in left-padded batches or, if the model supports shared prompt prefixes, in trees."""

    needs_weights = True
    feeds_answers = True
    returns_distributions = True
    package = ("transformers", "models")

    def plan(self, asked: Sequence[PresetQuestion]) -> list[list[int]]:
        """Batch questions of similar length together."""
        return plan(self._model, asked, batch_tokens=_BATCHES_AT_ONCE * self._batch_tokens)

    def ask(self, asked: Sequence[PresetQuestion]) -> list[Reply]:
        """Ask the model."""
        return ask_each(self._model, asked, batch_tokens=self._batch_tokens)
