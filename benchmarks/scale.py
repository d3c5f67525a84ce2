"""Costs of each stage of the store as snapshots grow, and what they give for two full dumps.

    python benchmarks/scale.py --statements 250000 1000000 4000000 [--data FOLDER] [--workers 1] [--stages load export]

Generates dumps of each size (generated_dumps.py), and runs every stage in a separate process: a bare json.loads loop
over the older dump, loading both dumps, the delta for a graph, the files of graphs around changes and of changed pairs,
functionality, exports without a graph (with two hops, with chains, and with the profile wikifactdiff), taking what
changed out of the store (load-changes), and a memory of all facts between items. For each it prints processor seconds,
the peak memory of the process and its workers together, the bytes written, the growth exponents between sizes (1 is
linear), and an extrapolation to two full dumps; for exports and load-changes also those of each step. With --data,
existing dumps are used again. --parts 16 exports in as many parts as a dump 16 times as large has.
PYTHONPATH=CHECKOUT measures another version of kgedit.
"""

from __future__ import annotations

import argparse
import importlib
import io
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import zstandard
from generated_dumps import DATES, write_dumps

from kgedit.progress import listening

FULL_STATEMENTS = 1_600_000_000
"""Statements of a full dump of Wikidata in 2025."""

FULL_BYTES = 1_600_000_000_000
"""Bytes of its JSON, uncompressed; real lines have labels in all languages, references and links to articles."""

STAGES = (
    "json.loads",
    "load older",
    "load newer",
    "delta",
    "around changes",
    "changed pairs",
    "functionality",
    "export",
    "export of chains",
    "export as wikifactdiff",
    "load changes",
    "memory",
)

WITH_TEXT = ("json.loads", "load older", "load newer")
"""Stages that read the dump's text, so that they grow with its bytes."""


@dataclass(frozen=True, slots=True)
class StageCost:
    """What a stage used.

    Attributes:
        processor: Processor seconds of its process and the workers.
        wall: Seconds on the clock.
        peak: Peak memory in bytes of the process and its workers together, sampled 50 times a second.
        written: Bytes of the files that it wrote.
    """

    processor: float
    wall: float
    peak: int
    written: int


@contextmanager
def _steps_to(path: Path) -> Iterator[None]:
    """Write the cost of each step of this process to a file, one line of JSON for each: its name and StageCost."""
    begun = ("", 0.0, 0.0)

    def listen(name: str, _done: int, _total: int) -> None:
        nonlocal begun
        title, wall, processor = begun
        now = (time.perf_counter(), time.process_time())
        if title:
            cost = StageCost(now[1] - processor, now[0] - wall, _highest_memory(), 0)
            with path.open("a") as file:
                file.write(json.dumps({"name": title, "cost": asdict(cost)}) + "\n")
        Path("/proc/self/clear_refs").write_text("5")  # the highest memory so far is now the present one
        begun = (name, *now)

    with listening(listen):
        yield
        listen("", 0, 0)


