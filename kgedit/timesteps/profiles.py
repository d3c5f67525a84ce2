"""Names of the profiles, each a definition of change, and the options of each.

The WikiFactDiff profile behaves as its paper says, or as the code released with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kgedit.errors import TimestepError

ENGINES = ("auto", "graph", "store")
"""Names of the engines that answer an export's queries, the default first: auto chooses by the size of the window."""

PROFILES = ("wikibigedit", "wikifactdiff")
"""The first is the default."""

PERSONA_STYLES = ("reworded", "framed")
"""How personas ask: in their own words, or with the unchanged question after an introductory sentence."""

COMPATS = ("wikifactdiff-2024",)
"""Behaviours of published code that the profile wikifactdiff can reproduce."""

FUNCTIONAL_BY = {"wikibigedit": ("values", "data", "constraints"), "wikifactdiff": ("constraints", "data")}
"""Profile -> sources of evidence that a relation is functional; the first is the default.

values: each subject's own current values; data: the newer snapshot's statements (engines.functionality);
constraints: declarations of Wikidata's editors.
"""

_OWN_OPTIONS = {
    "wikibigedit": (
        *("kinds", "labelled-changes", "kind-embedder", "changed-locality"),
        *("hops", "language", "crosslingual"),
    ),
    "wikifactdiff": ("compat",),
}


def check_profile(profile: str, options: Mapping[str, object]) -> None:
    """Check that a profile exists and has every given option.

    Args:
        profile: Name of the profile.
        options: Options that some profile has; None or empty if they are not given.

    Raises:
        TimestepError: if the name is unknown or an option belongs to another profile.
    """
    if profile not in PROFILES:
        raise TimestepError(f"There is no profile '{profile}'. There are: {', '.join(PROFILES)}.")
    foreign = [name for name, given in options.items() if given and name not in _OWN_OPTIONS[profile]]
    if foreign:
        owner = next(name for name, own in _OWN_OPTIONS.items() if foreign[0] in own)
        raise TimestepError(
            f"The profile {profile} has no --{foreign[0]}. Leave it out, or add --profile {owner}, which has it."
        )


def functional_by(profile: str, given: str | None) -> str:
    """Evidence by which a profile decides that a relation is functional.

    Args:
        profile: One of PROFILES.
        given: Requested evidence; None means the profile's default.

    Raises:
        TimestepError: if the profile does not support it.
    """
    known = FUNCTIONAL_BY[profile]
    if given is None:
        return known[0]
    if given not in known:
        raise TimestepError(f"The profile {profile} has no --functional-by {given}. It has: {', '.join(known)}.")
    return given


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
