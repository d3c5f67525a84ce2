"""Reads texts as trees: common prefixes are computed once, for teacher forcing and for decoding.

Whether a model supports this is tested, never inferred from its name: it must accept a separate mask for each token.
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
"""Minimum saved tokens for which the common prefix gets a separate pass: fewer hardly add to a pass's time."""

_TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-4}
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