def _highest_memory() -> int:
    """Peak memory of this process in bytes since it was last cleared."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def _json_loads(_home: Path, dumps: Path, _out: Path, _workers: int) -> None:
    with (dumps / f"{DATES[0]:%Y%m%d}.json.zst").open("rb") as file:
        for line in io.BufferedReader(zstandard.ZstdDecompressor().stream_reader(file), 1 << 20):
            if len(line) > 3:
                json.loads(line.rstrip(b",\n"))


def _load(home: Path, dumps: Path, number: int, workers: int) -> None:
    import kgedit

    day = DATES[number]
    kgedit.Home(home).load_dump(
        dumps / f"{day:%Y%m%d}.json.zst", day, redirects=dumps / "redirects.tsv", workers=workers, graph=False
    )


def _delta(home: Path, _dumps: Path, out: Path, _workers: int) -> None:
    from kgedit.store.delta import write_delta
    from kgedit.store.scope import Scope
    from kgedit.store.snapshots import list_snapshots

    older, newer = list_snapshots(home)
    out.mkdir()
    write_delta(older, newer, Scope(), out)


def _graph_files(home: Path, out: Path, **scope: bool) -> None:
    from kgedit.graph.writing import write_csv_files
    from kgedit.store.scope import Scope
    from kgedit.store.snapshots import list_snapshots
    from kgedit.store.timeline import open_timeline

    chosen = Scope(evidence=False, **scope)
    snapshots = list_snapshots(home)
    with open_timeline(snapshots, chosen, spill=out.with_suffix(".spill")) as connection:
        write_csv_files(connection, out, chosen, [{"date": snapshot.date} for snapshot in snapshots])


def _functionality(home: Path, _dumps: Path, _out: Path, _workers: int) -> None:
    from kgedit.store.snapshots import list_snapshots
    from kgedit.timesteps.engines.functionality import measure_functionality

    measure_functionality(list_snapshots(home)[-1])


PARTS = (
    *("engines.store._EDITS_AT_ONCE", "kinds.snapshot_tables._CHANGES_AT_ONCE", "labels._SUBJECTS_AT_ONCE"),
    *("changes._CHANGES_AT_ONCE", "locality._CASES_AT_ONCE", "wording._FACTS_AT_ONCE"),
    *("chain_paths._CASES_AT_ONCE", "chain_paths._PATHS_AT_ONCE", "chains._WORDED_AT_ONCE"),
)
"""Constants of kgedit.timesteps: rows that a step of an export takes at once."""


def _divide_parts(parts: int) -> None:
    for name in PARTS:
        module, constant = name.rsplit(".", 1)
        holder = importlib.import_module(f"kgedit.timesteps.{module}")
        setattr(holder, constant, max(getattr(holder, constant) // parts, 1))


def _export(home: Path, out: Path, **options: Any) -> None:
    import kgedit

    with _steps_to(_steps_file(home)):
        kgedit.Home(home).export_timestep(*DATES[:2], out=out, engine="store", forms=(), **options)


def _load_changes(home: Path, _dumps: Path, out: Path, _workers: int) -> None:
    import kgedit

    with _steps_to(_steps_file(home)):
        kgedit.Home(out).load_changes(home, *DATES[:2], graph=False)


def _memory(home: Path, _dumps: Path, out: Path, _workers: int) -> None:
    from kgedit.verbs.memory import build_memory

    out.mkdir()
    build_memory(out / "facts.kgmemory", home=home)


def _steps_file(home: Path) -> Path:
    return home.parent / "steps"


WORK: dict[str, Callable[[Path, Path, Path, int], None]] = {
    "json.loads": _json_loads,
    "load older": lambda home, dumps, _out, workers: _load(home, dumps, 0, workers),
    "load newer": lambda home, dumps, _out, workers: _load(home, dumps, 1, workers),
    "delta": _delta,
    "around changes": lambda home, _dumps, out, _workers: _graph_files(home, out, around_changes=True),
    "changed pairs": lambda home, _dumps, out, _workers: _graph_files(home, out, changed_pairs=True),
    "functionality": _functionality,
    "export": lambda home, _dumps, out, _workers: _export(home, out),
    "export of chains": lambda home, _dumps, out, _workers: _export(home, out, hops=4),
    "export as wikifactdiff": lambda home, _dumps, out, _workers: _export(home, out, profile="wikifactdiff"),
    "load changes": _load_changes,
    "memory": _memory,
}


def measure(stage: str, home: Path, dumps: Path, *, workers: int, parts: int) -> dict[str, StageCost]:
    """Run a stage in a separate process; prints its error if it fails.

    Returns:
        Costs of the stage, unless it failed, and of its finished steps ("export: judging kinds of change").
    """
    out = home.parent / "out"
    shutil.rmtree(out, ignore_errors=True)
    _steps_file(home).unlink(missing_ok=True)
    before = _bytes(home)
    command = [sys.executable, __file__, "--run", stage, str(home), str(dumps), str(out), "--workers", str(workers)]
    command += ["--parts", str(parts)]
    begun, used = time.perf_counter(), os.times()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    peaks: list[int] = []
    sampler = threading.Thread(target=_sample, args=(process, peaks))
    sampler.start()
    _, errors = process.communicate()
    sampler.join()
    lines = _steps_file(home).read_text().splitlines() if _steps_file(home).exists() else []
    steps = {f"{stage}: {one['name']}": StageCost(**one["cost"]) for one in map(json.loads, lines)}
    if process.returncode:
        print(f"{stage} failed: {errors.strip().splitlines()[-1:]}", file=sys.stderr)
        return steps
    now = os.times()
    processor = now.children_user + now.children_system - used.children_user - used.children_system
    written = _bytes(home) - before + _bytes(out)
    return {stage: StageCost(processor, time.perf_counter() - begun, max(peaks, default=0), written)} | steps


def _sample(process: subprocess.Popen[str], peaks: list[int]) -> None:
    root = psutil.Process(process.pid)
    while process.poll() is None:
        total = 0
        try:
            for each in [root, *root.children(recursive=True)]:
                total += each.memory_info().rss
        except psutil.Error:
            pass  # a process ended while it was looked at
        peaks.append(total)
        time.sleep(0.02)


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


Costs = dict[int, dict[str, StageCost]]


def print_costs(costs: Costs, sizes: Sequence[int], text: dict[int, int]) -> None:
    """Print costs by stage and size as a table, growth exponents, and an extrapolation to two full dumps."""
    heads = [f"{size / 1e6:g} M: s | MB | B a statement" for size in sizes]
    print("| | " + " | ".join(heads) + " | growth of seconds | of memory |")
    print("|---|" + "---|---|---|" * len(sizes) + "---|---|")
    for stage in dict.fromkeys(name for size in sizes for name in costs[size]):
        known = [costs[size].get(stage) for size in sizes]
        cells = [
            f"{one.processor:.1f} | {one.peak / 1e6:.0f} | {one.written / size:.0f}" if one else "– | – | –"
            for one, size in zip(known, sizes, strict=True)
        ]
        growth = [
            " ".join(
                f"{math.log(getattr(b, what) / getattr(a, what)) / math.log(m / n):.2f}"
                for (n, a), (m, b) in pairwise(zip(sizes, known, strict=True))
                if a and b
            )
            for what in ("processor", "peak")
        ]
        print(f"| {stage} | " + " | ".join(cells) + f" | {' | '.join(growth)} |")
    _print_extrapolation(costs, sizes, text)


def _print_extrapolation(costs: Costs, sizes: Sequence[int], text: dict[int, int]) -> None:
    """Core hours of two full dumps, if the growth from the two largest sizes goes on (at least linear)."""
    largest = sizes[-1]
    print(f"\nTwo full dumps of {FULL_STATEMENTS:,} statements and {FULL_BYTES:,} bytes of JSON, from {largest:,}:")
    for stage in STAGES:
        last = costs[largest].get(stage)
        if last is None:
            continue
        factor = FULL_STATEMENTS / largest
        if stage in WITH_TEXT:
            by_bytes = last.processor * FULL_BYTES / text[largest] / 3600
            print(f"  {stage}: {last.processor * factor / 3600:.1f} core hours by statements, {by_bytes:.1f} by bytes")
            continue
        before = costs[sizes[-2]].get(stage) if len(sizes) > 1 else None
        exponent = (
            max(1.0, math.log(last.processor / before.processor) / math.log(largest / sizes[-2])) if before else 1.0
        )
        print(f"  {stage}: {last.processor * factor**exponent / 3600:.1f} core hours (exponent {exponent:.2f})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--statements", type=int, nargs="+", default=[250_000, 1_000_000, 4_000_000])
    parser.add_argument("--data", type=Path, help="Folder of the dumps, which are kept.")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--parts", type=int, default=1, help="Divides the rows that steps of an export take at once.")
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=STAGES)
    parser.add_argument("--json", type=Path, help="Also write the costs to this file.")
    parser.add_argument("--keep", action="store_true", help="Use the snapshots that an earlier run left in --data.")
    parser.add_argument("--run", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.run:
        stage, *paths = given.run
        if given.parts > 1:
            _divide_parts(given.parts)
        WORK[stage](*map(Path, paths), given.workers)
        return
    with tempfile.TemporaryDirectory() as temporary:
        costs: Costs = {}
        text: dict[int, int] = {}
        for size in given.statements:
            folder = (given.data or Path(temporary)) / str(size)
            if not (folder / "redirects.tsv").is_file():
                write_dumps(folder, statements=size)
            home = folder / "work" / "home"
            if not given.keep:
                shutil.rmtree(home.parent, ignore_errors=True)
            home.mkdir(parents=True, exist_ok=True)
            text[size] = _text_bytes(folder)
            costs[size] = {}
            for stage in given.stages:
                costs[size] |= measure(stage, home, folder, workers=given.workers, parts=given.parts)
                print(f"{size:,} {stage}: {costs[size].get(stage)}", file=sys.stderr)
        print_costs(costs, given.statements, text)
        if given.json:
            given.json.write_text(
                json.dumps({size: {name: asdict(one) for name, one in by.items()} for size, by in costs.items()})
            )


def _text_bytes(dumps: Path) -> int:
    with (dumps / f"{DATES[0]:%Y%m%d}.json.zst").open("rb") as file:
        reader = zstandard.ZstdDecompressor().stream_reader(file)
        return sum(len(data) for data in iter(lambda: reader.read(1 << 20), b""))


if __name__ == "__main__":
    main()
