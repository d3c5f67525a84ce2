"""The rules on human-labelled edits of entities on which they were not developed."""

from __future__ import annotations

import pytest
from change_kinds import by_rules, halves, read_edits
from world.shared_data import SHARED

pytestmark = pytest.mark.shared


def test_rules_alone_reach_their_goal_on_entities_that_they_were_not_developed_on() -> None:
    developed, other = halves(read_edits(SHARED / "wd_change_gold" / "edits.csv"))
    assert len(developed.kinds) + len(other.kinds) == 3834
    assert not set(developed.entities) & set(other.entities)
    measured = by_rules(other)
    assert measured["all"][1] >= 0.85
    assert min(measured[name][1] for name in ("time", "quantity")) >= 0.95
