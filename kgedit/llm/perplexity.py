"""Loss of a model on a text, over windows that do not overlap.

Every token except the first is predicted once, from the preceding tokens of its window. The loss depends on the window
size: compare only values measured with the same one.
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
"""Number of tokens of a window; fewer if the model's context is shorter."""


@dataclass(frozen=True, slots=True)
class TextLoss:
    """Loss of a model on a text.

    Attributes:
        tokens: Number of predicted tokens.
        loss: Mean negative log-likelihood of these tokens in nats; its exponential is the perplexity.
    """

    tokens: int
    loss: float


def text_loss(model: LanguageModel, text: str) -> TextLoss:
    """Compute the model's loss on a text, one window at a time.

    Raises:
        ModelError: if the text has fewer than two tokens.
    """
    ids = model.encode(text)
    if len(ids) < 2:
        raise ModelError("A text of fewer than two tokens has no perplexity. Give --ability a longer one.")
    width = min(WINDOW, model.positions or WINDOW)
    total, tokens = 0.0, 0
    with torch.inference_mode(), frozen_products(model), enough_memory(f"a window of {width} tokens"):
        # The last token of a window is the first of the next one: it is predicted once and read twice.
        for start in range(0, len(ids) - 1, width - 1):
            window = ids[start : start + width]
            rows, mask = model.pad_left([window])
            logits = model.forward(rows, mask, last=len(window)).logits
            predicted = len(window) - 1
            total += float(row_losses(logits, rows[:, 1:])) * predicted
            tokens += predicted
    return TextLoss(tokens, total / tokens)
