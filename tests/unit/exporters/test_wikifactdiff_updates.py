"""WikiFactDiff's lines from the tables of its own profile."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from kgedit.exporters.wikifactdiff import export
from kgedit.timesteps.timestep import Timestep
from kgedit.timesteps.wikifactdiff.tables import OWN_TABLES, PROFILE, UPDATES


def test_updates_of_older_timesteps_which_have_no_clozes_are_written_with_their_update_prompt_alone(
    tmp_path: Path,
) -> None:
    (tmp_path / "timestep.json").write_text(json.dumps({"timestep": "20200101_20210101", "profile": PROFILE}))
    row = dict.fromkeys(UPDATES.names) | {"subject": "Q1", "property": "P6", "cloze": "The mayor of Arvika is"}
    updates = pa.Table.from_pylist([row], schema=UPDATES).drop_columns(["clozes"])
    for name, schema in OWN_TABLES.items():
        table = updates if name == "updates" else schema.empty_table()
        pq.write_table(table, tmp_path / f"{name}.parquet")
    (line,) = export(Timestep.open(tmp_path)).read_text(encoding="utf-8").splitlines()
    written = json.loads(line)
    assert (written["update_prompt"], written["generalization_prompts"]) == ("The mayor of Arvika is ____", [])
