"""Products with frozen matrices give the numbers and gradients of torch's own."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.functional import linear
from world.small_models import model_of

from kgedit.llm.surgery import onednn
from kgedit.llm.surgery.onednn import frozen_products


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(3, 5), (1, 1)], ids=["rows", "row"])
@pytest.mark.parametrize("width", [200, 400])
def test_outputs_and_gradients_of_inputs_are_those_of_the_layer(bias: bool, shape: tuple[int, int], width: int) -> None:
    torch.manual_seed(0)
    layer = nn.Linear(160, width, bias=bias).requires_grad_(False)
    inputs = torch.randn(*shape, 160, requires_grad=True)
    weights = torch.randn(*shape, width).transpose(0, 1).contiguous().transpose(0, 1)
    expected = layer(inputs)
    (slopes,) = torch.autograd.grad((expected * weights).sum(), inputs)

    with frozen_products(model_of(layer)):
        found = layer(inputs)
        (own,) = torch.autograd.grad((found * weights).sum(), inputs)

    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(own, slopes)
    assert "forward" not in layer.__dict__


@pytest.mark.parametrize("width", [200, 400])
@pytest.mark.parametrize("rows", [1, 2, 7])
def test_gradients_stay_the_same_to_the_last_bit_however_often_a_matrix_is_read(rows: int, width: int) -> None:
    torch.manual_seed(0)
    layer = nn.Linear(160, width).requires_grad_(False)
    inputs = torch.randn(rows, 160, requires_grad=True)
    weights = torch.randn(rows, width)
    with frozen_products(model_of(layer)):
        slopes = [torch.autograd.grad((layer(inputs) * weights).sum(), inputs)[0] for _ in range(40)]
    torch.testing.assert_close(slopes[0], weights @ layer.weight)
    assert all(torch.equal(slopes[0], other) for other in slopes)


def test_trained_narrow_and_other_layers_keep_their_own_way() -> None:
    trained, narrow = nn.Linear(160, 160), nn.Linear(16, 160).requires_grad_(False)
    wide = nn.Linear(160, 160).double().requires_grad_(False)
    inputs = torch.randn(2, 160)
    expected = trained(inputs)
    with frozen_products(model_of(trained, narrow, wide)):
        assert "forward" not in narrow.__dict__
        assert "forward" not in wide.__dict__
        found = trained(inputs)
        found.sum().backward()  # type: ignore[no-untyped-call]
    assert torch.equal(found, expected)
    assert trained.weight.grad is not None


def test_without_gradients_a_trainable_layer_gives_the_same_numbers() -> None:
    layer, inputs = nn.Linear(160, 160), torch.randn(2, 160)
    expected = layer(inputs).detach()
    with torch.inference_mode(), frozen_products(model_of(layer)):
        found = layer(inputs)
    torch.testing.assert_close(found, expected)


def test_what_is_read_again_is_multiplied_once_and_other_inputs_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = nn.Linear(160, 160).requires_grad_(False)
    first, other = torch.randn(2, 160), torch.randn(2, 160)
    expected, products = [layer(first), layer(other)], []
    product = onednn.product
    monkeypatch.setattr(onednn, "product", lambda *given: products.append(1) or product(*given))
    with frozen_products(model_of(layer)):
        layer(first).zero_()  # of the caller's own
        torch.testing.assert_close(layer(first), expected[0])
        assert len(products) == 1
        torch.testing.assert_close(layer(other), expected[1])
        torch.testing.assert_close(layer(first), expected[0])
        assert len(products) == 3


def test_an_answer_after_any_change_of_a_weight_is_that_of_the_new_weights() -> None:
    """Also through `.data` or numpy, and away from the few numbers that a sample would look at."""
    torch.manual_seed(0)
    layer, inputs = nn.Linear(160, 200).requires_grad_(False), torch.randn(3, 160)
    model = model_of(layer)
    changes = [
        lambda weight: weight.data[7, 11:13].neg_(),
        lambda weight: weight.numpy().__setitem__((150, 3), 9.0),
        lambda weight: weight[5].mul_(2),
    ]
    for change in changes:
        with torch.inference_mode():
            for _ in range(2):
                with frozen_products(model):
                    for _ in range(20):
                        found = layer(inputs)
        torch.testing.assert_close(found, linear(inputs, layer.weight, layer.bias))
        change(layer.weight)
    with torch.inference_mode(), frozen_products(model):
        torch.testing.assert_close(layer(inputs), linear(inputs, layer.weight, layer.bias))
