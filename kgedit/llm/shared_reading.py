"""Texts read as trees: what several of them begin with is computed once, for teacher forcing and for decoding.

Whether a model can be read so is tried out, never known by its name: it must take a mask of its own for each token.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from transformers import DynamicCache

from kgedit.llm.key_values import kept_cache
from kgedit.llm.packing import NODES, Packs, count_nodes, group_rows, pack, shared_length

if TYPE_CHECKING:
    from kgedit.llm.language_model import LanguageModel

_WORTH_ITS_PASS = 64
"""Tokens to be saved before what all rows begin with gets a pass of its own: so many take hardly longer than a few."""

_TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-4}
_TOLERANCE_OF_NARROW_NUMBERS = 0.05
"""Largest difference of logits, as a share of the largest one, that is rounding; a wrong mask gives more."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """What all rows begin with, read once.

    Attributes:
        length: Its tokens; 0 where nothing is shared, or too little.
        cache: Their keys and values, one row.
    """

    length: int = 0
    cache: Any = None


@dataclass(frozen=True, slots=True)
class TreesRead:
    """Some of the rows, read.

    Attributes:
        rows: Their indexes.
        packs: Where their tokens stand.
        logits: Of every node that was wanted, nodes x vocabulary.
        found: For each of these rows, where in `logits` its wanted tokens are.
        cache: Keys and values, of the beginning too; None if not asked for.
    """

    rows: tuple[int, ...]
    packs: Packs
    logits: torch.Tensor
    found: tuple[tuple[int, ...], ...]
    cache: Any

    def columns(self, row: int) -> list[int]:
        """Where in the cache of its tree a row's tokens stand."""
        ahead = self.packs.ahead
        return [*range(ahead), *(ahead + node for node in self.packs.paths[row])]


def read_beginning(model: LanguageModel, rows: Sequence[list[int]], *, most: int) -> Beginning:
    """Read what all rows begin with, if that is worth a pass of its own.

    Args:
        most: Most tokens of it: those whose logits are wanted must stand behind.
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
        rows: Token ids, all behind the same beginning.
        wanted: For each row, the indexes of the tokens whose logits are computed; none of them in the beginning.
        beginning: Read before.
        most_tokens: Most nodes that are read at once, if one tree does not have more.
        keep: Whether keys and values are wanted.
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
    """A cache of one row, for so many rows."""
    repeated = DynamicCache()
    for index, layer in enumerate(cache.layers):
        repeated.update(layer.keys.expand(rows, -1, -1, -1), layer.values.expand(rows, -1, -1, -1), index)
    return repeated


def reads_trees(model: LanguageModel) -> bool:
    """Whether a model gives the same logits for texts in trees, behind a beginning, as for each text alone."""
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
        return False  # whatever a model's own code raises for a mask, a position or a cache that it does not take


def _same_logits(model: LanguageModel, rows: Sequence[list[int]]) -> bool:
    """Compare texts read alone with the same texts in two trees behind their first token."""
    (first,) = read_rows(model, [rows[0][:1]], [[0]], most_tokens=1, keep=True)
    beginning = Beginning(1, first.cache)
    everything = [list(range(1, len(row))) for row in rows]
    for trees in ([[0, 1], [2, 3]], [[0, 1, 2, 3]]):
        packs = pack(rows, trees, ahead=1)
        order = [row for tree in trees for row in tree]
        read = _read(model, packs, order, everything, beginning=beginning, keep=True)
        for row, found in zip(order, read.found, strict=True):
            ids = torch.tensor([rows[row]], device=model.device)
            alone = model.forward(ids, torch.ones_like(ids), last=len(rows[row])).logits[0, 1:].float()
            shared = read.logits[list(found)].float()
            limit = _TOLERANCE.get(read.logits.dtype, _TOLERANCE_OF_NARROW_NUMBERS) * float(alone.abs().max())
            if not bool(torch.isclose(shared, alone, rtol=0, atol=limit, equal_nan=True).all()):
                return False
    return True
