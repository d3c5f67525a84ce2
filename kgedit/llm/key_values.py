"""A key-value cache with reusable slots: new rows take the slots of finished ones, and a new token copies nothing.

The cache of transformers is copied completely for each new token.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers.cache_utils import Cache, DynamicLayer

_MORE_COLUMNS = 64
"""Columns by which a cache grows: widening copies it, so one column at a time would copy it at every token."""


def kept_cache(output: Any) -> Any:
    """The key-value cache in a model's output: `cache` since transformers 5.24, `past_key_values` before."""
    return output.cache if "cache" in output else output.past_key_values


class _Room(DynamicLayer):  # type: ignore[no-untyped-call]
    """Keys and values of one block: slots x heads x columns x width, of which `length` columns are in use."""

    def __init__(self, like: torch.Tensor, *, slots: int, columns: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.lazy_initialization(like, like)
        self.length = 0
        self._room = [like.new_zeros((slots, like.shape[1], columns, like.shape[3])) for _ in range(2)]
        self._see(0)

    @property
    def columns(self) -> int:
        return int(self._room[0].shape[2])

    def update(
        self,
        key_states: torch.Tensor,
        value_states: torch.Tensor,
        *args: Any,  # noqa: ARG002 - the shape of transformers' cache layers
        **kwargs: Any,  # noqa: ARG002 - likewise
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append the keys and values of the newest tokens of all rows."""
        rows, more = key_states.shape[0], key_states.shape[2]
        for room, given in zip(self._room, (key_states, value_states), strict=True):
            room[:rows, :, self.length : self.length + more] = given
        self.length += more
        self._see(rows)
        return self._seen

    def place(self, source: Any, trees: torch.Tensor, columns: torch.Tensor, *, first: int) -> None:
        """Copy rows from trees so that they end at `length`, the first into the slot `first`, the others after it."""
        for room, given in zip(self._room, (source.keys, source.values), strict=True):
            rows = given.transpose(1, 2)[trees[:, None], columns].transpose(1, 2)
            room[first : first + len(rows), :, self.length - columns.shape[1] : self.length] = rows

    def move(self, sources: torch.Tensor, targets: torch.Tensor) -> None:
        for room in self._room:
            room[targets, :, : self.length] = room[sources, :, : self.length]

    def shift(self, first: int) -> None:
        for room in self._room:
            # Source and target overlap, and torch does not define the result of such a copy.
            room[:, :, : self.length - first] = room[:, :, first : self.length].clone()
        self.length -= first

    def widen(self, more: int) -> None:
        self._room = [torch.cat([room, torch.zeros_like(room[:, :, :more])], dim=2) for room in self._room]

    def get_seq_length(self) -> int:
        return self.length

    def _see(self, rows: int) -> None:
        keys, values = (room[:rows, :, : self.length] for room in self._room)
        self.keys, self.values = self._seen = keys, values


class RoomyCache(Cache):
    """A cache for at most `slots` rows; rows in use come first.

    All rows end at the same column and begin according to their length; the columns before that are undefined.

    Args:
        like: A filled cache of the same model.
        slots: Maximum number of rows.
        length: Number of columns initially in use.
        columns: Number of allocated columns; more are allocated when they are used up.
    """

    def __init__(self, like: Any, *, slots: int, length: int, columns: int) -> None:
        self._rooms = [_Room(layer.keys, slots=slots, columns=columns) for layer in like.layers]
        super().__init__(layers=list(self._rooms))
        for room in self._rooms:
            room.length = length

    @property
    def length(self) -> int:
        """Number of columns in use."""
        return self._rooms[0].length

    @property
    def is_full(self) -> bool:
        """Whether there is no room for another token."""
        return self.length == self._rooms[0].columns

    def place(self, source: Any, trees: Sequence[int], columns: Sequence[Sequence[int]], *, first: int) -> None:
        """Copy rows from a cache of trees.

        Args:
            source: The cache of trees.
            trees: The tree of each row.
            columns: Columns of each row's tokens in its tree; at most `length`.
            first: Slot of the first row; the others follow.
        """
        width = max(map(len, columns))
        filled = torch.tensor([[0] * (width - len(own)) + list(own) for own in columns])
        for room, given in zip(self._rooms, source.layers, strict=True):
            at = given.keys.device
            room.place(given, torch.tensor(trees, device=at), filled.to(at), first=first)

    def move(self, sources: Sequence[int], targets: Sequence[int]) -> None:
        """Copy rows between slots."""
        for room in self._rooms:
            room.move(torch.tensor(sources), torch.tensor(targets))  # on the CPU, to work with a cache on several GPUs

    def make_room(self, unused: int) -> None:
        """Free columns that no row uses, or allocate more if there are none.

        Args:
            unused: Number of unused columns at the beginning.
        """
        for room in self._rooms:
            if unused:
                room.shift(unused)
            else:
                room.widen(_MORE_COLUMNS)
