"""Texts for training an edit: prefixes of its prompts, and prompts unrelated to all edits."""

from __future__ import annotations

from collections.abc import Sequence

from kgedit.llm.decoding import continue_words, sample_random_prefixes
from kgedit.llm.language_model import LanguageModel
from kgedit.records.cases import Case, KnownFact

_WRITTEN, _WRITTEN_TOKENS = 32, 12
"""Number of texts that the model writes where there are no known facts, and their tokens: as long as questions."""
_WORDS = ("I", "You", "Because", "Yes", "Q: ")
"""First words of the prefixes."""


def generated_prefixes(model: LanguageModel, count: int) -> list[str]:
    """Continuations of five words by the unedited model: half of 5 tokens, half of 10.

    Args:
        count: Number of prefixes, at most 10.
    """
    # WISE's lengths; its code also continues these five words.
    written = [text for tokens in (5, 10) for text in continue_words(model, _WORDS, tokens=tokens)] if count else []
    half = count // 2
    return [*written[: len(_WORDS)][: count - half], *written[len(_WORDS) :][:half]]


class UnrelatedPrompts:
    """Prompts about other facts than the edits.

    Args:
        model: The model, unedited when texts are first written.
        seed: Seed of the texts that the model writes.

    Attributes:
        known: Facts from which prompts are taken; without any, the model writes beginnings of texts.
    """

    def __init__(self, model: LanguageModel, *, seed: int) -> None:
        self._model, self._seed = model, seed
        self._texts: list[str] = []
        self.known: tuple[KnownFact, ...] = ()

    def to(self, cases: Sequence[Case]) -> list[str]:
        """Questions about known facts that no probe of the cases asks for; texts of the model if there are none."""
        probed = {(fact.subject, fact.property) for case in cases for probe in case.probes for fact in probe.facts}
        probed |= {(case.fact.subject, case.fact.property) for case in cases}
        free = [known.question for known in self.known if (known.fact.subject, known.fact.property) not in probed]
        return free or self._written()

    def _written(self) -> list[str]:
        if not self._texts:
            found = sample_random_prefixes(self._model, _WRITTEN, tokens=_WRITTEN_TOKENS, seed=self._seed)
            self._texts = [text for ids in found if (text := self._model.decode(ids))]
        return self._texts
