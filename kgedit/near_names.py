"""Finds the names that a user may have meant, for every "did you mean"."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

_LIKENESS = 0.65
"""Minimum ratio of difflib: "lod-dump" has .94 with load-dump; "rouge", with .6, does not mean "judge"."""

_LEAST_BEGINNING = 3
"""Minimum number of letters with which the beginning of a name identifies it."""


def near_names(given: str, names: Iterable[str], *, limit: int = 3) -> list[str]:
    """Names nearest to the given one, best first.

    Ignores case and separators. Names that begin with the given one, or contain it as a word, exclude those that are
    only spelled similarly: "smollm2" means smollm2-135m, "export" means export-timestep and not report.
    """
    known = list(names)
    text = _plain(given)
    plain = {name: _plain(name) for name in known}
    same = [name for name in known if plain[name] == text]
    if same or not text:
        return same[:limit]
    begun = [name for name in known if len(text) >= _LEAST_BEGINNING and plain[name].startswith(text)]
    words = [name for name in known if given.casefold() in re.split(r"[-_/. ]", name)]
    if begun or words:
        return list(dict.fromkeys([*begun, *words]))[:limit]
    alike = difflib.get_close_matches(text, plain.values(), n=limit, cutoff=_LIKENESS)
    spelled = [name for near in alike for name in known if plain[name] == near]
    return list(dict.fromkeys(spelled))[:limit]


def did_you_mean(given: str, names: Iterable[str]) -> str:
    """The sentence " Did you mean 'memit'?" for the nearest name, or "" if none is near."""
    near = near_names(given, names, limit=1)
    return f" Did you mean '{near[0]}'?" if near else ""


def _plain(name: str) -> str:
    return re.sub(r"[\W_]", "", name.casefold())
