"""Copies of matrices that are read often give the same bits, and never those of values that are gone."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from kgedit.llm.surgery import onednn
from kgedit.llm.surgery.onednn import _READINGS, PackedMatrices, copies_are_exact

TORCH = tuple(int(part) for part in torch.__version__.split(".")[:2])
pytestmark = pytest.mark.skipif(TORCH < (2, 15) and not copies_are_exact(), reason="this torch's copies are not used")


@pytest.fixture
def layer() -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(160, 200).requires_grad_(False)


def _read_often(packed: PackedMatrices, layer: nn.Linear, *, transposed: bool = False) -> torch.Tensor:
    inputs = torch.ones(3, layer.out_features if transposed else layer.in_features)
    for _ in range(_READINGS):
        found = packed.of(layer, inputs, transposed=transposed)
    return found


def test_a_matrix_is_copied_when_it_has_been_read_often(layer: nn.Linear) -> None:
    packed = PackedMatrices()
    assert packed.of(layer, torch.ones(3, 160)) is layer.weight
    assert _read_often(packed, layer).is_mkldnn


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("rows", [2, 3, 10, 33, 300, 512])
def test_a_copy_gives_the_same_bits_for_any_number_of_rows(layer: nn.Linear, rows: int, transposed: bool) -> None:
    matrix = layer.weight.t() if transposed else layer.weight
    packed, inputs = PackedMatrices(), torch.randn(rows, matrix.shape[1])
    _read_often(packed, layer, transposed=transposed)
    copy = packed.of(layer, inputs, transposed=transposed)
    assert copy.is_mkldnn
    assert torch.equal(onednn.product(inputs, copy, None), onednn.product(inputs, matrix, None))


@pytest.mark.parametrize("rows", [1, 513])
def test_single_rows_and_many_read_the_matrix_itself(layer: nn.Linear, rows: int) -> None:
    packed = PackedMatrices()
    _read_often(packed, layer)
    assert packed.of(layer, torch.ones(rows, 160)) is layer.weight


def test_a_matrix_that_has_changed_is_read_itself_and_copied_anew(layer: nn.Linear) -> None:
    packed, inputs = PackedMatrices(), torch.randn(3, 160)
    _read_often(packed, layer)
    layer.weight.add_(1)
    assert packed.of(layer, inputs) is layer.weight
    assert torch.equal(
        onednn.product(inputs, _read_often(packed, layer), None), onednn.product(inputs, layer.weight, None)
    )


def test_another_matrix_in_its_place_is_read_itself(layer: nn.Linear) -> None:
    packed = PackedMatrices()
    _read_often(packed, layer)
    layer.weight = nn.Parameter(torch.zeros(200, 160), requires_grad=False)
    assert packed.of(layer, torch.ones(3, 160)) is layer.weight


@pytest.mark.parametrize("place", [(0, 0), (17, 91), (199, 159)])
@pytest.mark.parametrize("transposed", [False, True])
def test_one_number_that_changes_uncounted_is_noticed_between_uses(
    layer: nn.Linear, place: tuple[int, int], transposed: bool
) -> None:
    packed = PackedMatrices()
    _read_often(packed, layer, transposed=transposed)
    layer.weight.data[place] += 1e-3  # as peft merges adapters
    packed.begin_use()
    matrix = layer.weight.t() if transposed else layer.weight
    inputs = torch.randn(3, matrix.shape[1])
    for _ in range(2 * _READINGS):
        assert torch.equal(
            onednn.product(inputs, packed.of(layer, inputs, transposed=transposed), None),
            onednn.product(inputs, matrix, None),
        )


def test_a_transposed_copy_for_single_rows_is_checked_too() -> None:
    long, packed = nn.Linear(160, 400).requires_grad_(False), PackedMatrices()
    assert packed.transposed(long) is not None
    long.weight.data[3, 3] = 0
    packed.begin_use()
    again = packed.transposed(long)
    assert again is not None
    assert torch.equal(again, long.weight.t())


def test_a_matrix_is_checked_once_in_a_use_and_its_copy_is_kept(
    layer: nn.Linear, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed, checked = PackedMatrices(), []
    _read_often(packed, layer)
    _read_often(packed, layer, transposed=True)
    digest = onednn.tensor_digest
    monkeypatch.setattr(onednn, "tensor_digest", lambda weight: checked.append(1) or digest(weight))
    for _ in range(2):
        packed.begin_use()
        assert _read_often(packed, layer).is_mkldnn
        assert _read_often(packed, layer, transposed=True).is_mkldnn
    assert len(checked) == 2


def test_a_use_that_reads_a_matrix_a_few_times_checks_nothing(
    layer: nn.Linear, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A single question reads each matrix once: a check would take longer than the copy gains."""
    packed = PackedMatrices()
    _read_often(packed, layer)
    monkeypatch.setattr(onednn, "tensor_digest", lambda weight: pytest.fail("checked"))
    for _ in range(5):
        packed.begin_use()
        for _ in range(onednn._UNCHECKED):
            assert packed.of(layer, torch.ones(3, 160)) is layer.weight


def test_copies_take_no_more_than_they_may_and_make_room_when_they_go(layer: nn.Linear) -> None:
    other = nn.Linear(160, 200).requires_grad_(False)
    packed = PackedMatrices(most_bytes=layer.weight.nbytes)
    assert _read_often(packed, layer).is_mkldnn
    assert _read_often(packed, other) is other.weight
    layer.weight.add_(1)
    packed.of(layer, torch.ones(3, 160))
    other.weight.add_(1)
    assert _read_often(packed, other).is_mkldnn


def test_a_matrix_of_many_short_rows_is_transposed_for_single_rows_from_the_first_on() -> None:
    long, square = (nn.Linear(160, rows).requires_grad_(False) for rows in (400, 160))
    packed = PackedMatrices()
    found = packed.transposed(long)
    assert found is not None
    assert torch.equal(found, long.weight.t())
    assert found.is_contiguous()
    assert packed.transposed(long) is found
    assert packed.transposed(square) is None
    with torch.no_grad():
        long.weight.add_(1)
    again = packed.transposed(long)
    assert again is not None
    assert torch.equal(again, long.weight.t())


def test_transposed_copies_take_half_as_much_again() -> None:
    first, second = (nn.Linear(160, 400).requires_grad_(False) for _ in range(2))
    packed = PackedMatrices(most_bytes=2 * first.weight.nbytes)
    assert packed.transposed(first) is not None
    assert packed.transposed(second) is None
    assert packed.of(second, torch.ones(3, 160)) is second.weight
