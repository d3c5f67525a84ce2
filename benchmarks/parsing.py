"""Speed of both parsers of JSON dumps, as multiples of a bare json.loads loop over the same lines in the same run.

Processor seconds of this process and its threads; the best of several rounds in turns. Lines: a slice of facts (thin
lines), the dump of 2015 and the entities of 2021 of the shared data, each repeated to about the given size with other
ids; without the shared data, the sample world.
Run: python benchmarks/parsing.py [--megabytes 60] [--rounds 3] [--wd2sql PROGRAM]
"""

from __future__ import annotations

import argparse
import bz2
import gzip
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from unittest.mock import patch

import msgspec
import zstandard
from kgedit.loaders.wikidata_json import JsonParser
from loading import write_dump

from kgedit.sample.generate import write_world
from kgedit.store.framing import entity_texts
from kgedit.store.part_files import PartFiles
from kgedit.store.schemas import LoaderOptions
from kgedit.store.sources import DumpFile

SHARED = Path(__file__).resolve().parents[2] / "shared/data"
REAL = {
    "thin lines (pat)": SHARED / "slices/pat/20211230.json.gz",
    "dump of 2015": SHARED / "dump_1000_20151109/1000-entities-20151109.json.bz2",
    "entities of 2021": SHARED / "dump_20_2021/twenty_entities_20210222.json.bz2",
}
COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    ".json": bytes,
    ".json.gz": lambda text: gzip.compress(text, 6),
    ".json.bz2": bz2.compress,
    ".json.zst": zstandard.compress,
}


def dumps(folder: Path, megabytes: int) -> Iterator[tuple[str, Path]]:
    """Name and path of each dump; a dump is removed before the next one is made."""
    for title, path in _sources(folder):
        text = bz2.decompress(path.read_bytes()) if path.suffix == ".bz2" else gzip.decompress(path.read_bytes())
        lines = [line.rstrip(b", ") for line in text.splitlines() if len(line) > 9]
        dump = folder / "dump.json"
        write_dump(dump, lines, megabytes * 1_000_000)
        yield title, dump


def _sources(folder: Path) -> list[tuple[str, Path]]:
    if SHARED.is_dir():
        return list(REAL.items())
    return [("sample world", path) for path in write_world(folder) if path.suffix == ".gz"][:1]


def make_parser(*, compiled: bool) -> JsonParser | None:
    """The loader with one of the parsers; None if the compiled one is not installed."""
    with patch.dict(sys.modules, {} if compiled else {"kgedit_native": None}):
        parser = JsonParser(LoaderOptions())
    return parser if parser.parses_in_threads == compiled else None


def bare_loop(dump: Path) -> None:
    with dump.open("rb") as file:
        for line in file:
            json.loads(line)


def split_and_decode(dump: Path) -> None:
    for block in DumpFile(dump).blocks():
        for text in entity_texts(block):
            msgspec.json.decode(text)


def to_rows(dump: Path, parser: JsonParser) -> None:
    for block in DumpFile(dump).blocks():
        parser.parse(block)


def to_part_files(dump: Path, parser: JsonParser) -> None:
    """What load-dump does with each block, except the hashes of the part files."""
    parts = PartFiles(dump.parent, 1)
    for block in DumpFile(dump).blocks():
        parsed = parser.parse(block)
        for name, table in (("claims", parsed.claims), ("entities", parsed.entities)):
            parts.write(name, 0, table)


def with_wd2sql(program: str, dump: Path) -> None:
    database = dump.parent / "wd2sql.db"
    database.unlink(missing_ok=True)
    subprocess.run([program, str(dump), str(database)], check=True, capture_output=True)


def seconds(work: Callable[[], None]) -> float:
    """Processor seconds of this process and of the programs that it runs."""
    before = _used()
    work()
    return _used() - before


def _used() -> float:
    whose = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(usage.ru_utime + usage.ru_stime for usage in map(resource.getrusage, whose))


def measure(title: str, dump: Path, rounds: int, wd2sql: str | None) -> None:
    """Print the ratios of one dump."""
    works: dict[str, Callable[[], None]] = {"json.loads": lambda: bare_loop(dump)}
    works["Python: split, decode everything"] = lambda: split_and_decode(dump)
    for name, parser in (("Python", make_parser(compiled=False)), ("compiled", make_parser(compiled=True))):
        if parser is not None:
            works[f"{name}: rows"] = partial(to_rows, dump, parser)
            works[f"{name}: rows, part files"] = partial(to_part_files, dump, parser)
    if wd2sql:
        works["wd2sql: SQLite"] = lambda: with_wd2sql(wd2sql, dump)
    best = dict.fromkeys(works, float("inf"))
    for _ in range(rounds):
        for name, work in works.items():
            best[name] = min(best[name], seconds(work))
    megabytes = dump.stat().st_size / 1e6
    print(f"{title}, {megabytes:,.0f} MB")
    for name, taken in best.items():
        ratio = best["json.loads"] / taken
        print(f"  {name:<34}{megabytes / taken:8.1f} MB/s{ratio:8.2f}", flush=True)


def measure_reading(dump: Path, rounds: int) -> None:
    """Print how fast blocks are read, by compression: of processor time, and by the clock."""
    text = dump.read_bytes()
    print(
        f"Reading and cutting into blocks, {len(text) / 1e6:,.0f} MB of JSON, MB/s of processor time and of the clock"
    )
    for suffix, compress in COMPRESSIONS.items():
        path = dump.with_name(f"compressed{suffix}")
        path.write_bytes(compress(text))
        begun, taken = time.perf_counter(), min(seconds(partial(_read, path)) for _ in range(rounds))
        passed = (time.perf_counter() - begun) / rounds
        print(f"  {suffix:<10}{len(text) / 1e6 / taken:9.0f}{len(text) / 1e6 / passed:9.0f}", flush=True)
        path.unlink()


def _read(path: Path) -> None:
    for _ in DumpFile(path).blocks():
        pass


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--megabytes", type=int, default=60)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--wd2sql", help="Path of the program wd2sql, to be measured with the rest")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as name:
        for title, dump in dumps(Path(name), given.megabytes):
            measure(title, dump, given.rounds, given.wd2sql)
        measure_reading(dump, given.rounds)


if __name__ == "__main__":
    main()
