from __future__ import annotations

import sys

import pytest

from kgedit.errors import UnknownNameError
from kgedit.registry import Registry

PARTS: Registry[object] = Registry("part", {"colour": "colorsys:rgb_to_hsv", "wave": "wave:open"})


def test_a_part_is_imported_when_it_is_used_and_not_before() -> None:
    sys.modules.pop("colorsys", None)
    assert "colour" in PARTS
    assert list(PARTS) == ["colour", "wave"]
    assert "colorsys" not in sys.modules
    assert PARTS["colour"] is sys.modules["colorsys"].rgb_to_hsv


def test_an_unknown_name_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(UnknownNameError, match=r"no part 'color'. Did you mean 'colour'\? Known: colour, wave"):
        PARTS["color"]


def test_it_is_a_mapping_like_any_other() -> None:
    assert PARTS.get("nothing") is None
    assert len(PARTS) == 2
