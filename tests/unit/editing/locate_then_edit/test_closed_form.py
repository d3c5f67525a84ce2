"""The least-squares problem behind ROME, MEMIT and AlphaEdit."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from kgedit.editing.locate_then_edit.closed_form import ridge


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGEDIT_HOME", str(tmp_path / "home"))


@pytest.mark.parametrize("sizes", [(3, 2, 1), (9, 8, 7)])
def test_edits_in_sequence_give_what_all_of_them_at_once_give(sizes: tuple[int, ...]) -> None:
    torch.manual_seed(2)
    weight = torch.randn(7, 12, dtype=torch.float64)
    keys = [torch.randn(12, size, dtype=torch.float64) for size in sizes]
    values = [torch.randn(7, size, dtype=torch.float64) for size in sizes]
    every, wanted = torch.cat(keys, dim=1), torch.cat(values, dim=1)
    at_once = weight + ridge(wanted - weight @ every, every, penalty=0.3)

    now, past = weight, None
    for own, value in zip(keys, values, strict=True):
        now = now + ridge(value - now @ own, own, penalty=0.3, past=past)
        past = own if past is None else torch.cat([past, own], dim=1)

    assert torch.allclose(now, at_once, atol=1e-9)
