"""The measured table of scenarios is what the profile finds in real slices, row by row.

The sample's rows are checked with its command (tests/unit/cli/test_export_wikifactdiff.py).
"""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from world.documented_scenarios import cells, documented
from world.dumps import load
from world.shared_data import SHARED

from kgedit.timesteps.wikifactdiff.export import WikiFactDiffSettings, export_timestep

DATES = {
    "w12k": ("2005-01-01", "2010-01-01", "2014-01-01"),
    "pat": ("2021-12-30", "2023-12-30", "2024-03-31"),
}


@pytest.mark.shared
@pytest.mark.parametrize("data", list(DATES))
@pytest.mark.slow
def test_the_table_is_what_is_found(data: str, tmp_path: Path) -> None:
    snapshots = [
        load(tmp_path / "home", SHARED / "slices" / data / f"{date.replace('-', '')}.json.gz", date)
        for date in DATES[data]
    ]
    found = []
    for old, new in itertools.pairwise(snapshots):
        manifest = export_timestep(old, new, tmp_path / "timestep", settings=WikiFactDiffSettings()).manifest
        found.append([data, old.name, new.name, *cells(manifest)])
    assert documented(data) == found
