"""Packs rows of tokens as trees: tokens of common prefixes are stored once, and nothing is padded.

A node of a tree is one token after one prefix; it attends to its ancestors and to itself. A model therefore computes
the same values for a node as for that token in a separate row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

NODES = 128
"""Nodes of a tree: attention is quadratic in them, and a prefix is stored once per tree.

With 256 the questions of `synthetic` take 9 % longer, with 64 as long as with 128.
"""


@dataclass(frozen=True, slots=True)
class Packs:
    """Trees in a batch, all after the same prefix.

    Attributes:
        ahead: Number of tokens of the prefix that all rows share; it is read beforehand and is not part of any tree.
        ids: Token of each node, trees x widest tree, padded with 0.
        positions: Index of each node's token within its rows, same shape.
        visible: Which prefix tokens and nodes each node attends to, trees x nodes x (ahead + nodes).
        trees: Tree index of each row.
        paths: Nodes of each row's tokens, in order, without the prefix.
    """

    ahead: int
    ids: np.ndarray
    positions: np.ndarray
    visible: np.ndarray
    trees: tuple[int, ...]
    paths: tuple[tuple[int, ...], ...]


def shared_length(rows: Sequence[Sequence[int]]) -> int:
    """Length of the common prefix of all rows, at most all but the last token of the shortest row."""
    first, last = min(map(list, rows)), max(map(list, rows))
    most = min(map(len, rows)) - 1
    return next((index for index in range(most) if first[index] != last[index]), most)


def group_rows(rows: Sequence[Sequence[int]], *, ahead: int, nodes: int = NODES) -> list[list[int]]:
    """Assign rows to trees, so that rows with the same prefix share one; returns the row indexes of each tree.

    Args:
        ahead: Number of prefix tokens of every row that are not part of any tree.
        nodes: Maximum number of nodes of a tree, or twice the longest row if that is more, so that long rows that share
            most of their tokens stay together.
    """
    order = sorted(range(len(rows)), key=lambda row: list(rows[row]))
    alone = [len(rows[row]) - ahead for row in order]
    added = [alone[0]] + [len(rows[row]) - _common(rows[other], rows[row]) for other, row in pairwise(order)]
    most = max(nodes, 2 * max(alone))
    even = -(-sum(added) // -(-sum(added) // most))
    groups: list[list[int]] = []
    filled = 0
    for row, whole, more in zip(order, alone, added, strict=True):
        if not groups or filled + more > even:
            groups.append([])
            filled, more = 0, whole  # noqa: PLW2901 - in a new tree nothing is shared
        groups[-1].append(row)
        filled += more
    return groups


def count_nodes(rows: Sequence[Sequence[int]], groups: Sequence[Sequence[int]], *, ahead: int) -> int:
    """Number of nodes of all trees; rows are ordered within groups as by `group_rows`."""
    first = sum(len(rows[group[0]]) - ahead for group in groups)
    return first + sum(
        len(rows[row]) - _common(rows[other], rows[row]) for group in groups for other, row in pairwise(group)
    )


def pack(rows: Sequence[Sequence[int]], groups: Sequence[Sequence[int]], *, ahead: int) -> Packs:
    """Build the trees.

    Args:
        rows: Token ids; each row is longer than `ahead`.
        groups: Groups from `group_rows`, or some of them; rows without a group have no path.
        ahead: Number of prefix tokens of every row that are not part of any tree.
    """
    trees = [0] * len(rows)
    paths: list[tuple[int, ...]] = [()] * len(rows)
    grown = []
    for number, group in enumerate(groups):
        tree = _Tree(ahead)
        for row in group:
            trees[row], paths[row] = number, tree.add(rows[row][ahead:])
        grown.append(tree)
    width = max(len(tree.ids) for tree in grown)
    ids, positions = (np.zeros((len(grown), width), dtype=np.int64) for _ in range(2))
    visible = np.zeros((len(grown), width, ahead + width), dtype=bool)
    visible[:, :, :ahead] = True
    visible[:, np.arange(width), ahead + np.arange(width)] = True  # padding too: attending to nothing gives NaN
    for number, (tree, group) in enumerate(zip(grown, groups, strict=True)):
        ids[number, : len(tree.ids)], positions[number, : len(tree.ids)] = tree.ids, tree.positions
        for row in group:
            path = np.array(paths[row])
            later, earlier = np.tril_indices(len(path))
            visible[number, path[later], ahead + path[earlier]] = True
    return Packs(ahead, ids, positions, visible, tuple(trees), tuple(paths))


class _Tree:
    def __init__(self, ahead: int) -> None:
        self.ids: list[int] = []
        self.positions: list[int] = []
        self._ahead = ahead
        self._nodes: dict[tuple[int, int], int] = {}

    def add(self, tokens: Sequence[int]) -> tuple[int, ...]:
        """Return the nodes of a row's tokens, creating missing ones."""
        parent = -1
        path: list[int] = []
        for depth, token in enumerate(tokens):
            node = self._nodes.setdefault((parent, token), len(self.ids))
            if node == len(self.ids):
                self.ids.append(token)
                self.positions.append(self._ahead + depth)
            path.append(node)
            parent = node
        return tuple(path)


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    shorter = min(len(one), len(other))
    return next((index for index in range(shorter) if one[index] != other[index]), shorter)
