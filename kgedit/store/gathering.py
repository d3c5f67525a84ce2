"""Gathers the rows of part files by bucket.

If there are few buckets, part files have a frame for each already (kgedit.store.part_files). Otherwise parts are read
once, in runs of consecutive blocks. A run is written with one frame per bucket, so that a bucket reads its own rows
only, in the dump's order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from kgedit.files import put_in_place
from kgedit.store.bucket_numbers import divide
from kgedit.store.bucket_rows import BUCKET_CLAIMS, BUCKET_ENTITIES, BucketRows
from kgedit.store.frames import FrameReader, write_frames
from kgedit.store.part_files import PartFiles

_ROWS_PER_RUN = 1_000_000
"""Maximum number of claims and entities of a run, which takes 240 MB; a full dump has some 1,700 runs."""

_ROWS_PER_FRAME = 45_000
"""Number of rows that a bucket has in a run of a small dump: finishing holds one frame at a time, about 15 MB."""

_SCHEMAS = {"claims": BUCKET_CLAIMS, "entities": BUCKET_ENTITIES}


@dataclass(frozen=True, slots=True)
class Gathered:
    """Rows of a dump by bucket.

    Attributes:
        parts: The part files.
        blocks: Number of blocks.
        runs: Folders of the runs; empty if the part files have a frame for each bucket.
    """

    parts: PartFiles
    blocks: int
    runs: tuple[Path, ...]

    def rows(self, number: int, _columns: Mapping[str, Sequence[str]] | None = None) -> Iterator[BucketRows]:
        """Yield the rows of a bucket by block or by run (kgedit.store.bucket_rows.ReadRows), with all columns."""
        frames = FrameReader()
        if not _need_runs(self.parts):
            for block in range(self.blocks):
                yield BucketRows(*(self.parts.read(frames, name, block, number) for name in _SCHEMAS))
        for run in self.runs:
            yield BucketRows(
                *(frames.read(run / f"{name}.frames", number, schema) for name, schema in _SCHEMAS.items())
            )


def _need_runs(parts: PartFiles) -> bool:
    return parts.divisions != parts.buckets


def gather(parts: PartFiles, blocks: int, folder: Path, *, workers: int = 1) -> Gathered:
    """Gather the rows of all blocks by bucket. Runs of an earlier attempt are kept.

    Args:
        parts: The part files.
        blocks: Number of blocks.
        folder: Folder of the runs.
        workers: Number of runs that are written at once, in threads.
    """
    if not _need_runs(parts):
        return Gathered(parts, blocks, ())
    folder.mkdir(exist_ok=True)
    most = min(_ROWS_PER_RUN, _ROWS_PER_FRAME * parts.buckets)
    with ThreadPoolExecutor(workers) as pool:
        runs = pool.map(lambda numbers: _gather_run(parts, numbers, folder), _runs(parts, blocks, most))
        return Gathered(parts, blocks, tuple(runs))


def _runs(parts: PartFiles, blocks: int, most: int) -> Iterator[range]:
    """Yield the block numbers of each run: `most` rows at most, unless a single block has more."""
    start = rows = 0
    for number in range(blocks):
        more = sum(parts.count(name, number) for name in _SCHEMAS)
        if rows and rows + more > most:
            yield range(start, number)
            start, rows = number, 0
        rows += more
    if start < blocks:
        yield range(start, blocks)


def _gather_run(parts: PartFiles, numbers: range, folder: Path) -> Path:
    run = folder / f"{numbers.start:06d}-{numbers.stop:06d}-in-{parts.buckets}"
    if run.is_dir():
        return run
    aside = folder / f".{run.name}"
    aside.mkdir(exist_ok=True)
    for name in _SCHEMAS:
        pieces: list[list[pa.Table]] = [[] for _ in range(parts.buckets)]
        for rows in parts.read_blocks(name, numbers):
            by_bucket = divide(rows, "subject" if name == "claims" else "id", parts.buckets)
            for piece, of_bucket in zip(pieces, by_bucket, strict=True):
                piece.append(of_bucket)
        write_frames(aside / f"{name}.frames", map(pa.concat_tables, pieces))
    put_in_place(aside, run)
    return run
