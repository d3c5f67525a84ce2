"""Behaviour of an export: that of the paper, or of the code released with it."""

from __future__ import annotations

from dataclasses import dataclass

from kgedit.errors import TimestepError
from kgedit.timesteps.profiles import COMPATS


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """Differences between the released code and the paper. All false is the paper.

    Attributes:
        name: One of COMPATS; None means the paper's own.
        first_day_of_coarse_dates: "2021" is 1 January 2021, and a time known to exist with an unknown value is no time.
        functional_by_point_in_time_only: The latest P585 of a single-valued relation is kept only if P585 is a
            separator; every single-valued relation, with separators or without, keeps its one preferred statement.
        functional_relations_by_first_rules_only: Single-valued relations are judged only by rules 1 to 6.
        objects_unchecked: An object needs no article and may be a list, category, template or disambiguation page.
        stops_at_unseen_qualifier: The first of a statement's qualifiers that no earlier statement had decides alone.
        changed_values_only: A group whose values are the same in both snapshots is skipped even if its dates changed.
        entities_by_filtered_part: An entity is new if the older snapshot has none of its statements after filtering;
            the first date of creation decides, and it may be after the newer snapshot.
        last_entities_lost: Entities after the last full thousand, by popularity, are not written.
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
    """Behaviour by name; None means the paper's.

    Raises:
        TimestepError: if the name is unknown.
    """
    if compat is None:
        return PAPER
    if compat not in COMPATS:
        raise TimestepError(f"There is no compatibility '{compat}'. There is: {', '.join(COMPATS)}.")
    return RELEASED_2024
