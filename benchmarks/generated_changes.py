"""Changes of the generated world from one date to the next: about 2 % of its statements, in realistic kinds.

Shares of the changed statements: 38 % an object replaced (55 % of them end the old statement and start the new one,
37 % remove the old one, 8 % give the new one preferred rank), 22 % added, 10 % removed, 8 % a literal corrected, 8 %
ended without replacement, 7 % new with a new item, 4 % deleted with their item; 3 % are counted for labels. Half of the
replaced or ended statements have properties with one holder at a time (heads of government, coaches, chairs). In
addition, one in 250 items is merged into another, and three in five statements that refer to it are retargeted.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import numpy as np
from generated_kinds import KINDS
from generated_world import (
    IS_ITEM,
    KIND_OF,
    PROPERTIES,
    PROPERTY_OF,
    STATEMENTS_PER_ITEM,
    SUCCEEDS,
    Numbers,
    Rows,
    World,
    blurred,
    certain_statements,
    free_statements,
    new_items,
    number_statements,
    pools_of,
    with_objects,
    without_repetitions,
)

CHURN = 0.02
_MERGED = 1 / 250
_TO_ANOTHER_CHANGED_SUBJECT = 0.3
"""Share of new objects that are themselves subjects of a change, which gives chains of two hops."""

_HELD_BY_ONE = [PROPERTY_OF[pid] for pid in ("P6", "P35", "P286", "P488", "P169", "P1308")]
_MERGEABLE = [KIND_OF[name] for name in ("human", "place", "company", "work", "club")]


def next_world(random: np.random.Generator, world: World, *, step: int, first: date, last: date) -> World:
    """Compute the world at the next date.

    Args:
        random: Source of all choices.
        world: World at the previous date.
        step: Number of the new date; the first date is 0.
        first: Previous date.
        last: New date.
    """
    changes = _Changes(random, world, step, first, last)
    changes.remove_items(0.04)
    changes.add_items(0.07)
    changes.merge_items(_MERGED)
    changes.replace_and_end(replaced=0.38, ended=0.08)
    changes.remove(0.10)
    changes.correct_literals(0.08)
    changes.add(0.22)
    changes.rename_items(0.03)
    return changes.world()


class _Changes:
    """One step; each method changes the result of the previous ones."""

    def __init__(self, random: np.random.Generator, world: World, step: int, first: date, last: date) -> None:
        self._random = random
        self._world = replace(world, items=world.items.copy())
        self._rows = world.statements.copy()
        self._kept = np.ones(len(self._rows), bool)
        self._changed = np.zeros(len(self._rows), bool)
        self._new: list[Rows] = []
        self._step, self._first, self._last = step, first, last
        self._budget = CHURN * len(self._rows)

    def world(self) -> World:
        """The resulting world."""
        new = np.concatenate(self._new)
        every = without_repetitions(np.concatenate([self._rows[self._kept], new]))
        new = every[np.count_nonzero(self._kept) :]
        world = number_statements(self._world, new)
        self._touch(new["subject"])
        every[len(every) - len(new) :] = new
        return replace(world, statements=every)

    def add_items(self, share: float) -> None:
        """Add items of kinds without a fixed count, with about as many statements each as the old ones."""
        random, world = self._random, self._world
        count = round(share * self._budget / STATEMENTS_PER_ITEM)
        shares = np.array([kind.share for kind in KINDS.values()])
        kinds = random.choice(len(KINDS), count, p=shares / shares.sum())
        made = new_items(random, kinds, first_number=int(world.items["number"].max()) + 1000)
        items = np.concatenate([world.items, made])
        self._world = replace(world, items=items, pools=pools_of(items))
        fresh = np.arange(len(world.items), len(items))
        self._touch(fresh)
        certain = certain_statements(random, self._world, fresh)
        free = free_statements(random, self._world, fresh, max(STATEMENTS_PER_ITEM * count - len(certain), 0))
        self._add(np.concatenate([certain, free]))

    def remove_items(self, share: float) -> None:
        """Delete items with their statements; statements that refer to them remain."""
        candidates = np.flatnonzero(self._world.items["present"] & np.isin(self._world.items["kind"], _MERGEABLE))
        self._take_away(self._random.choice(candidates, round(share * self._budget / STATEMENTS_PER_ITEM), False))

    def merge_items(self, share: float) -> None:
        """Merge rarely used items into others; statements that refer to them are partly retargeted."""
        random, items = self._random, self._world.items
        named = np.bincount(self._rows["object"][IS_ITEM[self._rows["property"]]], minlength=len(items))
        targets = np.isin(np.arange(len(items)), items["target"])
        candidates = items["present"] & np.isin(items["kind"], _MERGEABLE) & ~targets & (named > 0) & (named < 50)
        merged = random.choice(np.flatnonzero(candidates), round(share * len(items)), False)
        self._take_away(merged)
        for kind in _MERGEABLE:
            of_kind = merged[items["kind"][merged] == kind]
            alive = np.flatnonzero(items["present"] & (items["kind"] == kind))
            items["target"][of_kind] = random.choice(alive, len(of_kind))
        naming = np.flatnonzero(IS_ITEM[self._rows["property"]] & np.isin(self._rows["object"], merged) & self._kept)
        naming = naming[random.random(len(naming)) < 0.6]
        self._rows["object"][naming] = items["target"][self._rows["object"][naming]]
        self._mark(naming)
        self._world = replace(self._world, pools=pools_of(items))

    def replace_and_end(self, *, replaced: float, ended: float) -> None:
        """Replace or end current values."""
        random, rows = self._random, self._rows
        live = self._kept & ~self._changed & SUCCEEDS[rows["property"]] & (rows["end"] == 0) & (rows["rank"] == 0)
        by_one = np.isin(rows["property"], _HELD_BY_ONE)
        counts = round(replaced * self._budget / 2), round(ended * self._budget / 2)
        pools = [random.permutation(np.flatnonzero(live & chosen))[: sum(counts)] for chosen in (by_one, ~by_one)]
        chosen = np.concatenate([pool[: counts[0]] for pool in pools])
        only_ended = np.concatenate([pool[counts[0] :] for pool in pools])
        self._mark(chosen)
        self._mark(only_ended)
        rows["end"][only_ended] = self._days(len(only_ended))
        self._replace(chosen)

    def _replace(self, chosen: Numbers) -> None:
        random, rows = self._random, self._rows
        new = with_objects(random, self._world, rows[chosen])
        self._chain(new, np.unique(new["subject"]))
        new = new[new["object"] != new["subject"]]
        days, drawn = self._days(len(new)), random.random(len(new))
        ended, preferred = drawn < 0.55, drawn > 0.92
        # Rows without a possible object were left out, so new rows are matched by the old row's number.
        order = chosen[np.argsort(rows["guid"][chosen])]
        old = order[np.searchsorted(rows["guid"][order], new["guid"])]
        rows["end"][old[ended]] = days[ended]
        self._kept[old[~ended & ~preferred]] = False
        new["start"] = np.where(ended | (random.random(len(new)) < 0.5), days, 0)
        new["rank"] = preferred
        self._new.append(new)

    def _chain(self, new: Rows, subjects: Numbers) -> None:
        """Change objects of some new statements to the subject of another one."""
        kinds = self._world.items["kind"][subjects]
        to_subject = self._random.random(len(new)) < _TO_ANOTHER_CHANGED_SUBJECT
        for number in np.unique(new["property"]):
            pool = subjects[kinds == KIND_OF[PROPERTIES[number].pool]]
            mine = np.flatnonzero(to_subject & (new["property"] == number))
            if len(pool):
                new["object"][mine] = self._random.choice(pool, len(mine))

    def remove(self, share: float) -> None:
        """Delete statements."""
        removed = self._random_rows(self._rows["property"] != PROPERTY_OF["P31"], share)
        self._kept[removed] = False

    def correct_literals(self, share: float) -> None:
        """Correct literals of existing statements."""
        corrected = self._random_rows(~IS_ITEM[self._rows["property"]], share)
        self._rows["object"][corrected] = with_objects(self._random, self._world, self._rows[corrected])["object"]

    def add(self, share: float) -> None:
        """Add statements of any subject and property."""
        present = np.flatnonzero(self._world.items["present"])
        self._add(free_statements(self._random, self._world, present, round(share * self._budget)))

    def rename_items(self, share: float) -> None:
        """Change labels of items."""
        items = self._world.items
        candidates = np.flatnonzero(items["present"] & (items["kind"] != KIND_OF["special"]))
        renamed = self._random.choice(candidates, round(share * self._budget), False)
        items["label"][renamed] = self._random.integers(0, 2**40, len(renamed))
        self._touch(renamed)

    def _add(self, added: Rows) -> None:
        started = SUCCEEDS[added["property"]] & (self._random.random(len(added)) < 0.7)
        added["start"] = np.where(started, self._days(len(added)), 0)
        pointed = added["property"] == PROPERTY_OF["P1082"]
        added["point"] = np.where(pointed, self._days(len(added)), 0)
        self._new.append(added)

    def _take_away(self, gone: Numbers) -> None:
        self._world.items["present"][gone] = False
        self._kept &= ~np.isin(self._rows["subject"], gone)

    def _random_rows(self, eligible: np.ndarray, share: float) -> Numbers:
        candidates = np.flatnonzero(eligible & self._kept & ~self._changed)
        chosen = self._random.choice(candidates, min(round(share * self._budget), len(candidates)), False)
        self._mark(chosen)
        return chosen

    def _mark(self, rows: Numbers) -> None:
        self._changed[rows] = True
        self._touch(self._rows["subject"][rows])

    def _touch(self, items: Numbers) -> None:
        self._world.items["touched"][items] = self._step

    def _days(self, count: int) -> Numbers:
        """Days between the two dates, with the precision of the statement."""
        days = np.datetime64(self._first) + self._random.integers(1, (self._last - self._first).days, count)
        months = days.astype("M8[M]")
        years = days.astype("M8[Y]").astype(np.int64) + 1970
        month, day = months.astype(np.int64) % 12 + 1, (days - months).astype(np.int64) + 1
        return blurred(self._random, years * 10000 + month * 100 + day)
