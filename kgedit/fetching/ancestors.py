"""Fetches the surroundings of the values of fetched items: their classes, and the chains of their containers.

A dump contains them anyway. Slices need them so that kgedit can decide whether a new value is contained in the old one
(kgedit.timesteps.kinds). Only current statements of fetched entities are followed, so each step depends on the previous
one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

from kgedit.store.closures import CONTAINMENT
from kgedit.wikidata.ids import INSTANCE_OF


class Surroundings:
    """Classes and direct containers of the entities fetched so far."""

    def __init__(self) -> None:
        self._classes: dict[str, set[str]] = defaultdict(set)
        self._containers: dict[str, set[str]] = defaultdict(set)

    def add(self, subject: str, property_id: str, value: str) -> None:
        """Record a statement; statements with other properties are ignored."""
        if property_id == INSTANCE_OF:
            self._classes[subject].add(value)
        elif property_id in CONTAINMENT:
            self._containers[subject].add(value)

    def fetch_around(self, values: Iterable[str], steps: int, fetch: Callable[[list[str]], None]) -> int:
        """Fetch values and then their surroundings, one batch per step.

        Args:
            values: Ids of items.
            steps: Maximum number of steps from a value; its class is one step away.
            fetch: Fetches entities by their ids, in this order, unless already fetched, and adds their statements
                to this object.

        Returns:
            Number of ids directly beyond the last step, which were not fetched.
        """
        reached: set[str] = set()
        level = set(values)
        for step in range(steps + 1):
            fetch(sorted(level, key=in_order))
            reached |= level
            outwards = [self._containers[name] for name in level]
            outwards += [self._classes[name] for name in level] if step == 0 else []
            level = set().union(*outwards) - reached
        return len(level)


def in_order(name: str) -> tuple[str, int]:
    """Sort key of an id: letter, then number."""
    return name[0], int(name[1:])
