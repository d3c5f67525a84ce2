"""`transformers`: the model that is loaded here, with the edits that are in it. The default."""

from __future__ import annotations

from collections.abc import Sequence

from kgedit.llm.backends.contract import Backend
from kgedit.llm.generation import PresetQuestion, ask_each, plan
from kgedit.llm.replies import Reply

_BATCHES_AT_ONCE = 8
"""So many batches are planned as one: while one answer is long, others take the places of those that have ended."""


class TransformersBackend(Backend):
    """Answers in left-padded batches or, where prompts can share what they begin with, in trees."""

    needs_weights = True
    feeds_answers = True
    returns_distributions = True
    package = ("transformers", "models")

    def plan(self, asked: Sequence[PresetQuestion]) -> list[list[int]]:
        """Questions of similar length together."""
        return plan(self._model, asked, batch_tokens=_BATCHES_AT_ONCE * self._batch_tokens)

    def ask(self, asked: Sequence[PresetQuestion]) -> list[Reply]:
        """Ask the model."""
        return ask_each(self._model, asked, batch_tokens=self._batch_tokens)
