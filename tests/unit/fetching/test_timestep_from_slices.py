"""From nothing to a timestep: a list of items asked of an endpoint on two days, loaded as two slices, exported."""

from __future__ import annotations

import datetime
from pathlib import Path

import pyarrow.compute as pc
import pytest
import rdflib
from world.dumps import Json
from world.endpoints import Answer, query_in, serving
from world.rdf import RdfWriter
from world.two_days import NEW, OLD, changed_edges
from world.updates import SCHEMA, VALUES, article, said

from kgedit.fetching.manners import Manners
from kgedit.fetching.slices import slice_note
from kgedit.fetching.sparql import SliceOrder, fetch_slice
from kgedit.loaders.detection import checked_format, load_with
from kgedit.store.ingest import ingest
from kgedit.store.schemas import LoaderOptions
from kgedit.store.snapshots import Snapshot
from kgedit.store.sources import DumpFile
from kgedit.timesteps.kinds import WindowChanges, find_signals
from kgedit.timesteps.wikifactdiff.export import WikiFactDiffSettings, export_timestep

STEADY = said("P31", "Q120")
BEFORE = [article("Q1001", said("P6", "Q101", start="2015"), STEADY), article("Q1002", said("P6", "Q104"), STEADY)]
AFTER = [
    article("Q1001", said("P6", "Q102", start="2022-05"), STEADY),
    article("Q1003", said("P6", "Q105", start="2022-06"), said("P571", "Q106"), STEADY),
]
"""Q1002 is in the older slice only, Q1003 in the newer one only."""


def snapshot(folder: Path, world: list[Json], date: str) -> Snapshot:
    """What `fetch-slice` and `load-dump` do on a day on which the endpoint holds this world."""
    named = ("P6", "Q101", "Q102", "Q104", "Q105", "Q120", "P31")
    entities = [one for one in [*SCHEMA, *VALUES] if one["id"] in named] + world
    return fetched_snapshot(folder, entities, date, [one["id"] for one in entities if one["type"] == "item"])


def fetched_snapshot(folder: Path, entities: list[Json], date: str, ids: list[str], ancestors: int = 0) -> Snapshot:
    """Some items of an endpoint that holds these entities, loaded."""
    folder.mkdir(exist_ok=True)
    properties = {"datatype": "wikibase-item", "labels": {}}
    graph = rdflib.Graph().parse(
        data=RdfWriter().dump(properties | one if one["type"] == "property" else one for one in entities), format="nt"
    )

    def answer(path: str, headers: dict[str, str], body: bytes) -> Answer:
        return 200, {}, graph.query(query_in(body)).serialize(format="json") or b""

    with serving(answer) as endpoint:
        order = SliceOrder(
            endpoint=endpoint.address, ids=tuple(ids), ancestors=ancestors, page=50,
            manners=Manners(sleep=lambda _: None),
        )  # fmt: skip
        made = fetch_slice(order, folder / f"{date}.nt.gz")
    source = DumpFile(made.path)
    load = load_with(checked_format(source, None), LoaderOptions(), date=datetime.date.fromisoformat(date),
                     slice_of=slice_note(made.path))  # fmt: skip
    return ingest(folder / "home", load, source, workers=1, overwrite=False)


@pytest.mark.slow
def test_a_slice_with_ancestors_decides_what_one_without_leaves_undecided(tmp_path: Path) -> None:
    """A head of Q1001 changes from a place to one within it, two steps inward."""
    places = [article("Q104", said("P131", "Q105")), article("Q105", said("P131", "Q101")), article("Q101")]
    before, after = (
        [article("Q1001", said("P6", value)), *places, *(one for one in SCHEMA if one["id"] == "P6")]
        for value in ("Q101", "Q104")
    )
    found = {}
    for steps in (0, 8):
        old, new = (
            fetched_snapshot(tmp_path / str(steps), world, date, ["Q1001"], ancestors=steps)
            for world, date in ((before, OLD), (after, NEW))
        )
        signals = find_signals(WindowChanges(old, new, [], changed_edges(old, new)), spill=tmp_path / "spill")
        [found[steps]] = signals.filter(pc.equal(signals["subject"], "Q1001"))["new_within_old"].to_pylist()
    assert found == {0: None, 8: True}


@pytest.mark.slow
def test_a_list_on_two_days_makes_a_timestep_of_what_both_slices_hold(tmp_path: Path) -> None:
    old, new = snapshot(tmp_path, BEFORE, OLD), snapshot(tmp_path, AFTER, NEW)
    made = export_timestep(old, new, tmp_path / "timestep", settings=WikiFactDiffSettings())
    cases = {(case.fact.subject, case.fact.property, case.fact.object) for case in made.cases()}
    assert cases == {("Q1001", "P6", "Q102")}
    assert made.manifest["new_entities"]["new"] == 0
    assert all(snapshot["slice_of"] for snapshot in made.manifest["snapshots"])
