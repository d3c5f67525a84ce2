"""Locality questions, drawn from another file, so that none is about a row's subject."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from kgedit.names.index import name_key

_MOST_DRAWS = 200
"""Maximum number of draws for one question: if all of them are about the subject, the file is about one thing."""


@dataclass(frozen=True, slots=True)
class LocalityQuestion:
    """A question whose answer an edit must not change."""

    question: str
    answer: str


class LocalityDraw:
    """Draws questions for rows, each row with a separate seed, so that rows do not depend on one another.

    Args:
        pool: Questions to draw from, in file order.
        size: Number of questions per row.
        seed: Seed of all draws.
    """

    def __init__(self, pool: Sequence[LocalityQuestion], *, size: int, seed: int) -> None:
        self._pool = pool
        self._own = [name_key(one.question) for one in pool]
        self._keys = [f" {own} {name_key(one.answer)} " for own, one in zip(self._own, pool, strict=True)]
        self._size = size
        self._seed = seed

    def draw(self, question: str, subject: str) -> list[LocalityQuestion]:
        """Draw questions for a row that do not name its subject; fewer if the pool has no more."""
        chance = random.Random(f"{self._seed}:{question}")
        own, about = name_key(question), f" {name_key(subject)} "
        chosen: dict[int, LocalityQuestion] = {}
        for _ in range(_MOST_DRAWS if self._pool else 0):
            if len(chosen) == min(self._size, len(self._pool)):
                break
            number = chance.randrange(len(self._pool))
            if about not in self._keys[number] and self._own[number] != own:
                chosen.setdefault(number, self._pool[number])
        return list(chosen.values())
