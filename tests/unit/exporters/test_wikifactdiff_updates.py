"""WikiFactDiff's lines from the tables of its own profile."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from world.small_timestep import write_timestep

from kgedit.exporters.wikifactdiff import export
from kgedit.timesteps.timestep import Timestep
from kgedit.timesteps.wikifactdiff.scenarios import SCENARIOS
from kgedit.timesteps.wikifactdiff.tables import OWN_TABLES, PROFILE, UPDATES


def test_updates_of_older_timesteps_which_have_no_clozes_are_written_with_their_update_prompt_alone(
    tmp_path: Path,
) -> None:
    (written,) = _written(tmp_path, pa.Table.from_pylist([ROW], schema=UPDATES).drop_columns(["clozes"]))
    assert (written["update_prompt"], written["generalization_prompts"]) == ("The mayor of Arvika is ____", [])


def test_an_update_replaces_where_its_scenario_says_so(tmp_path: Path) -> None:
    scenarios = [name for name, _ in SCENARIOS]
    rows = [ROW | {"subject": f"Q{number}", "scenario": name} for number, name in enumerate(scenarios)]
    written = _written(tmp_path, pa.Table.from_pylist(rows, schema=UPDATES))
    assert [one["scenario"] for one in written if one["is_replace"]] == ["ReplaceObject"]
    assert len(written) == len(scenarios) > 1


def test_a_case_of_another_profile_replaces_where_it_has_one_old_value(tmp_path: Path) -> None:
    timestep = write_timestep(tmp_path, towns=range(3))
    table = timestep.table("cases")
    rows = [
        row | {"old_objects": [f"Q{n}" for n in range(count)], "old_answers": ["Nils Ek"] * count}
        for count, row in enumerate(table.to_pylist())
    ]
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), tmp_path / "cases.parquet")
    lines = export(Timestep.open(tmp_path)).read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["is_replace"] for line in lines] == [False, True, False]


ROW = dict.fromkeys(UPDATES.names) | {"subject": "Q1", "property": "P6", "cloze": "The mayor of Arvika is"}


def _written(folder: Path, updates: pa.Table) -> list[dict[str, Any]]:
    """The lines of a timestep of the own profile with these updates and nothing else."""
    (folder / "timestep.json").write_text(json.dumps({"timestep": "20200101_20210101", "profile": PROFILE}))
    for name, schema in OWN_TABLES.items():
        pq.write_table(updates if name == "updates" else schema.empty_table(), folder / f"{name}.parquet")
    lines = export(Timestep.open(folder)).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]
