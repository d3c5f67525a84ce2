"""Exports of real slices: every published row passes the audit, every probe is of the relation's family, and the table
of scenarios in docs/wikifactdiff.md is what the profile finds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from world.documented_scenarios import cells, documented
from world.real_slices import DATES, RealSlice

from kgedit.store.window import Window
from kgedit.timesteps.audit import audit_edits
from kgedit.timesteps.edit_files import open_edits
from kgedit.timesteps.locality import related_relations
from kgedit.timesteps.timestep import Timestep
from kgedit.timesteps.wikifactdiff import PROFILE

pytestmark = [pytest.mark.shared, pytest.mark.slow]

UNKNOWN_BEFORE = "the subject is not in the older snapshot"


@pytest.fixture(scope="module", params=DATES)
def real(request: pytest.FixtureRequest, real_slice: Callable[[str], RealSlice]) -> RealSlice:
    return real_slice(request.param)


def test_the_documented_table_of_scenarios_is_what_is_found(real: RealSlice) -> None:
    """The sample's rows are checked with its command (tests/unit/cli/test_export_wikifactdiff.py)."""
    windows = zip(pairwise(real.snapshots), real.updates, strict=True)
    assert documented(real.name) == [[real.name, old.name, new.name, *cells(t.manifest)] for (old, new), t in windows]


def exports(real: RealSlice) -> Iterator[tuple[Timestep, Path]]:
    """The first timestep in each profile, and its published form; WikiFactDiff's only where the slice has dates."""
    yield real.edits[0], real.edits[0].folder / "wikibigedit.json"
    if real.name != "pat":
        yield real.updates[0], real.updates[0].folder / "wikifactdiff.jsonl"


def test_every_row_is_valid_and_no_probe_is_of_another_family(real: RealSlice, tmp_path: Path) -> None:
    window = real.snapshots[:2]
    with Window(*window, spill=tmp_path / "spill") as opened:
        pairs = related_relations(opened)
    related = set(zip(pairs["property"].to_pylist(), pairs["other"].to_pylist(), strict=True))
    for timestep, published in exports(real):
        audit = audit_edits(open_edits(published), *window, spill=tmp_path / "spill")
        rows = audit.rows.to_pylist()
        assert len(rows) > 20
        # Of WikiFactDiff's new entities some are not in the older slice: nothing in it decides these.
        undecidable = [] if timestep.manifest.get("profile") != PROFILE else [UNKNOWN_BEFORE]
        assert [row for row in rows if row["verdict"] != "valid" and row["reasons"] != undecidable] == []
        whole = audit_edits(open_edits(timestep.folder), *window, spill=tmp_path / "spill").rows
        assert set(whole["verdict"].to_pylist()) == {"valid"}
        assert {row["locality"] for row in rows} <= {"valid", None}
        probes = [(case.fact, probe) for case in timestep.cases() for probe in case.probes if probe.axis == "locality"]
        assert len(probes) > 5
        for edited, probe in probes:
            (asked,) = probe.facts
            assert asked.property == edited.property or (edited.property, asked.property) in related
            assert asked.subject != edited.subject
            assert probe.basis is not None
            assert probe.similarity is not None
            assert probe.evidence in {"dated", "edited", None}
        assert {probe.evidence for _, probe in probes} & {"dated", "edited"}
