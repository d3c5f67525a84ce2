"""A judge on this machine: the verdict word that a local model finds the likelier, so that every answer gets one.

Small models do not keep to a form when they decode, and prefer one word whatever stands ahead of it. So both words are
fed and their log-probabilities compared, less those after a judgement without content (Zhao et al. 2021, Calibrate
Before Use).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from kgedit.llm.contexts import Context
from kgedit.llm.generation import feed
from kgedit.llm.judging import VERDICTS, Judgement, Verdict
from kgedit.llm.language_model import LanguageModel

_BATCH_TOKENS = 4096
_WITHOUT_CONTENT = (Judgement("N/A", ("N/A",), "N/A"), Judgement("", ("",), ""))


class LocalJudge:
    """A judge.

    Args:
        model: Asked in its chat template where it has one.
        calibrated: Whether the model's own liking for either word is taken off.
    """

    def __init__(self, model: LanguageModel, *, calibrated: bool = True) -> None:
        self._model = model
        chat = model.chat
        context = Context("chat", "{question}", in_chat=True) if chat else Context("judge", "{question}\n\n")
        self._context = context.for_model(chat)
        margins = self._margins(_WITHOUT_CONTENT) if calibrated else [0.0]
        self._liking = sum(margins) / len(margins)

    def judge(
        self, judgements: Sequence[Judgement], *, progress: Callable[[int, int], None] | None = None
    ) -> list[Verdict]:
        """A verdict for each."""
        correct, incorrect = VERDICTS
        lengths = [len(self._model.encode(self._prompt(judgement))) + 8 for judgement in judgements]
        order = sorted(range(len(judgements)), key=lambda index: (-lengths[index], index))
        verdicts: list[Verdict] = [incorrect] * len(judgements)
        done = 0
        while done < len(order):
            rows = max(1, _BATCH_TOKENS // (2 * lengths[order[done]]))
            batch = order[done : done + rows]
            for index, margin in zip(batch, self._margins([judgements[row] for row in batch]), strict=True):
                verdicts[index] = correct if margin > self._liking else incorrect
            done += len(batch)
            if progress:
                progress(done, len(order))
        return verdicts

    def _margins(self, judgements: Sequence[Judgement]) -> list[float]:
        """Log-probability of CORRECT less that of INCORRECT, each summed over its tokens."""
        prompts = [self._prompt(judgement) for judgement in judgements]
        rows = [(prompt, verdict) for prompt in prompts for verdict in VERDICTS]
        targets = [self._model.encode_target(verdict, after=prompt) for prompt, verdict in rows]
        with torch.inference_mode():
            fed = feed(self._model, [self._model.encode(prompt) for prompt, _ in rows], targets)
        # The mean was taken over tokens: a longer word pays for each of them.
        logs = [len(target) * math.log(max(one.probability, 1e-30)) for one, target in zip(fed, targets, strict=True)]
        return [correct - incorrect for correct, incorrect in zip(logs[::2], logs[1::2], strict=True)]

    def _prompt(self, judgement: Judgement) -> str:
        return self._context.prompt(judgement.prompt())
