"""How well a model predicts a text: its loss over windows that do not overlap.

Every token but the first is predicted once, from the tokens of its window ahead of it, so the loss depends on the
window: compare only what was measured with the same one.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from kgedit.errors import ModelError
from kgedit.llm.devices import enough_memory
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.surgery.frozen_products import frozen_products
from kgedit.llm.targets import row_losses

WINDOW = 512
"""Tokens of a window, fewer where the model has room for fewer."""


@dataclass(frozen=True, slots=True)
class TextLoss:
    """Loss of a model on a text.

    Attributes:
        tokens: Tokens predicted.
        loss: Their mean negative log-likelihood in nats; its exponential is the perplexity.
    """

    tokens: int
    loss: float


def text_loss(model: LanguageModel, text: str) -> TextLoss:
    """The model's loss on a text, one window at a time.

    Raises:
        ModelError: if the text has fewer than two tokens.
    """
    ids = model.encode(text)
    if len(ids) < 2:
        raise ModelError("A text of fewer than two tokens has no perplexity. Give --ability a longer one.")
    width = min(WINDOW, model.positions or WINDOW)
    total, tokens = 0.0, 0
    with torch.inference_mode(), frozen_products(model), enough_memory(f"a window of {width} tokens"):
        # The last token of a window begins the next: it is predicted once and read twice.
        for start in range(0, len(ids) - 1, width - 1):
            window = ids[start : start + width]
            rows, mask = model.pad_left([window])
            logits = model.forward(rows, mask, last=len(window)).logits
            predicted = len(window) - 1
            total += float(row_losses(logits, rows[:, 1:])) * predicted
            tokens += predicted
    return TextLoss(tokens, total / tokens)
