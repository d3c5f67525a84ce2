"""Gathers the rows of part files by bucket.

If there are few buckets, part files have a frame for each already (kgedit.store.part_files). Otherwise the frames with
some buckets are read once, in runs of consecutive blocks. A run is written with one frame per bucket, so that a bucket
reads its own rows only, in the dump's order.

A full dump has 4,096 buckets. Divided in two steps, the frames of a bucket have some thousand rows; the buckets of a
million consecutive rows have 250 each, and frames of so few rows cost more than all else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kgedit.files import put_in_place
from kgedit.store.bucket_numbers import order_by_bucket
from kgedit.store.bucket_rows import BUCKET_CLAIMS, BUCKET_ENTITIES, BucketRows, grouped
from kgedit.store.frames import Frame, FrameReader, write_frames
from kgedit.store.part_files import PartFiles

_ROWS_PER_RUN = 500_000
"""Maximum number of claims and entities of a run, which takes 240 MB while it is divided; a full dump has 3,400."""

_ROWS_PER_FRAME = 45_000
"""Number of rows that a bucket has in a run of a small dump: finishing holds one frame at a time, about 15 MB."""

_SCHEMAS = {"claims": BUCKET_CLAIMS, "entities": BUCKET_ENTITIES}

_IDS = {"claims": "subject", "entities": "id"}


@dataclass(frozen=True, slots=True)
class Gathered:
    """Rows of a dump by bucket.

    Attributes:
        parts: The part files.
        blocks: Number of blocks.
        runs: Folders of the runs of each frame of the part files; empty if these have one for each bucket.
    """

    parts: PartFiles
    blocks: int
    runs: tuple[tuple[Path, ...], ...]

    def rows(self, number: int, columns: Mapping[str, Sequence[str]] | None = None) -> Iterator[BucketRows]:
        """Yield the rows of a bucket, some blocks or runs at a time (kgedit.store.bucket_rows.ReadRows)."""
        reader, wanted = FrameReader(), columns or dict.fromkeys(_SCHEMAS)
        for several in grouped(self._frames(reader, number), _count_rows):
            frames = {name: [frame for one in several for frame in one[name]] for name in _SCHEMAS}
            yield self._rows(reader, frames, wanted)

    def _frames(self, reader: FrameReader, number: int) -> Iterator[_Frames]:
        """Yield the frames of a bucket by block, with its number, or by run."""
        if not self.runs:
            for block in range(self.blocks):
                yield {
                    name: [(block, frame) for frame in self.parts.fetch(reader, name, block, number)]
                    for name in _SCHEMAS
                }
            return
        frame, division = divmod(number, self.parts.divisions)
        for run in self.runs[division]:
            yield {name: [(0, reader.fetch(run / f"{name}.frames", frame))] for name in _SCHEMAS}

    def _rows(self, reader: FrameReader, frames: _Frames, wanted: Mapping[str, Sequence[str] | None]) -> BucketRows:
        if not self.runs:
            return BucketRows(*(self.parts.table(reader, name, frames[name], wanted[name]) for name in _SCHEMAS))
        return BucketRows(*(
            reader.table([frame for _, frame in frames[name]], schema, wanted[name])
            for name, schema in _SCHEMAS.items()
        ))  # fmt: skip


_Frames = dict[str, list[tuple[int, Frame]]]
"""Frames of claims and of entities, each with the number of its block, or 0 in runs, whose rows have it."""


def _count_rows(frames: _Frames) -> int:
    return sum(frame.rows for of_table in frames.values() for _, frame in of_table)


def gather(parts: PartFiles, blocks: int, folder: Path, *, workers: int = 1) -> Gathered:
    """Gather the rows of all blocks by bucket. Runs of an earlier attempt are kept.

    Args:
        parts: The part files.
        blocks: Number of blocks.
        folder: Folder of the runs.
        workers: Number of runs that are written at once, in threads.
    """
    if parts.divisions == parts.buckets:
        return Gathered(parts, blocks, ())
    folder.mkdir(exist_ok=True)
    most = min(_ROWS_PER_RUN, _ROWS_PER_FRAME * parts.buckets // parts.divisions)
    counts = np.array([parts.counts(number) for number in range(blocks)]).reshape(blocks, parts.divisions)
    with ThreadPoolExecutor(workers) as pool:
        runs = [
            [pool.submit(_gather_run, parts, numbers, division, folder) for numbers in _runs(rows, most)]
            for division, rows in enumerate(counts.T.tolist())
        ]
        return Gathered(parts, blocks, tuple(tuple(run.result() for run in of_division) for of_division in runs))


def _runs(rows: Sequence[int], most: int) -> Iterator[range]:
    """Yield the block numbers of each run: `most` rows at most, unless a single block has more."""
    start = total = 0
    for number, more in enumerate(rows):
        if total and total + more > most:
            yield range(start, number)
            start, total = number, 0
        total += more
    if start < len(rows):
        yield range(start, len(rows))


def _gather_run(parts: PartFiles, numbers: range, division: int, folder: Path) -> Path:
    run = folder / f"{division:02d}-{numbers.start:06d}-{numbers.stop:06d}-in-{parts.buckets}"
    if run.is_dir():
        return run
    aside = folder / f".{run.name}"
    aside.mkdir(exist_ok=True)
    for name, ids in _IDS.items():
        rows = parts.read_blocks(name, numbers, division)
        by_bucket = order_by_bucket(rows[ids], parts.buckets, start=division, step=parts.divisions)
        write_frames(aside / f"{name}.frames", rows, *by_bucket)
    put_in_place(aside, run)
    return run
