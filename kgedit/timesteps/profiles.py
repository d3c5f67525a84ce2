"""Names of the profiles: what counts as a change, and which options belong to which."""

from __future__ import annotations

from collections.abc import Mapping

from kgedit.errors import TimestepError

PROFILES = ("wikibigedit", "wikifactdiff")
"""The first is the default."""

PERSONA_STYLES = ("reworded", "framed")
"""How personas ask: in words of their own, or the unchanged question behind a sentence of theirs."""

COMPATS = ("wikifactdiff-2024",)
"""Behaviours of published code that the profile wikifactdiff can have."""

FUNCTIONAL_BY = {"wikibigedit": ("values", "data", "constraints"), "wikifactdiff": ("constraints", "data")}
"""Profile -> what may say that a relation is functional; the first is the default.

values: each subject's own current values; data: the newer snapshot's statements (kgedit.engines.functionality);
constraints: what Wikidata's editors declare.
"""

_OWN_OPTIONS = {
    "wikibigedit": ("kinds", "labelled-changes", "kind-embedder", "changed-locality"),
    "wikifactdiff": ("compat",),
}


def check_profile(profile: str, options: Mapping[str, object]) -> None:
    """Check a profile's name, and that no option is given that it does not know.

    Args:
        profile: The name.
        options: Options that some profile has; None or empty where they are not given.

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
    """What says in a profile that a relation is functional.

    Args:
        profile: Of PROFILES.
        given: What was asked for; None for the profile's default.

    Raises:
        TimestepError: if the profile does not know it.
    """
    known = FUNCTIONAL_BY[profile]
    if given is None:
        return known[0]
    if given not in known:
        raise TimestepError(f"The profile {profile} has no --functional-by {given}. It has: {', '.join(known)}.")
    return given
