"""How a timestep is made: as the paper says, or as the code released with it does."""

from __future__ import annotations

from dataclasses import dataclass

from kgedit.errors import TimestepError
from kgedit.timesteps.profiles import COMPATS


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """Where the released code departs from the paper. All false is the paper.

    Attributes:
        name: Of COMPATS; None for the paper's own.
        first_day_of_coarse_dates: "2021" is 1 January 2021, and a time known to exist but not when is no time.
        functional_by_point_in_time_only: Of a single-valued relation the latest P585 is kept only where P585 is a
            separator; every single-valued relation, with separators or without, keeps its one preferred statement.
        functional_relations_by_first_rules_only: Single-valued relations are judged by rules 1 to 6 and none other.
        objects_unchecked: An object needs no article and may be a list, category, template or disambiguation page.
        stops_at_unseen_qualifier: Of a statement's qualifiers the first that no earlier statement bore decides alone.
        changed_values_only: A group whose values are the same in both snapshots is skipped, whatever became of dates.
        entities_by_filtered_part: An entity is new if the older snapshot has none of its statements after filtering;
            the first date of creation decides, and it may lie after the newer snapshot.
        last_entities_lost: What follows the last full thousand of entities, by popularity, is not written.
    """

    name: str | None = None
    first_day_of_coarse_dates: bool = False
    functional_by_point_in_time_only: bool = False
    functional_relations_by_first_rules_only: bool = False
    objects_unchecked: bool = False
    stops_at_unseen_qualifier: bool = False
    changed_values_only: bool = False
    entities_by_filtered_part: bool = False
    last_entities_lost: bool = False


PAPER = Behaviour()

RELEASED_2024 = Behaviour(
    name="wikifactdiff-2024",
    first_day_of_coarse_dates=True,
    functional_by_point_in_time_only=True,
    functional_relations_by_first_rules_only=True,
    objects_unchecked=True,
    stops_at_unseen_qualifier=True,
    changed_values_only=True,
    entities_by_filtered_part=True,
    last_entities_lost=True,
)


def behaviour(compat: str | None) -> Behaviour:
    """The behaviour of a name; None for the paper's.

    Raises:
        TimestepError: if there is none of that name.
    """
    if compat is None:
        return PAPER
    if compat not in COMPATS:
        raise TimestepError(f"There is no compatibility '{compat}'. There is: {', '.join(COMPATS)}.")
    return RELEASED_2024
