"""A key-value cache with reusable slots, and steps of decoding on it that a GPU records once and replays.

A step of an 8B model launches some 1,500 kernels, which takes the processor longer than the GPU needs to compute them:
54 against 15 ms on an H100 with 58 rows. A recorded step (CUDA graph) is one launch, but has fixed shapes and
addresses: it computes all slots and attends to all columns, of which a mask hides those that are not in use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from transformers.cache_utils import Cache, DynamicLayer

from kgedit.llm.language_model import LanguageModel
from kgedit.llm.shared_reading import same_logits

_MORE_COLUMNS = 64
"""Columns by which a cache grows: widening copies it, so one column at a time would copy it at every token."""


class _Room(DynamicLayer):  # type: ignore[no-untyped-call]
    """Keys and values of one block: slots x heads x columns x width, of which `length` columns are in use."""

    def __init__(self, like: torch.Tensor, *, slots: int, columns: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.lazy_initialization(like, like)
        self.length = 0
        self._at: torch.Tensor | None = None
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
        """Append the keys and values of the newest tokens of all rows, or write them to a given column."""
        if self._at is not None:
            for room, given in zip(self._room, (key_states, value_states), strict=True):
                room.index_copy_(2, self._at, given)
            return self._room[0], self._room[1]
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

    def write_at(self, column: torch.Tensor | None) -> None:
        self._at = column

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
        self.slots = slots
        for room in self._rooms:
            room.length = length

    @property
    def length(self) -> int:
        """Number of columns in use."""
        return self._rooms[0].length

    @property
    def columns(self) -> int:
        """Number of allocated columns."""
        return self._rooms[0].columns

    @contextmanager
    def at_fixed_addresses(self, column: torch.Tensor) -> Iterator[None]:
        """Context in which a token of each slot is written to a column, and all slots and columns are attended to.

        Args:
            column: Index of the column, one element; read when the values are written.
        """
        for room in self._rooms:
            room.write_at(column)
        try:
            yield
        finally:
            for room in self._rooms:
                room.write_at(None)

    def advance(self) -> None:
        """Count the column written by a replayed step."""
        for room in self._rooms:
            room.length += 1

    @property
    def is_full(self) -> bool:
        """Whether there is no room for another token."""
        return self.length == self.columns

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


_TESTED = "replays_steps"
"""Name of the test of replayed steps in `LanguageModel.tested`."""


class RecordedStep:
    """A step of decoding, recorded for all slots of a cache.

    Args:
        record: Records what a function does, after calling it, and returns a function that repeats it.

    Raises:
        RuntimeError: if some operation of the model cannot be recorded.
    """

    def __init__(
        self,
        model: LanguageModel,
        cache: RoomyCache,
        tokens: Sequence[int],
        starts: Sequence[int],
        *,
        record: Callable[[Callable[[], None]], Callable[[], None]],
    ) -> None:
        at, slots = model.device, cache.slots
        self._model, self._cache = model, cache
        self._tokens, self._starts = torch.zeros((2, slots, 1), dtype=torch.long, device=at).unbind()
        self._column = torch.zeros(1, dtype=torch.long, device=at)
        self._columns = torch.arange(cache.columns, device=at)
        # On the device: a copy from main memory cannot be recorded.
        self._picks = torch.arange(slots, device=at), torch.zeros(slots, dtype=torch.long, device=at)
        self._logits = torch.empty(0)
        self._write(tokens, starts)
        with cache.at_fixed_addresses(self._column):
            self._repeat = record(self._compute)

    @property
    def is_tested(self) -> bool:
        """Whether replayed logits of this model were equal to computed ones."""
        return self._model.tested.get(_TESTED, False)

    def replay(self, tokens: Sequence[int], starts: Sequence[int]) -> torch.Tensor:
        """Write a token of each row into the cache's next column.

        Args:
            tokens: Newest token of each row; the rows are in the first slots.
            starts: First column of each row.

        Returns:
            Logits of the token after each, rows x vocabulary, which the next replay overwrites.
        """
        self._write(tokens, starts)
        with self._cache.at_fixed_addresses(self._column):
            self._repeat()
        return self._logits[: len(tokens)]

    def test(self, replayed: torch.Tensor, computed: torch.Tensor) -> bool:
        """Compare a later step than the recorded one, and store the result for all recordings of the model."""
        self._model.tested[_TESTED] = same_logits(replayed, computed)
        return self.is_tested

    def _write(self, tokens: Sequence[int], starts: Sequence[int]) -> None:
        count, column = len(tokens), self._cache.length
        self._tokens[:count, 0] = torch.tensor(tokens)
        # In an unused slot a text begins here: from column 0 its position could exceed those that the model knows.
        self._starts[:, 0] = torch.tensor([*starts, *[column] * (self._cache.slots - count)])
        self._column.fill_(column)

    def _compute(self) -> None:
        visible = (self._columns >= self._starts) & (self._columns <= self._column)
        positions = self._column - self._starts
        output = self._model.forward_tree(
            self._tokens, visible[:, None], positions, picks=self._picks, cache=self._cache
        )
        self._logits = output.logits


def record_step(
    model: LanguageModel, cache: RoomyCache, tokens: Sequence[int], starts: Sequence[int]
) -> RecordedStep | None:
    """Record a step of decoding; None if the model's steps cannot be recorded.

    Args:
        tokens: See `RecordedStep.replay`.
        starts: Likewise.
    """
    if not (model.tested.get(_TESTED, True) and is_recordable(model)):
        return None
    try:
        return RecordedStep(model, cache, tokens, starts, record=_graph)
    except torch.OutOfMemoryError:
        return None
    except RuntimeError:  # an operation that waits for the GPU, such as the routing of some mixtures of experts
        model.tested[_TESTED] = False
        return None


def is_recordable(model: LanguageModel) -> bool:
    """Whether all weights of a model are on one NVIDIA or AMD GPU, and not quantized."""
    if not torch.cuda.is_available() or getattr(model.module, "is_quantized", False):
        return False
    devices = {weight.device for weight in model.module.parameters()}
    return len(devices) == 1 and devices.pop().type == "cuda"


def _graph(step: Callable[[], None]) -> Callable[[], None]:
    """Record a step as a CUDA graph, after a first call that loads its kernels."""
    # Not on another stream, as for training: each stream keeps 32 MB of workspace for cuBLAS.
    step()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay
