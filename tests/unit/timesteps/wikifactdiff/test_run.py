"""`run-edit` accepts timesteps of this profile like any other."""

from __future__ import annotations

from pathlib import Path

import pytest
from world.small_models import save, small_model
from world.two_days import two_snapshots
from world.updates import article, functional, number, said

import kgedit
from kgedit.timesteps.wikifactdiff.export import WikiFactDiffSettings, export_timestep


@pytest.mark.slow
def test_its_cases_are_edited_and_asked_before_and_after(tmp_path: Path) -> None:
    schema = [functional("P1082", "P585"), article("P31"), article("Q50", label="town")]
    old, new = (
        [
            *schema,
            article("Q1", said("P31", "Q50"), said("P1082", number(amount), point=point), label="Arvika"),
            article("Q2", said("P31", "Q50"), said("P1082", number("31000"), point="2018"), label="Borgholm"),
        ]
        for amount, point in (("26000", "2019"), ("27000", "2022-06-01"))
    )
    timestep = export_timestep(
        *two_snapshots(tmp_path, old, new), tmp_path / "timestep", settings=WikiFactDiffSettings()
    )
    spec = {
        "model": str(save(small_model(), tmp_path / "model")),
        "method": "ft_m",
        "settings": {"steps": 1},
        "timesteps": [str(timestep.folder)],
        "presets": ["synthetic"],
        "device": "cpu",
    }
    table = kgedit.scores(kgedit.run(spec, out=tmp_path / "run")).to_pylist()
    assert {row["axis"] for row in table if row["axis"]} >= {"update", "rephrase", "personas", "locality"}
    assert {row["stage"] for row in table} >= {"before", "own"}
