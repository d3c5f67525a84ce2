"""Parses blocks of a dump into numbered part files, in worker processes, or in threads if the loader allows.

A block's count file is written last, with the hashes of the block and of its part files. An interrupted load skips
blocks that have a count file, and parses a block again if its content or its part files changed.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from hashlib import blake2b
from itertools import chain, islice
from pathlib import Path

import pyarrow.parquet as pq
import xxhash

from kgedit.checksums import find_faults, sha256_of
from kgedit.errors import StoreError
from kgedit.progress import Advance
from kgedit.store.files import write_json
from kgedit.store.framing import JSON_LINES, Framing
from kgedit.store.part_files import PartFiles
from kgedit.store.schemas import Loader
from kgedit.store.sources import DumpFile

_Block = tuple[int, bytes]


def parse_blocks(
    parts: PartFiles,
    source: DumpFile,
    make_loader: Callable[[], Loader],
    *,
    framing: Framing = JSON_LINES,
    limit: int | None,
    workers: int,
    progress: Advance,
    chosen: Callable[[int], bool] | None = None,
) -> tuple[int, Counter[str]]:
    """Parse every block that has no count file yet. About one block per worker is held in memory.

    `chosen` decides by a block's number whether it is parsed here; None means all blocks.

    Returns:
        Number of blocks in the dump, and the summed counts of all blocks; "entities" counts their rows.

    Raises:
        SourceError: if the dump cannot be read to its end (or the limit).
        StoreError: if a worker process was killed.
    """
    state = _Reading(parts, source, framing, limit, progress, chosen)
    first = list(islice(state.unparsed(), 2))
    # The generator continues after this look-ahead; a dump of one block does not need a worker process.
    unparsed = chain(first, state.unparsed())
    if workers == 1 or len(first) < 2:
        loader = make_loader()
        for number, block in unparsed:
            state.add(_parse(loader, parts, number, block))
    elif getattr(loader := make_loader(), "parses_in_threads", False):
        with ThreadPoolExecutor(workers) as pool:
            _parse_in_pool(state, unparsed, pool, partial(_parse, loader, parts), workers)
    else:
        _parse_in_workers(state, unparsed, make_loader, workers)
    return state.blocks, state.counts


class _Reading:
    """Progress of a load through the blocks of a dump."""

    def __init__(
        self,
        parts: PartFiles,
        source: DumpFile,
        framing: Framing,
        limit: int | None,
        progress: Advance,
        chosen: Callable[[int], bool] | None,
    ) -> None:
        self.parts = parts
        self.blocks = 0
        self.counts: Counter[str] = Counter()
        self._source = source
        self._numbered = enumerate(limited(source.blocks(framing), framing, limit))
        self._progress = progress
        self._chosen = chosen

    def unparsed(self) -> Iterator[_Block]:
        """Yield blocks that must be parsed, and add the counts of blocks that are done."""
        for number, block in self._numbered:
            self.blocks = number + 1
            if self._chosen is not None and not self._chosen(number):
                continue
            counts = _counts_of(self.parts, number, block)
            if counts is None:
                yield number, block
            else:
                self.add(counts)

    def add(self, counts: Counter[str]) -> None:
        self.counts.update(counts)
        self._progress(self._source.position, self.counts["lines"])


def limited(blocks: Iterator[bytes], framing: Framing, limit: int | None) -> Iterator[bytes]:
    """The blocks with the first `limit` entities; None means all."""
    if limit is None:
        yield from blocks
        return
    left = limit
    for block in blocks:
        taken, count = framing.first(block, left)
        left -= count
        yield taken
        if left == 0:
            return


def _counts_file(parts: Path, number: int) -> Path:
    return parts / f"counts-{number:06d}.json"


def unparsed_blocks(parts: Path, blocks: int) -> list[int]:
    """Numbers of blocks without a count file."""
    return [number for number in range(blocks) if not _counts_file(parts, number).is_file()]


def parsed_digest(parts: Path, blocks: int) -> str:
    """Hash of what was parsed: of the count files, which have the hashes of the blocks and their part files."""
    digest = blake2b(digest_size=16)
    for number in range(blocks):
        digest.update(_counts_file(parts, number).read_bytes())
    return digest.hexdigest()


def _counts_of(parts: PartFiles, number: int, block: bytes) -> Counter[str] | None:
    """Counts of a block that an earlier attempt parsed; None if it must be parsed (again)."""
    try:
        done = json.loads(_counts_file(parts.folder, number).read_bytes())
        same = (done["block"], done["divisions"]) == (_hash(block), parts.divisions)
        whole = same and not any(find_faults(parts.folder, done["files"]))
        return Counter(done["counts"]) if whole else None
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return None  # not parsed yet; or the file is damaged, or of an earlier version


def _hash(block: bytes) -> str:
    # SHA-256 takes ten times as long, and several times more on processors without instructions for it.
    return xxhash.xxh3_128_hexdigest(block)


def _parse(loader: Loader, parts: PartFiles, number: int, block: bytes) -> Counter[str]:
    _counts_file(parts.folder, number).unlink(missing_ok=True)
    parts.remove_extra(number)  # the block may have had other content
    parsed = loader.parse(block)
    names = [*parts.write("claims", number, parsed.claims), *parts.write("entities", number, parsed.entities)]
    if parsed.waiting is not None:
        for kind, table in (("waiting", parsed.waiting.statements), ("nodes", parsed.waiting.nodes)):
            names.append(f"{kind}-{number:06d}.parquet")
            pq.write_table(table, parts.folder / names[-1], compression="zstd")
    counts = parsed.counts + Counter(entities=parsed.entities.num_rows)
    done = {
        "block": _hash(block),
        "counts": dict(sorted(counts.items())),
        "divisions": parts.divisions,
        "files": {name: sha256_of(parts.folder / name) for name in names},
    }
    write_json(_counts_file(parts.folder, number), done)
    return counts


def _parse_in_workers(
    state: _Reading, unparsed: Iterator[_Block], make_loader: Callable[[], Loader], workers: int
) -> None:
    # Spawned, not forked: a fork would lose the threads of Arrow and DuckDB.
    context = multiprocessing.get_context("spawn")
    try:
        with ProcessPoolExecutor(workers, context, initializer=_start_worker, initargs=(make_loader,)) as pool:
            _parse_in_pool(state, unparsed, pool, partial(_parse_in_worker, state.parts), workers)
    except BrokenProcessPool as error:
        raise StoreError(
            "A process that was parsing the dump was killed, probably because memory ran out. Give the same command "
            f"again with fewer processes (--workers {max(workers // 2, 1)}): it resumes."
        ) from error


def _parse_in_pool(
    state: _Reading,
    unparsed: Iterator[_Block],
    pool: Executor,
    parse: Callable[[int, bytes], Counter[str]],
    workers: int,
) -> None:
    running: set[Future[Counter[str]]] = set()
    for number, block in unparsed:
        running.add(pool.submit(parse, number, block))
        if len(running) > workers:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                state.add(future.result())
    for future in running:
        state.add(future.result())


_loader: Loader
"""The loader of this worker process."""


def _start_worker(make_loader: Callable[[], Loader]) -> None:
    global _loader  # noqa: PLW0603 - one loader for each worker process
    # Ctrl-C reaches the whole process group; the parent ends its workers itself, without a traceback from each.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _loader = make_loader()


def _end_with_parent() -> None:
    """End this process when its parent is killed; otherwise it would wait for work forever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _parse_in_worker(parts: PartFiles, number: int, block: bytes) -> Counter[str]:
    return _parse(_loader, parts, number, block)
