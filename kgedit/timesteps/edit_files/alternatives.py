"""Alternatives to compare an answer with if the row has no other answer: objects of the relation, about as frequent.

A frequent object is likely whatever the question, so comparing it with a rare one is meaningless. An object's frequency
is the number of its subjects in the file, in updates and neighbours together.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

ALTERNATIVES = 5
"""Number per answer."""


@dataclass(frozen=True, slots=True)
class _OfRelation:
    """Objects of one relation: how frequent each is, and all of the same frequency, in order."""

    frequency: Mapping[str, int]
    by_frequency: Mapping[int, Sequence[str]]
    frequencies: Sequence[int]


class ObjectPool:
    """Objects of each relation in a file.

    Args:
        said: Relation, subject and object of every fact, with the repetitions of the file.
    """

    def __init__(self, said: Iterable[tuple[str, str, str]]) -> None:
        subjects: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        for relation, subject, thing in said:
            subjects[relation][thing].add(subject)
        self._relations = {relation: _of_relation(things) for relation, things in subjects.items()}

    def alternatives(
        self, relation: str, thing: str, *, own: Iterable[str], most: int = ALTERNATIVES
    ) -> tuple[str, ...]:
        """Draw objects of a relation that are about as frequent as a given one; the draw depends on its name.

        Args:
            thing: The given object; it need not be in the pool.
            own: Current and former values of the same subject, which are excluded.
            most: Number of objects; fewer are returned if the relation has no more.
        """
        pool = self._relations.get(relation)
        if pool is None:
            return ()
        left_out, found = {thing, *own}, list[str]()
        wanted = pool.frequency.get(thing, 1)
        draw = random.Random(f"alternatives {relation} {thing} {'|'.join(sorted(left_out))}")
        for frequency in _nearest_first(pool.frequencies, wanted):
            group = pool.by_frequency[frequency]
            drawn = draw.sample(group, min(len(group), most + len(left_out)))
            found += [other for other in drawn if other not in left_out]
            if len(found) >= most:
                break
        return tuple(found[:most])


def _of_relation(things: Mapping[str, set[str]]) -> _OfRelation:
    frequency = {thing: len(subjects) for thing, subjects in things.items()}
    groups: dict[int, list[str]] = defaultdict(list)
    for thing in sorted(frequency):
        groups[frequency[thing]].append(thing)
    return _OfRelation(frequency, groups, sorted(groups))


def _nearest_first(frequencies: Sequence[int], wanted: int) -> Iterable[int]:
    """Yield all frequencies, nearest first; of two equally near ones, the lower first."""
    above = bisect_left(frequencies, wanted)
    below = above - 1
    while below >= 0 or above < len(frequencies):
        if above == len(frequencies) or (below >= 0 and wanted - frequencies[below] <= frequencies[above] - wanted):
            yield frequencies[below]
            below -= 1
        else:
            yield frequencies[above]
            above += 1
