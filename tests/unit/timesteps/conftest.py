"""Real slices, which several files of tests share."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
from world.real_slices import RealSlice


@pytest.fixture(scope="session")
def real_slice(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], RealSlice]:
    """Returns the slice of a name."""
    return cache(lambda name: RealSlice(name, tmp_path_factory.mktemp(name)))
