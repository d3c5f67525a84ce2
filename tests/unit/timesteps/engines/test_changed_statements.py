"""Changed statements of the store, of any rank and date."""

from __future__ import annotations

from pathlib import Path

from world.dumps import Json
from world.two_days import about, item, two_snapshots
from world.updates import said

from kgedit.store.window import Window
from kgedit.timesteps.engines.store import StoreEngine

CASES = {
    "a label alone": ((about("P6", "Q50"),), (about("P6", "Q50"),), False),
    "another value": ((said("P6", "Q50"),), (said("P6", "Q51"),), True),
    "another rank": ((said("P6", "Q50"),), (said("P6", "Q50", rank="deprecated"),), True),
    "an end of what had ended": ((said("P6", "Q50", end="2010"),), (said("P6", "Q50", end="2011"),), True),
    "a value that is unknown": ((), (said("P6", "somevalue"),), False),
}


def test_versions_of_statements_are_compared_and_words_are_not(tmp_path: Path) -> None:
    sides: list[list[Json]] = [[item("P6"), *(item(f"Q{n}") for n in (50, 51))] for _ in range(2)]
    for place, statements in enumerate(CASES.values(), start=1):
        for k in range(2):
            sides[k].append(item(f"Q{place}", *statements[k], label=f"Town {k}"))
    with Window(*two_snapshots(tmp_path, *sides), spill=tmp_path / "spill") as window:
        changed = StoreEngine().changed_statements(window).to_pylist()
    names = dict(enumerate(CASES, start=1))
    assert [names[int(row["subject"][1:])] for row in changed] == [name for name, case in CASES.items() if case[2]]
    assert {row["property"] for row in changed} == {"P6"}
