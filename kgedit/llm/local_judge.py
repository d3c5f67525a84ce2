"""Local judge: the verdict is the word that a local model finds more likely, so every answer gets one.

Small models do not follow a format when they decode, and prefer one word regardless of the prompt. Therefore the two
words are compared at the first token in which they differ, minus their difference after judgements without content
(Zhao et al. 2021, Calibrate Before Use). The rules, which are the same for all answers, are read once.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any

import torch

from kgedit.errors import ModelError
from kgedit.llm.contexts import Context
from kgedit.llm.devices import enough_memory
from kgedit.llm.judging import VERDICTS, Judgement, Verdict
from kgedit.llm.key_values import kept_cache
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.surgery.frozen_products import frozen_products

_BATCH_TOKENS = 4096
_WITHOUT_CONTENT = (Judgement("N/A", ("N/A",), "N/A"), Judgement("", ("",), ""))


class LocalJudge:
    """A judge.

    Args:
        model: Prompted with its chat template if it has one.
        template: The instructions "verdict" (kgedit.llm.instructions).
        calibrated: Whether the model's bias towards either word is subtracted.

    Attributes:
        liking: Margin from which an answer counts as correct.

    Raises:
        ModelError: if the tokenizer does not distinguish the two words.
    """

    def __init__(self, model: LanguageModel, template: str, *, calibrated: bool = True) -> None:
        self._model, self._template = model, template
        chat = model.chat
        context = Context("chat", "{question}", in_chat=True) if chat else Context("judge", "{question}\n\n")
        self._context = context.for_model(chat)
        margins = self.margins(_WITHOUT_CONTENT) if calibrated else [0.0]
        self.liking = sum(margins) / len(margins)

    def judge(
        self, judgements: Sequence[Judgement], *, progress: Callable[[int, int], None] | None = None
    ) -> list[Verdict]:
        """Return a verdict for each judgement.

        Args:
            progress: Called with the number of finished judgements and of all.

        Raises:
            ModelError: if the GPU's memory is too small.
        """
        correct, incorrect = VERDICTS
        margins = self.margins(judgements, progress=progress)
        return [correct if margin > self.liking else incorrect for margin in margins]

    def margins(
        self, judgements: Sequence[Judgement], *, progress: Callable[[int, int], None] | None = None
    ) -> list[float]:
        """Return log p(CORRECT) - log p(INCORRECT) of each judgement, at the first token in which the words differ."""
        prompts = [self._context.prompt(judgement.prompt(self._template)) for judgement in judgements]
        targets = [[self._model.encode_target(word, after=prompt) for word in VERDICTS] for prompt in prompts]
        rows = []
        for prompt, (correct, incorrect) in zip(prompts, targets, strict=True):
            same = _shared([correct, incorrect])
            if same == min(len(correct), len(incorrect)):
                raise ModelError(f"The tokenizer of '{self._model.name}' cannot tell {' from '.join(VERDICTS)}.")
            rows.append((self._model.encode(prompt) + correct[:same], correct[same], incorrect[same]))
        return self._read([ids for ids, _, _ in rows], [pair for _, *pair in rows], progress=progress)

    def _read(
        self, rows: list[list[int]], words: list[list[int]], *, progress: Callable[[int, int], None] | None
    ) -> list[float]:
        """Difference of two tokens' logits after each row; the common prefix of all rows is read once."""
        shared = min(_shared(rows), min(map(len, rows), default=1) - 1)
        margins = [0.0] * len(rows)
        order = sorted(range(len(rows)), key=lambda index: (-len(rows[index]), index))
        done = 0
        with torch.inference_mode(), frozen_products(self._model), enough_memory("a batch of judgements"):
            prefix = self._prefix(rows[0][:shared]) if rows and shared else None
            while done < len(order):
                batch = order[done : done + max(1, _BATCH_TOKENS // len(rows[order[done]]))]
                logits = self._logits([rows[index][shared:] for index in batch], shared, prefix)
                for index, row in zip(batch, logits, strict=True):
                    correct, incorrect = words[index]
                    margins[index] = float(row[correct] - row[incorrect])
                done += len(batch)
                if progress:
                    progress(done, len(order))
        return margins

    def _prefix(self, ids: list[int]) -> Any:
        """Key-value cache of the common prefix of all rows."""
        tokens, mask = self._model.pad_left([ids])
        return kept_cache(self._model.forward(tokens, mask, last=1, keep=True))

    def _logits(self, rests: list[list[int]], shared: int, prefix: Any) -> torch.Tensor:
        """Logits after the last token of each row: rows x vocabulary."""
        ids, mask = self._model.pad_left(rests)
        cache = copy.deepcopy(prefix)
        if cache is not None:
            cache.batch_repeat_interleave(len(rests))
            mask = torch.cat([mask.new_ones((len(rests), shared)), mask], dim=1)
        logits: torch.Tensor = self._model.forward(ids, mask, last=1, cache=cache, keep=cache is not None).logits
        return logits[:, -1].float()


def _shared(rows: Sequence[Sequence[int]]) -> int:
    """Length of the common prefix of all rows, in tokens."""
    return sum(1 for _ in takewhile(lambda tokens: len(set(tokens)) == 1, zip(*rows, strict=False)))
