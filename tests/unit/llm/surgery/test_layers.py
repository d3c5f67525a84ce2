"""Layers as settings name them."""

from __future__ import annotations

import pytest

from kgedit.errors import SpecError
from kgedit.llm.surgery.layers import parse_layers


def test_layers_are_written_as_ranges_or_lists() -> None:
    assert parse_layers("4-8") == (4, 5, 6, 7, 8)
    assert parse_layers("7, 3,5") == (3, 5, 7)
    with pytest.raises(SpecError, match="4-8 or 3,5,7"):
        parse_layers("four")
