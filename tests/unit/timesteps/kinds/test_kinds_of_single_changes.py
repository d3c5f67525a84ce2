"""Kinds of change whose cases need separate worlds: cases of the rules, several values, redirects, any signals."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from world.dumps import Json, entity_value, load, quantity_value, snak, statement, time_value, write_dump
from world.two_days import NEW, OLD, about, changed_edges, item, two_snapshots

from kgedit.timesteps.kinds import KINDS, WindowChanges, describe_kinds, judge_kinds
from kgedit.timesteps.kinds.signals import SIGNALS, SIGNALS_OF_CHANGES

pytestmark = pytest.mark.slow

Describe = Callable[[list[Json], list[Json]], dict[str, tuple[str, str]]]


@pytest.fixture
def describe(tmp_path: Path) -> Describe:
    """Kind and rule of each change, by subject."""

    def described(old: list[Json], new: list[Json]) -> dict[str, tuple[str, str]]:
        before, after = two_snapshots(tmp_path, old, new)
        kinds = describe_kinds(WindowChanges(before, after, [], changed_edges(before, after)), spill=tmp_path / "spill")
        return {row["subject"]: (row["kind"], row["rule"]) for row in kinds.to_pylist()}

    return described


def day(property_id: str, value: str, precision: int = 11) -> Json:
    return snak(property_id, time_value(f"+{value}T00:00:00Z", precision))


def dated(object_id: str, *qualifiers: Json) -> Json:
    return statement(snak("P6", entity_value(object_id)), *qualifiers)


def test_case_21_a_bound_or_a_precision_alone_is_no_update(describe: Describe) -> None:
    old = [
        item("Q1", statement(snak("P2046", quantity_value("+50")))),
        item("Q2", statement(snak("P2046", quantity_value("+50.1")))),
        item("Q3", statement(day("P571", "1901-00-00", 9))),
        item("Q4", statement(day("P571", "1901-05-00", 10))),
    ]
    new = [
        item("Q1", statement(snak("P2046", quantity_value("+50", lowerBound="+49", upperBound="+51")))),
        item("Q2", statement(snak("P2046", quantity_value("+50.14")))),
        item("Q3", statement(day("P571", "1901-05-06"))),
        item("Q4", statement(day("P571", "1901-00-00", 9))),
    ]
    # The bound of Q1 is not part of the value: nothing changed.
    assert {subject: kind for subject, (kind, _) in describe(old, new).items()} == {
        "Q2": "refinement", "Q3": "refinement", "Q4": "unrefinement"
    }  # fmt: skip


def test_case_32_what_began_before_the_older_snapshot_is_a_late_entry(describe: Describe) -> None:
    things = [item("Q8", label="Ann Lee"), item("Q9", label="Bo Ray")]
    old = [item("Q1"), item("Q2", dated("Q8", day("P580", "2001-02-03"))), *things]
    new = [
        item("Q1", dated("Q9", day("P580", "1999-02-03"))),
        item("Q2", dated("Q9", day("P580", "1999-02-03"))),
        *things,
    ]
    assert describe(old, new) == {"Q1": ("backfill", "late entry"), "Q2": ("backfill", "contradiction")}


def test_a_year_that_straddles_the_older_snapshot_decides_nothing(describe: Describe) -> None:
    things = [item("Q8", label="Ann Lee"), item("Q9", label="Bo Ray")]
    new = [item("Q1", dated("Q9", day("P580", "2021-00-00", 9))), *things]
    assert describe([item("Q1", dated("Q8")), *things], new) == {"Q1": ("update", "another thing, rewritten in place")}


@pytest.mark.parametrize(
    ("start", "kind"), [(OLD, "update"), ("2021-01-05", "update"), ("2021-01-03", "backfill"), (NEW, "update")]
)
def test_the_window_excludes_the_older_day_and_includes_the_newer(describe: Describe, start: str, kind: str) -> None:
    things = [item("Q8", label="Ann Lee"), item("Q9", label="Bo Ray")]
    found = describe([item("Q1", dated("Q8")), *things], [item("Q1", dated("Q9", day("P580", start))), *things])
    assert found["Q1"][0] == kind
    assert (found["Q1"][1] == "begins in the window") == (start in ("2021-01-05", NEW))


def test_each_added_value_is_compared_with_the_gone_one_most_like_it(describe: Describe) -> None:
    places = [item("Q2"), item("Q3"), item("Q4", about("P131", "Q2")), item("Q5", about("P131", "Q3"))]
    old = [item("Q1", about("P6", "Q2"), about("P6", "Q3")), *places]
    assert describe(old, [item("Q1", about("P6", "Q4"), about("P6", "Q5")), *places])["Q1"][0] == "refinement"


def test_a_change_is_no_refinement_if_one_of_its_values_is_none(describe: Describe) -> None:
    places = [item("Q2"), item("Q3", label="Elsewhere"), item("Q4", about("P131", "Q2"))]
    old = [item("Q1", about("P6", "Q2")), *places]
    assert describe(old, [item("Q1", about("P6", "Q3"), about("P6", "Q4")), *places])["Q1"][0] == "update"


@pytest.mark.parametrize(("steps", "kind"), [(8, "refinement"), (9, "update")])
def test_containment_is_followed_for_eight_steps(describe: Describe, steps: int, kind: str) -> None:
    chain = [item(f"Q{n}", about("P131", f"Q{n + 1}"), label=chr(55 + n) * 4) for n in range(10, 10 + steps)]
    things = [*chain, item(f"Q{10 + steps}", label="Zenith")]
    found = describe([item("Q1", about("P6", f"Q{10 + steps}")), *things], [item("Q1", about("P6", "Q10")), *things])
    assert found["Q1"][0] == kind


@pytest.mark.parametrize("relation", ["P131", "P171", "P279", "P361"])
def test_each_relation_of_containment_makes_a_refinement(describe: Describe, relation: str) -> None:
    things = [item("Q8", about(relation, "Q9"), label="Ann Lee"), item("Q9", label="Bo Ray")]
    found = describe([item("Q1", about("P6", "Q9")), *things], [item("Q1", about("P6", "Q8")), *things])
    assert found == {"Q1": ("refinement", "within the old value")}


def test_places_within_each_other_are_no_refinement(describe: Describe) -> None:
    things = [item("Q8", about("P131", "Q9"), label="Ann Lee"), item("Q9", about("P131", "Q8"), label="Bo Ray")]
    for old, new in (("Q8", "Q9"), ("Q9", "Q8")):
        found = describe([item("Q1", about("P6", old)), *things], [item("Q1", about("P6", new)), *things])
        assert found == {"Q1": ("update", "another thing, rewritten in place")}


def test_a_part_lies_within_what_says_to_have_it(describe: Describe) -> None:
    things = [item("Q8", label="Ann Lee"), item("Q9", about("P527", "Q8"), label="Bo Ray")]
    found = describe([item("Q1", about("P6", "Q9")), *things], [item("Q1", about("P6", "Q8")), *things])
    assert found == {"Q1": ("refinement", "within the old value")}


def test_a_circle_of_parts_ends(describe: Describe) -> None:
    things = [
        item("Q2", about("P361", "Q3"), label="Ann"),
        item("Q3", about("P361", "Q2"), label="Bo"),
        item("Q4", label="Cy"),
    ]
    assert (
        describe([item("Q1", about("P6", "Q4")), *things], [item("Q1", about("P6", "Q2")), *things])["Q1"][0]
        == "update"
    )


def test_a_value_that_redirects_to_the_other_is_merged(tmp_path: Path) -> None:
    home = tmp_path / "home"
    things = [item("Q2", label="Ann"), item("Q3", label="Bo")]
    before = load(home, write_dump(tmp_path / "old.json", [item("Q1", about("P6", "Q2")), *things]), OLD)
    redirects = tmp_path / "redirects.tsv"
    redirects.write_text("Q2\tQ3\n")
    after = load(
        home, write_dump(tmp_path / "new.json", [item("Q1", about("P6", "Q3")), things[1]]), NEW, redirects=redirects
    )
    changes = pa.table({"subject": ["Q1"], "property": ["P6"], "old_objects": [["Q2"]], "new_objects": [["Q3"]]})
    kinds = describe_kinds(WindowChanges(before, after, [], changes), spill=tmp_path / "spill").to_pylist()
    assert [(row["kind"], row["rule"], row["signals"]) for row in kinds] == [("link repair", "merged", ["merged"])]


def test_no_changes_have_no_kinds(describe: Describe) -> None:
    assert describe([item("Q1")], [item("Q1")]) == {}


ANY_SIGNALS = st.fixed_dictionaries(
    {signal.name: st.none() | (st.floats(-1, 3) if signal.number else st.booleans()) for signal in SIGNALS}
)


@given(st.lists(ANY_SIGNALS, max_size=8))
@settings(max_examples=20, deadline=None)
def test_whatever_the_signals_are_there_is_one_kind(rows: list[dict[str, float | bool | None]]) -> None:
    table = pa.Table.from_pylist([{"subject": "Q1", "property": "P1", **row} for row in rows], SIGNALS_OF_CHANGES)
    judged = judge_kinds(table).to_pylist()
    assert len(judged) == len(rows)
    for row in judged:
        assert row["kind"] in KINDS
        assert 0 <= row["confidence"] <= 1
        assert set(row["signals"]) <= {signal.name for signal in SIGNALS}
