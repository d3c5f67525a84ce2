"""Part files: rows of each parsed block, kept until a load is complete.

Rows are in frames (kgedit.store.frames). If a snapshot has few buckets, a block has one frame for each, so that a
bucket reads its own rows. Otherwise these frames would be too small: a frame has the rows of several buckets, and
kgedit.store.gathering divides such frames of many blocks.

The queries over the whole dump (kgedit.store.planning) find a few columns of all entities, and those claims that may
concern other buckets, in Parquet.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from kgedit.store.bucket_numbers import order_by_bucket
from kgedit.store.bucket_rows import BLOCK
from kgedit.store.frames import Frame, FrameReader, count_rows, write_frames
from kgedit.store.schemas import CLAIMS, ENTITIES
from kgedit.wikidata.ids import CREATION_DATES, INSTANCE_OF, RESTRICTIVE_QUALIFIER

_MOST_DIVISIONS = 16
"""Maximum number of frames of a block, a power of two: a block of thin lines has 20,000 claims."""

_BROADCAST = {
    "claims": (
        *("statement_id", "subject", "property", "version"),  # ids of several statements
        *("rank", "snak", "datatype", "object", "value", "precision"),  # restrictive qualifiers, beginnings of items
    ),
    "entities": ("id", "redirect_target", "datatype"),
}
"""Columns that the queries over the whole dump read."""

_SCHEMAS = {"claims": CLAIMS, "late": CLAIMS, "entities": ENTITIES}

_IDS = {"claims": "subject", "late": "subject", "entities": "id"}
"""Column whose bucket is that of a row."""


@dataclass(frozen=True, slots=True)
class PartFiles:
    """Part files of an unfinished load.

    Attributes:
        folder: Their folder.
        buckets: Number of buckets of the snapshots.
    """

    folder: Path
    buckets: int

    @property
    def divisions(self) -> int:
        """Number of frames of a block. Frame k has the buckets whose number is k modulo this one."""
        return min(self.buckets, _MOST_DIVISIONS)

    def write(self, name: str, number: int, rows: pa.Table) -> list[str]:
        """Write the rows of a block.

        Args:
            name: claims, late (claims that waited for their values) or entities.
            number: Number of the block.
            rows: Its rows.

        Returns:
            Names of the files.
        """
        frames, broadcast = self._frames(name, number), self.broadcast(name, number)
        write_frames(frames, rows, *order_by_bucket(rows[_IDS[name]], self.divisions))
        of_entities = name == "entities"
        chosen = rows.select(_BROADCAST["entities" if of_entities else "claims"])
        if not of_entities:
            chosen = chosen.filter(pa.array(may_concern_all(rows)))
        pq.write_table(chosen, broadcast, compression="zstd", use_dictionary=False)
        return [frames.name, broadcast.name]

    def fetch(self, reader: FrameReader, name: str, number: int, division: int) -> list[Frame]:
        """A frame of a block, of claims or entities; of claims, those that waited for values are the last."""
        return [reader.fetch(path, division) for path in self._all_frames(name, number)]

    def table(
        self,
        reader: FrameReader,
        name: str,
        frames: Sequence[tuple[int, Frame]],
        columns: Collection[str] | None = None,
    ) -> pa.Table:
        """Rows of some frames with the numbers of their blocks (BLOCK).

        Args:
            reader: The reader of the frames.
            name: claims or entities.
            frames: The frames, each with the number of its block.
            columns: Names of the columns to read, in addition to BLOCK; None means all.
        """
        rows = reader.table([frame for _, frame in frames], _SCHEMAS[name], columns)
        blocks = np.repeat(
            np.array([number for number, _ in frames], np.int32), [frame.rows for _, frame in frames]
        )  # fmt: skip
        return rows.append_column(BLOCK, pa.array(blocks))

    def read_blocks(self, name: str, numbers: Sequence[int], division: int) -> pa.Table:
        """The rows of a frame of each of some blocks."""
        reader = FrameReader()
        frames = [(number, frame) for number in numbers for frame in self.fetch(reader, name, number, division)]
        return self.table(reader, name, frames)

    def counts(self, number: int) -> NDArray[np.int64]:
        """Number of claims and entities in each frame of a block."""
        paths = [path for name in ("claims", "entities") for path in self._all_frames(name, number)]
        counts: NDArray[np.int64] = np.array([count_rows(path) for path in paths]).sum(axis=0)
        return counts

    def broadcast(self, name: str, number: int) -> Path:
        """File of the rows of a block that the queries over the whole dump read."""
        return self.folder / f"broadcast-{name}-{number:06d}.parquet"

    def remove_extra(self, number: int) -> None:
        """Remove the files that only a block with waiting statements has: these, value nodes, and late claims."""
        of_waiting = (self.folder / f"{kind}-{number:06d}.parquet" for kind in ("waiting", "nodes"))
        for path in (self._frames("late", number), self.broadcast("late", number), *of_waiting):
            path.unlink(missing_ok=True)

    def _all_frames(self, name: str, number: int) -> list[Path]:
        late = self._frames("late", number)
        return [self._frames(name, number), *([late] if name == "claims" and late.is_file() else [])]

    def _frames(self, name: str, number: int) -> Path:
        return self.folder / f"{name}-{number:06d}.frames"


def may_concern_all(claims: pa.Table) -> NDArray[np.bool_]:
    """Which claims the queries over the whole dump may find.

    Their statement's id may be that of another subject's statement, or they make a qualifier restrictive, or they date
    the beginning of an item. The queries decide.
    """
    restrictive = pc.and_(pc.equal(claims["property"], INSTANCE_OF), pc.equal(claims["object"], RESTRICTIVE_QUALIFIER))
    creation = pc.is_in(claims["property"], value_set=pa.array(CREATION_DATES))
    chosen: NDArray[np.bool_] = np.asarray(pc.fill_null(pc.or_kleene(restrictive, creation), False))
    return chosen | ~_have_normal_ids(claims)


def _have_normal_ids(claims: pa.Table) -> NDArray[np.bool_]:
    """Which statements have ids as in kgedit.store.planning.NORMAL_ID, which takes DuckDB ten times as long to find."""
    encoded = claims["subject"].combine_chunks().dictionary_encode()
    subject, subjects = np.asarray(encoded.indices), encoded.dictionary
    if not len(subjects):
        return np.zeros(0, np.bool_)
    normal: NDArray[np.bool_] = np.asarray(pc.match_substring_regex(subjects, "^[A-Z][0-9]+$"))[subject]
    first, subject_size, letters = _texts(subjects)
    start, size, content = _texts(pc.fill_null(claims["statement_id"].combine_chunks(), ""))
    first, subject_size = first[subject], subject_size[subject]
    normal &= size > subject_size
    rows = np.flatnonzero(normal)
    start, first, subject_size = start[rows], first[rows], subject_size[rows]
    same = (content[start] | 0x20) == (letters[first] | 0x20)  # a letter in either case; digits have none
    for place in range(1, int(subject_size.max(initial=0))):
        at = np.minimum(place, subject_size - 1)
        same &= content[start + at] == letters[first + at]
    following = content[start + subject_size]
    normal[rows] = same & ((following < ord("0")) | (following > ord("9")))
    return normal


def _texts(column: pa.StringArray) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8]]:
    """Where each text begins, its bytes, and the UTF-8 of all of them."""
    _, offsets, content = column.buffers()
    ends = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    return ends[:-1], np.diff(ends), np.frombuffer(content or b"", np.uint8)
