"""The two verdicts on a property: measured from statements, and declared by Wikidata's editors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from world.dumps import Json, load, snak, statement, write_dump
from world.updates import article, functional, said

from kgedit.cli import main
from kgedit.errors import StoreError
from kgedit.store.snapshots import Snapshot
from kgedit.timesteps.engines.functionality import Bounds, measure_functionality

DATE = "2021-01-04"
FEW = Bounds(subjects=2)


def town(number: int, *statements: Json) -> Json:
    return article(f"Q{number}", *statements)


def head_since(name: str, start: str) -> Json:
    return said("P6", name, start=start)


TOWNS = [
    # Heads succeed one another, schools coexist, a country is never dated.
    town(1, said("P6", "Q101", start="2010", end="2019"), head_since("Q102", "2019"), said("P17", "Q103")),
    town(2, head_since("Q104", "2018"), said("P17", "Q103"), said("P69", "Q105"), said("P69", "Q106")),
    town(3, head_since("Q107", "2018"), said("P17", "Q103"), said("P69", "Q105")),
]
EXCEPTED = statement(
    said("P2302", "Q52060874")["mainsnak"],
    snak("P2303", {"type": "wikibase-entityid", "value": {"entity-type": "item", "id": "Q228"}}),
)


def snapshot(folder: Path, *properties: Json) -> Snapshot:
    named = [article(name) for name in ("P6", "P17", "P69") if name not in {one["id"] for one in properties}]
    values = [article(f"Q{number}") for number in range(101, 108)]
    return load(folder / "home", write_dump(folder / "dump.json", [*properties, *named, *values, *TOWNS]), DATE)


def verdicts(found: Any) -> dict[str, tuple[str, str]]:
    return {
        row["property"]: (row["measured"], row["declared"])
        for row in found.to_pylist()
        if row["property"] != "P2302"
    }  # fmt: skip


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    folder = tmp_path_factory.mktemp("functionality")
    return snapshot(folder, functional("P6", "P580", "P582"), article("P17", EXCEPTED))


def test_a_relation_whose_values_follow_one_another_is_temporal_by_both_verdicts(loaded: Snapshot) -> None:
    found = verdicts(measure_functionality(loaded, bounds=FEW))
    assert found == {"P6": ("temporal", "temporal"), "P17": ("single", "single"), "P69": ("several", "several")}


def test_without_constraints_the_data_alone_say_that_a_relation_is_functional(tmp_path: Path) -> None:
    found = measure_functionality(snapshot(tmp_path), bounds=FEW, disagreeing=True)
    assert verdicts(found) == {"P6": ("temporal", "several"), "P17": ("single", "several")}


def test_dated_are_statements_that_ended_as_well(loaded: Snapshot) -> None:
    rows = {row["property"]: row for row in measure_functionality(loaded, bounds=FEW).to_pylist()}
    assert [rows[name]["dated_claims"] for name in ("P6", "P17", "P69")] == [1, 0, 0]
    assert [rows[name]["subjects"] for name in ("P6", "P17", "P69")] == [3, 3, 2]


def test_a_constraint_that_names_exceptions_says_so(loaded: Snapshot) -> None:
    rows = {row["property"]: row for row in measure_functionality(loaded, bounds=FEW).to_pylist()}
    assert [rows[name]["exceptions"] for name in ("P6", "P17", "P69")] == [False, True, None]


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        (Bounds(subjects=2, functional=0.5), {"P6": "temporal", "P17": "single", "P69": "single"}),
        (Bounds(subjects=2, dated=0), {"P6": "temporal", "P17": "temporal", "P69": "several"}),
        (Bounds(subjects=3), {"P6": "temporal", "P17": "single"}),
    ],
)
def test_the_bounds_decide_what_counts(loaded: Snapshot, bounds: Bounds, expected: dict[str, str]) -> None:
    found = verdicts(measure_functionality(loaded, bounds=bounds))
    assert {name: measured for name, (measured, _) in found.items()} == expected


def test_a_share_above_one_is_refused() -> None:
    with pytest.raises(StoreError, match="from 0 to 1"):
        Bounds(functional=95)


def test_the_command_lists_the_properties_of_which_the_verdicts_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot(tmp_path, functional("P6", "P580"))
    monkeypatch.setenv("KGEDIT_HOME", str(tmp_path / "home"))
    ran = CliRunner().invoke(
        main, ["relations", "--date", DATE, "--min-subjects", "2", "--disagreeing", "--format", "csv"]
    )
    assert ran.exit_code == 0, ran.output
    header, *lines = ran.stdout.splitlines()
    assert "measured,declared" in header
    assert [line.partition(",")[0] for line in lines] == ["P17"]
