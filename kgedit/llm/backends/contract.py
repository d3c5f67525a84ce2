"""Contract of backends: questions in, replies out, and a declaration of capabilities; and the default, `transformers`.

Runs branch on what a backend declares, never on its name. A backend without local weights cannot be edited: it serves
unedited and saved models, and methods that edit through the prompt.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from kgedit.llm.generation import BATCH_TOKENS, PresetQuestion, ask_each, plan
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.remote.prices import Spending
from kgedit.llm.replies import Reply

NO_LIMIT = Spending()


@dataclass(frozen=True, slots=True)
class DevicePlacement:
    """Device and number format of a backend that loads the model itself.

    Attributes:
        device: "cpu", "cuda", "cuda:N", "cuda:all" or "mps".
        dtype: "float32", "bfloat16" or "float16"; "auto" means that of the weights.
        trust_remote_code: Whether Python code that comes with the model may run.
    """

    device: str = "cuda"
    dtype: str = "auto"
    trust_remote_code: bool = False


ANYWHERE = DevicePlacement()


class Backend(ABC):
    """Answers questions for one model.

    Args:
        model: The model; without weights if the backend does not need them locally.
        url: Address of a server; None if the backend needs none.
        batch_tokens: Maximum number of tokens in memory at once; ignored by backends that plan their own batches.
        spending: Budget and prices for a paid server; ignored by backends without one.
        placement: For backends that load the model themselves.

    Raises:
        ModelError: if the backend does not support the placement.
    """

    needs_weights: ClassVar[bool]
    """Whether it computes with the locally loaded model, including any edits applied to it."""
    needs_url: ClassVar[bool] = False
    """Whether it sends questions to a server."""
    feeds_answers: ClassVar[bool]
    """Whether it returns the probability and the arg max of given texts, which teacher forcing needs."""
    returns_distributions: ClassVar[bool] = False
    """Whether it has the next token's distribution over the whole vocabulary, which `stop_entropy` needs."""
    package: ClassVar[tuple[str, str]]
    """Required package, and the extra that installs it."""

    def __init__(
        self,
        model: LanguageModel,
        url: str | None = None,
        *,
        batch_tokens: int = BATCH_TOKENS,
        spending: Spending = NO_LIMIT,
        placement: DevicePlacement = ANYWHERE,
    ) -> None:
        self._model = model
        self._url = url
        self._batch_tokens = batch_tokens
        self._spending = spending
        self._placement = placement
        self._check_placement()

    def _check_placement(self) -> None:  # noqa: B027 - most backends support every placement
        """Raise if the backend does not support the placement. The default accepts all."""

    def plan(self, asked: Sequence[PresetQuestion]) -> list[list[int]]:
        """Split questions into batches for `ask`, as lists of indexes; a run writes answers after each batch."""
        return plan(self._model, asked, batch_tokens=self._batch_tokens)

    @abstractmethod
    def ask(self, asked: Sequence[PresetQuestion]) -> list[Reply]:
        """Return one reply per question, in the same order.

        Raises:
            ModelError: if the model does not answer.
        """


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
