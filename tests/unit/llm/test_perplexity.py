"""Loss on a text: every token once, from the tokens of its window."""

from __future__ import annotations

import math

import pytest
import torch
from world.small_models import small_model

from kgedit.errors import ModelError
from kgedit.llm import perplexity
from kgedit.llm.perplexity import text_loss

TEXT = "The mayor of Falun is Axel Hed. Where was the mayor of Hjo born? " * 3


def test_a_text_in_one_window_has_the_loss_that_transformers_computes() -> None:
    model = small_model()
    ids = torch.tensor([model.encode(TEXT)])
    with torch.inference_mode():
        wanted = float(model.module(ids, labels=ids).loss)
    found = text_loss(model, TEXT)
    assert found.tokens == ids.shape[1] - 1
    assert found.loss == pytest.approx(wanted, rel=1e-5)


def test_windows_predict_every_token_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model = small_model()
    ids = model.encode(TEXT)
    monkeypatch.setattr(perplexity, "WINDOW", 8)
    found = text_loss(model, TEXT)
    assert found.tokens == len(ids) - 1
    total = 0.0
    for start in range(0, len(ids) - 1, 7):
        window = torch.tensor([ids[start : start + 8]])
        with torch.inference_mode():
            total += float(model.module(window, labels=window).loss) * (window.shape[1] - 1)
    assert found.loss == pytest.approx(total / (len(ids) - 1), rel=1e-5)
    assert math.exp(found.loss) > 1


def test_a_text_of_one_token_is_refused() -> None:
    with pytest.raises(ModelError, match="fewer than two tokens"):
        text_loss(small_model(), "T")
