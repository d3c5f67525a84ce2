"""Processor seconds of loads by Spark in local mode beside those of local loads of the same dump, in turn.

    python benchmarks/spark_loads.py --statements 4000000 [--data FOLDER] [--master local[2]] [--loads 3] [--zstd]

Generates the dump (generated_dumps.py); with --data, an existing one is used again. The first load of a session is
cold, because Java compiles what it runs often. Prints the seconds of the driver, of Java and of Python's workers, and
those that the session takes to start. Finally the files of both snapshots are compared byte by byte.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
import zstandard
from generated_dumps import DATES, write_dumps

import kgedit
from kgedit.spark.session import open_session

LOCAL = """
import sys, kgedit
kgedit.Home(sys.argv[1]).load_dump(sys.argv[2], sys.argv[3], redirects=sys.argv[4], graph=False, workers=1)
"""


class Processes:
    """Processor seconds of this process and all below it, sampled because no one awaits ended workers."""

    def __init__(self) -> None:
        self._seconds: dict[tuple[int, float], tuple[str, float]] = {}
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            self._sample()
            time.sleep(0.1)

    def _sample(self) -> None:
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                times = process.cpu_times()
                kind = "java" if process.name() == "java" else "workers"
                self._seconds[process.pid, process.create_time()] = (kind, times.user + times.system)

    def seconds(self) -> dict[str, float]:
        """Seconds so far of this process, of Java, and of Python's workers."""
        self._sample()
        found = {"driver": time.process_time(), "java": 0.0, "workers": 0.0}
        for kind, seconds in list(self._seconds.values()):
            found[kind] += seconds
        return found


def measure(processes: Processes, title: str, work: Callable[[], object]) -> None:
    """Print what a call uses."""
    before, begun = processes.seconds(), time.perf_counter()
    work()
    wall, after = time.perf_counter() - begun, processes.seconds()
    used = {name: after[name] - before[name] for name in after}
    parts = ", ".join(f"{name} {value:.1f}" for name, value in used.items())
    print(f"{title}: {sum(used.values()):.1f} processor seconds ({parts}), {wall:.1f} on the clock", flush=True)


def digests(home: Path) -> dict[str, str]:
    """Hashes of the Parquet files of a home's only snapshot."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(home.rglob("*.parquet"))}


def compare(dump: Path, redirects: Path, master: str, loads: int, folder: Path) -> None:
    """Load in turn on Spark and here, in new homes."""
    local, spark, day = folder / "local", folder / "spark", str(DATES[0])

    def on_spark() -> None:
        kgedit.Home(spark).load_dump(dump, day, redirects=redirects, graph=False, engine="spark", master=master)

    def here() -> None:
        command = [sys.executable, "-c", LOCAL, str(local), str(dump), day, str(redirects)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    processes = Processes()
    settings = {"spark.driver.memory": "2g", "spark.local.dir": str(folder / "of-spark")}
    with ExitStack() as stack:
        measure(processes, "session", lambda: stack.enter_context(open_session(master, settings)))
        for _ in range(loads):
            for title, home, work in (("Spark", spark, on_spark), ("local", local, here)):
                shutil.rmtree(home, ignore_errors=True)
                measure(processes, title, work)
    found, expected = digests(spark), digests(local)
    print(f"{len(found)} Parquet files, {'the same' if found == expected else 'OTHER'} bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--statements", type=int, default=1_000_000)
    parser.add_argument("--data", type=Path, help="Folder of the dumps, which are kept.")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--loads", type=int, default=3)
    parser.add_argument("--zstd", action="store_true", help="Load the compressed dump, which one task reads.")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.data) as temporary:
        dumps = (given.data or Path(temporary)) / str(given.statements)
        if not (dumps / "redirects.tsv").is_file():
            write_dumps(dumps, statements=given.statements)
        dump = dumps / f"{DATES[0]:%Y%m%d}.json.zst"
        if not given.zstd:
            compressed, dump = dump, Path(temporary) / dump.stem
            with compressed.open("rb") as source, dump.open("wb") as file:
                zstandard.ZstdDecompressor().copy_stream(source, file)
        compare(dump, dumps / "redirects.tsv", given.master, given.loads, Path(temporary))


if __name__ == "__main__":
    main()
