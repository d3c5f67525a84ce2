"""Single flipped bits in the files of a home: none may change an output in silence.

Each flip damages one bit of one file, keeps the file's size and time as a failing disk would, runs the command that
reads the file, and repairs the bit. The command must refuse with a sentence, or give the same bytes as before.

    PYTHONPATH=tests:benchmarks python tests/campaigns/bit_flips.py --flips 900
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import pytest
from click.testing import CliRunner
from world.submitted_runs import write_submittable

from kgedit import checksums
from kgedit.cli import main
from kgedit.graph_memory.memory_file import read_memory_file
from kgedit.sample.generate import write_world
from kgedit.store import builds
from kgedit.store.delta import write_delta
from kgedit.store.scope import Scope
from kgedit.store.snapshots import list_snapshots
from kgedit.timesteps.timestep import Timestep

WINDOW = ("2021-01-04", "2023-02-27")
SHARES = {"snapshots": 9, "delta": 3, "unfinished load": 3, "timestep": 4, "run": 3, "memory": 2}
"""How the flips are spread over what is damaged."""


@dataclass(frozen=True)
class Target:
    """Files that are damaged one at a time, and what reads them.

    Attributes:
        files: The files.
        read: Reads them and returns what came of it, comparable; raises or exits with 1 where it refuses.
        may_repair: Whether the files may be written by reading them, so that they are restored after each flip.
    """

    files: tuple[Path, ...]
    read: Callable[[], object]
    may_repair: Path | None = None


def run(home: Path, *arguments: object) -> str:
    """A command's stdout; a refusal raises SystemExit with what was said."""
    result = CliRunner().invoke(main, list(map(str, arguments)), env=dict(os.environ, KGEDIT_HOME=str(home)))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    if result.exit_code:
        raise SystemExit(result.stderr)
    return result.stdout


def content(folder: Path) -> dict[str, str]:
    """Path -> hash of every file that is not hidden."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.startswith("."))
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def make_targets(folder: Path) -> dict[str, Target]:
    """Prepare a home in a folder, and what can be damaged in it."""
    home, out = folder / "home", folder / "out"
    dumps = {path.name[:8]: path for path in write_world(folder / "dumps")}
    for day in WINDOW:
        run(home, "load-dump", dumps[day.replace("-", "")], "--date", day, "--no-graph")
    export = ("export-timestep", "--from", WINDOW[0], "--to", WINDOW[1], "--profile", "wikifactdiff", "--overwrite")
    step = Timestep.open(Path(run(home, *export).strip()))
    run_folder = write_submittable(home / "runs" / "ft", step)
    memory = home / "facts.kgmemory"
    run(home, "memory", "build", "--home", "--out", memory)

    def exported() -> object:
        run(home, *export, "--out", out)
        return content(out)

    def delta() -> object:
        older, newer = list_snapshots(home)
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        write_delta(older, newer, Scope(), out)
        return content(out)

    def described() -> object:
        return run(home, "describe", step.folder, "--format", "json"), list(Timestep.open(step.folder).cases())

    def reported() -> object:
        return run(home, "report", run_folder, "--format", "json")

    def remembered() -> object:
        read = read_memory_file(memory)
        return {name: table.to_pylist() for name, table in read.tables.items()}, read.manifest

    snapshots = tuple(path for path in files_of(home / "snapshots"))
    return {
        "snapshots": Target(snapshots, exported),
        "delta": Target(snapshots, delta),
        "unfinished load": _unfinished_load(folder / "unfinished", dumps["20240603"]),
        "timestep": Target(tuple(files_of(step.folder)), described),
        "run": Target(tuple(files_of(run_folder)), reported),
        "memory": Target((memory,), remembered),
    }


def _unfinished_load(home: Path, dump: Path) -> Target:
    """A load that was killed after its blocks were parsed: the same command resumes it."""
    command = ("load-dump", dump, "--date", "2024-06-03", "--no-graph", "--workers", "1")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(builds, "join_parts", _killed)
        with pytest.raises(KeyboardInterrupt):
            ingest_directly(home, dump)
    kept = Path(shutil.copytree(home, home.with_name("kept")))

    def resumed() -> object:
        run(home, *command)
        return content(home / "snapshots")

    return Target(tuple(files_of(home)), resumed, may_repair=kept)


def ingest_directly(home: Path, dump: Path) -> None:
    """As load-dump, which would catch the interrupt."""
    from kgedit.verbs.load_dump import DumpOptions, load_dump

    options = DumpOptions(workers=1)
    load_dump(home, dump, date(2024, 6, 3), options=options, steps=lambda *_: lambda *_: None)


def _killed(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def files_of(folder: Path) -> Iterator[Path]:
    """All files with content, in order; locks have none."""
    return (path for path in sorted(folder.rglob("*")) if path.is_file() and path.stat().st_size)


def flip(path: Path, bit: int) -> None:
    """Flip one bit and keep the file's times."""
    times = path.stat()
    with path.open("r+b") as file:
        file.seek(bit // 8)
        (byte,) = file.read(1)
        file.seek(bit // 8)
        file.write(bytes([byte ^ 1 << bit % 8]))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def outcome(read: Callable[[], object], expected: object) -> str:
    """What a command made of a damaged file: refused, same, or a failure with what was wrong."""
    checksums._checked.clear()  # as a new process begins
    try:
        return "same" if read() == expected else "FAILED: another output in silence"
    except SystemExit as error:
        said = str(error.code)
    except Exception as error:
        said = str(error)
        if not type(error).__module__.startswith("kgedit"):
            return f"FAILED: {type(error).__name__}: {said[:200]}"
    return "refused" if "Traceback" not in said else "FAILED: traceback"


def campaign(folder: Path, *, flips: int, seed: int) -> Counter[tuple[str, str]]:
    """Flip bits; how many ended how, by what was damaged and the outcome."""
    chance, found = random.Random(seed), Counter[tuple[str, str]]()
    for name, target in make_targets(folder).items():
        expected = target.read()
        for _ in range(round(flips * SHARES[name] / sum(SHARES.values()))):
            if target.may_repair:
                restore(target)
            path = chance.choice(target.files)
            bit = chance.randrange(8 * path.stat().st_size)
            flip(path, bit)
            ended = outcome(target.read, expected)
            if ended.startswith("FAILED"):
                ended += f" ({path.relative_to(folder)}, bit {bit})"
            found[name, ended] += 1
            if not target.may_repair:
                flip(path, bit)
    return found


def restore(target: Target) -> None:
    """Put the files of an unfinished load back."""
    assert target.may_repair
    home = target.may_repair.with_name("unfinished")
    shutil.rmtree(home)
    shutil.copytree(target.may_repair, home)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flips", type=int, default=900)
    parser.add_argument("--seed", type=int, default=27)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        counted = campaign(Path(scratch), flips=arguments.flips, seed=arguments.seed)
    for (name, ended), count in sorted(counted.items()):
        sys.stdout.write(f"{name:<16}{count:>5}  {ended}\n")
    raise SystemExit(any(ended.startswith("FAILED") for _, ended in counted))
