"""What lies around the values of fetched items: their classes, and what they and these lie within.

A dump holds it anyway; a slice needs it, so that kgedit can decide whether a new value lies within the old one
(kgedit.timesteps.kinds). Only current knowledge of fetched entities is followed, so each step waits for the last one.
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
        """Note a statement; one of another property is ignored."""
        if property_id == INSTANCE_OF:
            self._classes[subject].add(value)
        elif property_id in CONTAINMENT:
            self._containers[subject].add(value)

    def fetch_around(self, values: Iterable[str], steps: int, fetch: Callable[[list[str]], None]) -> int:
        """Fetch values, then what lies around them, each step at once.

        Args:
            values: Ids of items.
            steps: Most steps from a value outwards; its class is one step.
            fetch: Fetches entities by their ids, in this order, where they are not there yet, and adds their
                statements here.

        Returns:
            How many ids lie right beyond the last step, and were not fetched for that reason.
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
    """Sort key: ids by letter, then number."""
    return name[0], int(name[1:])
