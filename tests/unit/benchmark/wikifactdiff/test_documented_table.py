"""The table of scenarios in docs/wikifactdiff.md is what the profile finds, row by row."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from world.dumps import load
from world.shared_data import SHARED

from kgedit.benchmark.wikifactdiff.export import Settings, export_timestep
from kgedit.sample.generate import write_world

DOCUMENT = Path(__file__).resolve().parents[4] / "docs" / "wikifactdiff.md"
DATES = {
    "sample": ("2021-01-04", "2023-02-27", "2024-06-03"),
    "w12k": ("2005-01-01", "2010-01-01", "2014-01-01"),
    "pat": ("2021-12-30", "2023-12-30", "2024-03-31"),
}


def documented(data: str) -> list[list[str]]:
    rows = [line.strip("|").split("|") for line in DOCUMENT.read_text(encoding="utf-8").splitlines()]
    return [[cell.strip() for cell in row] for row in rows if row[0].strip() == data]


@pytest.mark.parametrize(
    "data", ["sample", *(pytest.param(name, marks=pytest.mark.shared) for name in ("w12k", "pat"))]
)
def test_the_table_is_what_is_found(data: str, tmp_path: Path) -> None:
    folder = SHARED / "slices" / data
    if data == "sample":
        write_world(folder := tmp_path / "dumps")
    names = [date.replace("-", "") + ".json.gz" for date in DATES[data]]
    redirects = folder / "redirects.tsv"
    snapshots = [
        load(tmp_path / "home", folder / name, date, redirects=redirects if redirects.is_file() else None)
        for name, date in zip(names, DATES[data], strict=True)
    ]
    found = []
    for old, new in itertools.pairwise(snapshots):
        told = export_timestep(old, new, tmp_path / "timestep", settings=Settings()).manifest
        assert told["funnel"]["kept"] == sum(told["scenarios"].values())
        cells = [told["funnel"]["changed"], *told["scenarios"].values(), sum(told["cases"].values())]
        found.append([data, old.name, new.name, *map(str, cells)])
    assert documented(data) == found
