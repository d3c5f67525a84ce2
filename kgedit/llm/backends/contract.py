"""The contract of backends: questions in, replies out, and a declaration of what cannot be had.

Runs branch on what a backend declares, never on its name. A backend without the weights here cannot be edited: it
serves unedited and saved models, and methods whose edits live in prompts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from kgedit.llm.generation import BATCH_TOKENS, PresetQuestion, plan
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.remote.prices import Spending
from kgedit.llm.replies import Reply

NO_LIMIT = Spending()


@dataclass(frozen=True, slots=True)
class DevicePlacement:
    """Where and how a backend that loads the model itself computes.

    Attributes:
        device: "cpu", "cuda", "cuda:N", "cuda:all" or "mps".
        dtype: "float32", "bfloat16" or "float16"; "auto" for that of the weights.
        trust_remote_code: Whether Python code that comes with the model may run.
    """

    device: str = "cuda"
    dtype: str = "auto"
    trust_remote_code: bool = False


ANYWHERE = DevicePlacement()


class Backend(ABC):
    """Answers for one model.

    Args:
        model: The model; without weights where the backend does not need them here.
        url: Address of a server; None for backends that need none.
        batch_tokens: Most tokens that are held at once; a backend that plans its own batches ignores it.
        spending: What a server may be paid; backends that ask none ignore it.
        placement: For backends that load the model themselves.

    Raises:
        ModelError: if the backend cannot compute there.
    """

    needs_weights: ClassVar[bool]
    """Whether it computes with the model that is loaded here, and so answers with whatever edits are in it."""
    needs_url: ClassVar[bool] = False
    """Whether it asks a server."""
    feeds_answers: ClassVar[bool]
    """Whether it tells the probability and the arg max of given texts, which teacher forcing needs."""
    returns_distributions: ClassVar[bool] = False
    """Whether it knows the next token's distribution over the whole vocabulary, which `stop_entropy` needs."""
    package: ClassVar[tuple[str, str]]
    """The package that it needs, and the extra that brings it."""

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

    def _check_placement(self) -> None:  # noqa: B027 - most backends compute anywhere
        """Refuse a placement where the backend cannot compute; by default none is refused."""

    def plan(self, asked: Sequence[PresetQuestion]) -> list[list[int]]:
        """Indexes of the questions in the batches that `ask` is given; a run writes answers after each."""
        return plan(self._model, asked, batch_tokens=self._batch_tokens)

    @abstractmethod
    def ask(self, asked: Sequence[PresetQuestion]) -> list[Reply]:
        """One reply per question, in the same order.

        Raises:
            ModelError: if the model does not answer.
        """
