"""Speed of parsing a dump to Parquet on one core, compared with Python's json.loads of every line in the same run.

Absolute figures vary on a shared machine; their ratio varies less. The dump repeats a real one (the shared data of
2015, if present next to the checkout) or the sample world, with different ids each time, up to about the given size.
Run: python benchmarks/loading.py [--megabytes 200] [--profile]
"""

from __future__ import annotations

import argparse
import bz2
import cProfile
import gzip
import json
import pstats
import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
from kgedit.loaders.wikidata_json import JsonParser

from kgedit.sample.generate import write_world
from kgedit.store.schemas import LoaderOptions
from kgedit.store.sources import DumpFile

REAL = Path(__file__).resolve().parents[2] / "shared/data/dump_1000_20151109/1000-entities-20151109.json.bz2"
_SUBJECT = re.compile(rb'("id":"[QPqp]\d+)(["$])')


def entities(folder: Path) -> tuple[str, list[bytes]]:
    """Name and lines of the data that the dump repeats."""
    if REAL.is_file():
        return "1,000 entities of 2015", [
            line for line in bz2.decompress(REAL.read_bytes()).splitlines() if len(line) > 9
        ]
    texts = [gzip.decompress(path.read_bytes()) for path in write_world(folder) if path.suffix == ".gz"]
    return "the sample world", [line for text in texts for line in text.splitlines() if len(line) > 9]


def write_dump(path: Path, lines: list[bytes], size: int) -> int:
    """Write about `size` bytes of entities with distinct ids; returns the exact number."""
    written = 0
    with path.open("wb") as file:
        number = 0
        while written < size:
            shift = rb"\g<1>" + f"{number:04d}".encode() + rb"\g<2>"
            for line in lines:
                written += file.write(_SUBJECT.sub(shift, line) + b"\n")
            number += 1
    return written


def seconds(work: Callable[[], None]) -> float:
    """CPU time of a function, which is one core's share regardless of other work on the machine."""
    begun = time.process_time()
    work()
    return time.process_time() - begun


def with_json(path: Path) -> None:
    """Baseline: decode each line and discard the result."""
    with path.open("rb") as file:
        for line in file:
            json.loads(line.rstrip(b",\n"))


def to_parquet(path: Path, folder: Path, parser: JsonParser) -> None:
    """Work of a load-dump worker process on each block."""
    for number, block in enumerate(DumpFile(path).blocks()):
        parsed = parser.parse(block)
        pq.write_table(parsed.claims, folder / f"claims-{number}.parquet", compression="zstd")
        pq.write_table(parsed.entities, folder / f"entities-{number}.parquet", compression="zstd")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--megabytes", type=int, default=200)
    arguments.add_argument("--profile", action="store_true", help="Show where Parser.parse spends its time.")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        title, lines = entities(folder)
        dump = folder / "dump.json"
        megabytes = write_dump(dump, lines, given.megabytes * 1_000_000) / 1e6
        parser = JsonParser(LoaderOptions())
        baseline = megabytes / seconds(lambda: with_json(dump))
        rate = megabytes / seconds(lambda: to_parquet(dump, folder, parser))
        print(f"{megabytes:,.0f} MB of JSON, {title} again and again; MB/s of one core's time:")
        print(f"  json.loads of every line       {baseline:8.1f}")
        print(f"  load-dump's parser to Parquet  {rate:8.1f}   ({rate / baseline:.1f} times as fast)")
        if given.profile:
            block = next(DumpFile(dump).blocks())
            profile = cProfile.Profile()
            profile.runcall(parser.parse, block)
            pstats.Stats(profile).sort_stats("tottime").print_stats(15)


if __name__ == "__main__":
    main()
