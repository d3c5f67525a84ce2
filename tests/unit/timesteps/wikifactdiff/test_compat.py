"""Each departure of the released code, one at a time: what it changes, and that the paper's behaviour does not."""

from __future__ import annotations

from pathlib import Path

import pytest
from world.dumps import time_value
from world.updates import Case, only, outcomes, said

from kgedit.timesteps.profiles import PAPER, RELEASED_2024
from kgedit.timesteps.wikifactdiff.difference import _missed

NO_RULE = "unknown: no rule holds"
CREATED = said("P571", time_value("+2022-05-01T00:00:00Z", 11))
LATER = said("P571", time_value("+2026-05-01T00:00:00Z", 11))
ENDED = ([said("P39", "Q101", start="2015")], [said("P39", "Q101", start="2015", end="2022-03-01")])

DEPARTURES: dict[str, tuple[Case, str, object, object]] = {
    # 2023 may lie after 27 February; 1 January 2023 does not.
    "first_day_of_coarse_dates": (
        ([], [said("P54", "Q101", start="2023")]),
        "P54",
        NO_RULE,
        ("AddRelation", {"101": "new"}),
    ),
    "functional_relations_by_first_rules_only": (
        ([said("P6", "Q101", start="2015")], [said("P6", "Q101", start="2015", end="2022-03-01")]),
        "P6",
        ("Archive", {"101": "obsolete"}),
        "unknown: 6: any other of a single-valued relation",
    ),
    "functional_by_point_in_time_only": (
        # Two heads of government, one with a point in time: P6 has no separator P585.
        ([], [said("P6", "Q101", start="2022-05-01"), said("P6", "Q102", start="2022-06-01", point="2022-06-01")]),
        "P6",
        ("AddRelation", {"102": "new"}),
        ("AddRelation", {"101": "new", "102": "new"}),
    ),
    "objects_unchecked": (
        ([], [said("P54", "Q81", start="2022")]),
        "P54",
        None,
        ("AddRelation", {"An item without an article": "new"}),
    ),
    "changed_values_only": (
        ENDED,
        "P39",
        ("Archive", {"101": "obsolete"}),
        "the same values in both snapshots, which the released code skips",
    ),
    "entities_by_filtered_part": (
        ([said("P54", "somevalue")], [LATER, said("P54", "Q101")]),
        "P54",
        NO_RULE,
        ("AddEntity", {"101": "new"}),
    ),
}


@pytest.mark.parametrize("departure", list(DEPARTURES))
@pytest.mark.slow
def test_a_departure_changes_what_it_says(departure: str, tmp_path: Path) -> None:
    case, property_id, paper, released = DEPARTURES[departure]
    steady = departure != "entities_by_filtered_part"
    for name, behaviour, expected in (("paper", PAPER, paper), ("released", only(departure), released)):
        result = outcomes(tmp_path / name, {"it": case}, behaviour, steady=steady)
        assert result.get(("it", property_id)) == expected


def test_the_first_qualifier_never_met_before_decides_alone() -> None:
    statements = [
        (1, ["P1", "P9"]),  # P1 is new and not restrictive: P9 is not looked at
        (2, ["P1", "P9"]),  # P1 is known, P9 is new and restrictive: dropped
        (3, ["P1", "P9"]),  # both are known: dropped
        (4, ["P580", "P2", "P9"]),  # P580 is always known; P2 is new: let through
        (5, ["P9", "P3"]),  # P9 is known: dropped, P3 stays unknown
        (6, ["P3", "P4"]),  # nothing restrictive
        (7, ["P447", "P5"]),  # known from the start
    ]
    assert list(_missed(statements, {"P9", "P447"})) == [1, 4]


def test_a_statement_let_through_is_kept(tmp_path: Path) -> None:
    first = said("P54", "Q101", start="2022", also=(("P1366", "Q102"), ("P518", "Q102")))
    cases: dict[str, Case] = {"first": ([], [first]), "second": ([], [first]), "third": ([], [first])}
    found = outcomes(tmp_path, cases, only("stops_at_unseen_qualifier"))
    assert {name for name, property_id in found if property_id == "P54"} == {"first"}


def test_all_departures_together_are_the_compatibility() -> None:
    assert RELEASED_2024.name == "wikifactdiff-2024"
    assert all(getattr(RELEASED_2024, name) for name in DEPARTURES)
