"""Tables that grow by a row per edit, loaded to the device of a model."""

from __future__ import annotations

import pytest
import torch
from world.other_devices import KIND, other_devices

from kgedit.editing.row_tables import RowTable
from kgedit.llm import devices


def test_a_loaded_table_is_on_the_models_device_except_formats_that_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "_WITHOUT_FLOAT64", {KIND})
    saved = RowTable()
    saved.add("edit", keys=torch.ones(3), radii=torch.tensor(2.0, dtype=torch.float64))
    with other_devices(without=[torch.float64]) as (first, _):
        loaded = RowTable()
        loaded.apply(saved.content(), device=first)
        assert loaded.column("keys").device == first
        assert loaded.column("radii").device == torch.device("cpu")
        assert loaded.column("keys").tolist() == [[1.0, 1.0, 1.0]]
