"""Reads texts as trees: common prefixes are computed once, for teacher forcing and for decoding.

A node of a tree is one token after one prefix; it attends to its ancestors and to itself. A model therefore computes
the same values for a node as for that token in a separate row. Nothing is padded.

Whether a model supports this is tested, never inferred from its name: it must accept a separate mask for each token.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache

from kgedit.llm.language_model import LanguageModel, kept_cache

_WORTH_ITS_PASS = 64
"""Minimum saved tokens for which the common prefix gets a separate pass: fewer hardly add to a pass's time."""


_TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-4}  # float64 models have float32 parts: rotary positions
_TOLERANCE_OF_NARROW_NUMBERS = 0.05
"""Largest difference of logits, relative to the largest logit, that counts as rounding; a wrong mask gives more."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """Common prefix of all rows, read once.

    Attributes:
        length: Number of tokens; 0 if nothing or too little is shared.
        cache: Keys and values of these tokens, one row.
    """

    length: int = 0
    cache: Any = None


@dataclass(frozen=True, slots=True)
class TreesRead:
    """Result of reading some of the rows.

    Attributes:
        rows: Indexes of the rows.
        packs: Positions of their tokens in trees.
        logits: Logits of every wanted node, nodes x vocabulary.
        found: For each of these rows, the indexes of its wanted tokens in `logits`.
        cache: Keys and values, including those of the prefix; None if not requested.
    """

    rows: tuple[int, ...]
    packs: Packs
    logits: torch.Tensor
    found: tuple[tuple[int, ...], ...]
    cache: Any

    def columns(self, row: int) -> list[int]:
        """Columns of a row's tokens in the cache of its tree."""
        ahead = self.packs.ahead
        return [*range(ahead), *(ahead + node for node in self.packs.paths[row])]


def read_beginning(model: LanguageModel, rows: Sequence[list[int]], *, most: int) -> Beginning:
    """Read the common prefix of all rows, if it is worth a separate pass.

    Args:
        most: Maximum length of the prefix: tokens whose logits are wanted must come after it.
    """
    length = min(shared_length(rows), most)
    behind, whole = (count_nodes(rows, group_rows(rows, ahead=ahead), ahead=ahead) for ahead in (length, 0))
    if length == 0 or whole - behind - length < _WORTH_ITS_PASS:
        return Beginning()
    (read,) = read_rows(model, [rows[0][:length]], [[length - 1]], most_tokens=length, keep=True)
    return Beginning(length, read.cache)


