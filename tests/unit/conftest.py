"""Fixtures of many unit tests: a small timestep, its cases, and a separate home."""

from __future__ import annotations

from pathlib import Path

import pytest
from world.small_timestep import write_timestep

from kgedit.records.cases import Case
from kgedit.timesteps.timestep import Timestep


@pytest.fixture(scope="session")
def timestep(tmp_path_factory: pytest.TempPathFactory) -> Timestep:
    """Ten cases and 20 known facts; tests read it only."""
    return write_timestep(tmp_path_factory.mktemp("timestep"))


@pytest.fixture(scope="session")
def cases(timestep: Timestep) -> list[Case]:
    return list(timestep.cases())


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGEDIT_HOME", str(tmp_path / "home"))
