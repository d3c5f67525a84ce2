"""The private operators of torch that models on a CPU multiply by exist and compute what is expected of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import nn
from torch.nn.functional import linear
from world.small_models import model_of

from kgedit.llm.surgery import onednn
from kgedit.llm.surgery.onednn import frozen_products

WAY_OUT = (
    "Adapt kgedit/llm/surgery/onednn.py, the only module that calls them. Until then models answer correctly, but up "
    "to half as fast on a CPU."
)


@pytest.fixture
def _tried_again() -> Iterator[None]:
    onednn.problem.cache_clear()
    yield
    onednn.problem.cache_clear()


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="a torch without oneDNN")  # type: ignore[no-untyped-call]
def test_this_torch_has_the_operators() -> None:
    assert onednn.problem() is None, f"{onednn.problem()}. {WAY_OUT}"


def _gone(*_: object) -> torch.Tensor:
    raise AttributeError("no attribute '_linear_pointwise'")


def _other_arguments(*_: object) -> torch.Tensor:
    raise RuntimeError("expected at most 5 argument(s)")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (_gone, "no attribute '_linear_pointwise'"),
        (_other_arguments, "at most 5 argument"),
        (lambda inputs, matrix, bias: linear(inputs, matrix.to_dense(), -bias), "multiplies differently"),
    ],
)
@pytest.mark.usefixtures("_tried_again")
def test_a_torch_that_has_changed_them_is_named_and_models_multiply_by_its_public_operator(
    changed: Callable[..., torch.Tensor], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer, inputs = nn.Linear(160, 200).requires_grad_(False), torch.randn(3, 160)
    monkeypatch.setattr(onednn, "product", changed)
    assert message in (onednn.problem() or "")
    assert torch.__version__ in (onednn.problem() or "")
    with frozen_products(model_of(layer)):
        assert torch.equal(layer(inputs), linear(inputs, layer.weight, layer.bias))


@pytest.mark.usefixtures("_tried_again")
def test_a_torch_without_onednn_is_no_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    assert onednn.problem() == "torch was built without oneDNN"