def read_rows(
    model: LanguageModel,
    rows: Sequence[list[int]],
    wanted: Sequence[Sequence[int]],
    *,
    beginning: Beginning = Beginning(),
    most_tokens: int,
    keep: bool = False,
) -> Iterator[TreesRead]:
    """Read rows as trees.

    Args:
        model: One that `shares_beginnings`.
        rows: Token ids, all starting with the same prefix.
        wanted: For each row, the indexes of the tokens whose logits are computed; none of them in the prefix.
        beginning: Result of `read_beginning`.
        most_tokens: Maximum number of nodes read at once, unless a single tree has more.
        keep: Whether to return keys and values.
    """
    groups = group_rows(rows, ahead=beginning.length)
    widest = max(NODES, *(count_nodes(rows, [group], ahead=beginning.length) for group in groups))
    at_once = max(1, most_tokens // widest)
    for start in range(0, len(groups), at_once):
        own = groups[start : start + at_once]
        packs = pack(rows, own, ahead=beginning.length)
        yield _read(model, packs, [row for group in own for row in group], wanted, beginning=beginning, keep=keep)


def _read(
    model: LanguageModel,
    packs: Packs,
    rows: Sequence[int],
    wanted: Sequence[Sequence[int]],
    *,
    beginning: Beginning,
    keep: bool,
) -> TreesRead:
    picks: dict[tuple[int, int], int] = {}
    found = [
        tuple(
            picks.setdefault((packs.trees[row], packs.paths[row][index - packs.ahead]), len(picks))
            for index in wanted[row]
        )
        for row in rows
    ]
    at = model.device
    output = model.forward_tree(
        torch.from_numpy(packs.ids).to(at),
        torch.from_numpy(packs.visible).to(at),
        torch.from_numpy(packs.positions).to(at),
        picks=(torch.tensor([tree for tree, _ in picks]), torch.tensor([node for _, node in picks])),
        cache=_repeated(beginning.cache, len(packs.ids)) if beginning.length else DynamicCache() if keep else None,
    )
    return TreesRead(tuple(rows), packs, output.logits, tuple(found), kept_cache(output) if keep else None)


def _repeated(cache: Any, rows: int) -> Any:
    """Repeat a cache of one row for `rows` rows."""
    repeated = DynamicCache()
    for index, layer in enumerate(cache.layers):
        repeated.update(layer.keys.expand(rows, -1, -1, -1), layer.values.expand(rows, -1, -1, -1), index)
    return repeated


def shares_beginnings(model: LanguageModel, longest: int) -> bool:
    """Whether common prefixes of texts can be computed once, with the same result.

    False if a hook reads rows, if some block does not attend to the whole text, or if the model, tested once with
    short texts, gives different logits.

    Args:
        longest: Number of tokens of the longest text with its answer.
    """
    if model.row_readers or (model.window is not None and longest > model.window):
        return False
    if "reads_trees" not in model.tested:
        model.tested["reads_trees"] = reads_trees(model)
    return model.tested["reads_trees"]


def reads_trees(model: LanguageModel) -> bool:
    """Whether a model gives the same logits for texts in trees after a prefix as for each text alone."""
    parameters = model.module.get_input_embeddings(), model.module.get_output_embeddings()
    if None in parameters:
        return False
    vocabulary = int(parameters[0].weight.shape[0])
    texts = [[3, 7, 11, 5], [3, 7, 2, 9, 13], [3, 7, 11, 6, 8, 4], [3, 17]]
    rows = [[(97 * number + 31) % vocabulary for number in text] for text in texts]
    try:
        with torch.no_grad():
            return _same_logits(model, rows)
    except (AttributeError, IndexError, KeyError, NotImplementedError, RuntimeError, TypeError, ValueError):
        return False  # any error that a model's code raises for an unsupported mask, position or cache


def _same_logits(model: LanguageModel, rows: Sequence[list[int]]) -> bool:
    """Compare texts read alone with the same texts in two trees after their first token."""
    (first,) = read_rows(model, [rows[0][:1]], [[0]], most_tokens=1, keep=True)
    beginning = Beginning(1, first.cache)
    everything = [list(range(1, len(row))) for row in rows]
    alone = [_logits_alone(model, row) for row in rows]
    for trees in ([[0, 1], [2, 3]], [[0, 1, 2, 3]]):
        packs = pack(rows, trees, ahead=1)
        order = [row for tree in trees for row in tree]
        read = _read(model, packs, order, everything, beginning=beginning, keep=True)
        for row, found in zip(order, read.found, strict=True):
            if not same_logits(read.logits[list(found)], alone[row]):
                return False
    return True


def same_logits(found: torch.Tensor, expected: torch.Tensor) -> bool:
    """Whether logits differ by rounding alone, in the number format of the first."""
    limit = _TOLERANCE.get(found.dtype, _TOLERANCE_OF_NARROW_NUMBERS) * float(expected.float().abs().max())
    return bool(torch.isclose(found.float(), expected.float(), rtol=0, atol=limit, equal_nan=True).all())


def _logits_alone(model: LanguageModel, row: list[int]) -> torch.Tensor:
    """Logits of all tokens but the first, read without other texts."""
    ids = torch.tensor([row], device=model.device)
    logits: torch.Tensor = model.forward(ids, torch.ones_like(ids), last=len(row)).logits[0, 1:].float()
    return logits


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
