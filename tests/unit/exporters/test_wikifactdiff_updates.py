"""WikiFactDiff's lines from the tables of its own profile."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from world.small_timestep import write_timestep

from kgedit.errors import DamagedFileError
from kgedit.exporters.wikifactdiff import export
from kgedit.timesteps.timestep import Timestep
from kgedit.timesteps.wikifactdiff import NEIGHBOURS, OBJECTS, OWN_TABLES, PROFILE, UPDATES
from kgedit.timesteps.wikifactdiff.scenarios import SCENARIOS


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


def test_each_update_has_its_own_objects_and_neighbours_in_whatever_parts_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kgedit.timesteps.tables._ROWS_AT_ONCE", 2)
    keys = [("Q3", "P6"), ("Q1", "P6"), ("Q1", "P35"), ("Q2", "P6")]
    updates = [ROW | {"subject": subject, "property": relation} for subject, relation in keys]
    objects = [key for key, count in zip(keys, (3, 0, 1, 2), strict=True) for _ in range(count)]
    neighbours = [(key, basis) for key in (keys[1], keys[3]) for basis in ("nearest", "nearest", "random")]
    written = _written(
        tmp_path,
        pa.Table.from_pylist(updates, schema=UPDATES),
        objects=_rows(OBJECTS, [{"subject": s, "property": p, "object": f"{s}{p}"} for s, p in objects]),
        neighbours=_rows(
            NEIGHBOURS,
            [
                {"subject": s, "property": p, "basis": basis, "object": f"{s}{p}", "cloze": "x"}
                for (s, p), basis in neighbours
            ],
        ),
    )
    assert [(one["subject"]["id"], one["relation"]["id"]) for one in written] == keys
    assert [[thing["id"] for thing in one["objects"]] for one in written] == [
        ["Q3P6"] * 3,
        [],
        ["Q1P35"],
        ["Q2P6"] * 2,
    ]
    near = [
        [thing["object"]["id"] for row in one[field] for thing in row["objects"]]
        for one in written
        for field in ("neighborhood", "random_neighborhood")
    ]
    assert near == [[], [], ["Q1P6"] * 2, ["Q1P6"], [], [], ["Q2P6"] * 2, ["Q2P6"]]


@pytest.mark.parametrize("subjects", [("Q2", "Q1"), ("Q9", "Q1", "Q2")])
def test_objects_in_another_order_than_the_updates_are_an_error(subjects: tuple[str, ...], tmp_path: Path) -> None:
    updates = [ROW | {"subject": subject} for subject in ("Q1", "Q2")]
    objects = [{"subject": subject, "property": "P6", "object": "Q5"} for subject in subjects]
    with pytest.raises(DamagedFileError, match=r"objects\.parquet is damaged: its rows about .* Export it again"):
        _written(tmp_path, pa.Table.from_pylist(updates, schema=UPDATES), objects=_rows(OBJECTS, objects))


ROW = dict.fromkeys(UPDATES.names) | {"subject": "Q1", "property": "P6", "cloze": "The mayor of Arvika is"}


def _rows(schema: pa.Schema, rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist([dict.fromkeys(schema.names) | row for row in rows], schema=schema)


def _written(folder: Path, updates: pa.Table, **others: pa.Table) -> list[dict[str, Any]]:
    """The lines of a timestep of the own profile with these updates and these other tables."""
    (folder / "timestep.json").write_text(json.dumps({"timestep": "20200101_20210101", "profile": PROFILE}))
    for name, schema in OWN_TABLES.items():
        table = updates if name == "updates" else others.get(name, schema.empty_table())
        pq.write_table(table, folder / f"{name}.parquet")
    lines = export(Timestep.open(folder)).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]
