"""Changes between snapshots do not depend on the order of lines or on how a window is split."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from world.dumps import Json, entity, entity_value, load, snak, statement, text_value, write_dump

from kgedit.store.delta import write_delta
from kgedit.store.scope import Scope
from kgedit.store.snapshots import Snapshot

Triple = tuple[str, str, str]
DATES = ("2021-01-04", "2023-02-27", "2024-06-03")
RANKS = ("normal", "preferred")
VALUES = [entity_value("Q1"), entity_value("Q2"), text_value("a"), text_value("b")]


@st.composite
def worlds(draw: st.DrawFn) -> list[Json]:
    made = []
    for name in draw(st.sets(st.sampled_from(("Q1", "Q2", "Q3")), min_size=1)):
        said = draw(st.lists(st.tuples(st.sampled_from(("P1", "P2")), st.sampled_from(VALUES), st.sampled_from(RANKS))))
        made.append(
            entity(
                name,
                *(
                    statement(snak(property_id, value), rank=rank, statement_id=f"{name}$S{place}")
                    for place, (property_id, value, rank) in enumerate(said)
                ),
            )
        )
    return made


def facts(snapshot: Snapshot) -> set[Triple]:
    return triples(snapshot.facts)


def triples(path: Path) -> set[Triple]:
    return {
        (row["subject"], row["property"], row["object"])
        for row in pq.read_table(path, columns=["subject", "property", "object"]).to_pylist()
    }


def delta(older: Snapshot, newer: Snapshot, folder: Path) -> tuple[set[Triple], set[Triple]]:
    """The facts that ended and those that began."""
    folder.mkdir()
    files = write_delta(older, newer, Scope(), folder)
    return triples(files["facts_ended"]), triples(files["facts_begun"])


@settings(max_examples=3, deadline=None)
@given(st.lists(worlds(), min_size=3, max_size=3))
@pytest.mark.slow
def test_two_windows_composed_change_what_the_whole_window_changes(
    tmp_path_factory: pytest.TempPathFactory, states: list[list[Json]]
) -> None:
    folder = tmp_path_factory.mktemp("windows")
    first, second, third = (
        load(folder / "home", write_dump(folder / f"{date}.json", state), date)
        for date, state in zip(DATES, states, strict=True)
    )
    ended, begun = delta(first, third, folder / "whole")
    assert (facts(first) - ended) | begun == facts(third)
    (ended_1, begun_1), (ended_2, begun_2) = (
        delta(first, second, folder / "one"),
        delta(second, third, folder / "two"),
    )
    # What began and ended again within the whole window, or ended and began again, is no change over it.
    assert begun == (begun_1 - ended_2) | (begun_2 - ended_1)
    assert ended == (ended_1 - begun_2) | (ended_2 - begun_1)


@settings(max_examples=3, deadline=None)
@given(st.tuples(worlds(), worlds()), st.randoms(use_true_random=False))
@pytest.mark.slow
def test_the_order_of_lines_and_statements_changes_no_byte_of_a_delta(
    tmp_path_factory: pytest.TempPathFactory, states: tuple[list[Json], list[Json]], random: Any
) -> None:
    folder = tmp_path_factory.mktemp("orders")
    written = []
    for name in ("given", "shuffled"):
        worlds_ = states if name == "given" else tuple(_shuffled(state, random) for state in states)
        older, newer = (
            load(folder / name, write_dump(folder / name / f"{date}.json", state), date, block_bytes=300)
            for date, state in zip(DATES[:2], worlds_, strict=True)
        )
        (folder / name / "delta").mkdir()
        files = write_delta(older, newer, Scope(), folder / name / "delta")
        written.append({step: path.read_bytes() for step, path in files.items()})
    assert written[0] == written[1]


def _shuffled(state: list[Json], random: Any) -> list[Json]:
    """The lines in another order, and the statements of each entity in another order of properties and of their own."""
    lines = []
    for line in random.sample(state, len(state)):
        claims = line["claims"] or {}
        names = random.sample(sorted(claims), len(claims))
        lines.append(line | {"claims": {name: random.sample(claims[name], len(claims[name])) for name in names}})
    return lines
