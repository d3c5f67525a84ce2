"""Names of the profiles, each a definition of change, and the options of each."""

from __future__ import annotations

from collections.abc import Mapping

from kgedit.errors import TimestepError

PROFILES = ("wikibigedit", "wikifactdiff")
"""The first is the default."""

PERSONA_STYLES = ("reworded", "framed")
"""How personas ask: in their own words, or with the unchanged question after an introductory sentence."""

COMPATS = ("wikifactdiff-2024",)
"""Behaviours of published code that the profile wikifactdiff can reproduce."""

FUNCTIONAL_BY = {"wikibigedit": ("values", "data", "constraints"), "wikifactdiff": ("constraints", "data")}
"""Profile -> sources of evidence that a relation is functional; the first is the default.

values: each subject's own current values; data: the newer snapshot's statements (kgedit.engines.functionality);
constraints: declarations of Wikidata's editors.
"""

_OWN_OPTIONS = {
    "wikibigedit": ("kinds", "labelled-changes", "kind-embedder", "changed-locality"),
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
