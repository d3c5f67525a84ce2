"""Contract of every export form."""

from __future__ import annotations

from pathlib import Path

import pytest
from world.small_timestep import write_timestep

from kgedit.exporters import EXPORTERS
from kgedit.timesteps.timestep import Timestep


@pytest.fixture
def timestep(tmp_path: Path) -> Timestep:
    return write_timestep(tmp_path / "timestep")


@pytest.mark.parametrize("name", list(EXPORTERS))
def test_it_writes_one_file_with_every_case_and_the_same_bytes_each_time(name: str, timestep: Timestep) -> None:
    before = {path.name for path in timestep.folder.iterdir()}
    path = EXPORTERS[name](timestep)
    first = path.read_bytes()
    assert {each.name for each in timestep.folder.iterdir()} == before | {path.name}
    assert all(case.question.encode() in first for case in timestep.cases())
    assert EXPORTERS[name](timestep).read_bytes() == first


@pytest.mark.parametrize("name", list(EXPORTERS))
def test_it_says_what_form_it_writes(name: str) -> None:
    assert EXPORTERS[name].__doc__
