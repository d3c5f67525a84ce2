"""A disk error gives one sentence that says what to do; afterwards the load resumes."""

from __future__ import annotations

import errno
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from world.dumps import entity, hashes, load, write_dump

from kgedit.errors import StoreError
from kgedit.store.disk import disk_errors

DATE = "2021-01-04"
CHECKOUT = Path(__file__).parents[3]

LOAD = """
import os, resource, sys
from pathlib import Path
from kgedit.errors import StoreError
from world.dumps import load

def main(home, dump, workers, limit, user):
    if user:
        load(Path(dump).parent / "first", Path(dump), "2021-01-04")  # imports all that another user may not read
        os.setgroups([]), os.setgid(user), os.setuid(user)
    if limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    try:
        load(Path(home), Path(dump), "2021-01-04", workers=workers, block_bytes=200_000)
    except StoreError as error:
        print(error)

if __name__ == "__main__":
    main(*sys.argv[1:3], *map(int, sys.argv[3:]))
"""


def said_by_a_load(home: Path, dump: Path, *, workers: int = 1, limit: int = 0, user: int = 0) -> str:
    """What a load in another process says when it fails with a StoreError; a traceback fails the test."""
    script = dump.with_name("load.py")
    script.write_text(LOAD)
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([str(CHECKOUT / "tests"), str(CHECKOUT)]))
    arguments = [sys.executable, str(script), str(home), str(dump), *map(str, (workers, limit, user))]
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    """About a megabyte that does not compress well, in five blocks."""
    chance = random.Random(1)
    items = (entity(f"Q{number}", label=chance.randbytes(400).hex()) for number in range(1, 1200))
    return write_dump(tmp_path / "dump.json", items)


@pytest.fixture
def anybodys() -> Iterator[Path]:
    """A folder that every user can reach; pytest's own can only be reached by its user."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.slow
def test_a_file_that_may_not_grow_is_an_error_and_the_load_resumes(tmp_path: Path, dump: Path, workers: int) -> None:
    home = tmp_path / "home"
    said = said_by_a_load(home, dump, workers=workers, limit=40_000)
    assert said == (
        f"A file in {home} would become larger than this system allows (see 'ulimit -f'). "
        "Raise the limit and give the same command again: it resumes.\n"
    )
    load(home, dump, DATE, block_bytes=200_000)
    load(tmp_path / "undisturbed", dump, DATE, block_bytes=200_000)
    assert hashes(home) == hashes(tmp_path / "undisturbed")


def test_a_file_that_may_not_grow_while_parts_are_joined_is_the_same_error(tmp_path: Path, dump: Path) -> None:
    assert "would become larger" in said_by_a_load(tmp_path / "home", dump, limit=400_000)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can mount a small disk")
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.slow
def test_a_full_disk_is_an_error_and_the_load_resumes(tmp_path: Path, dump: Path, workers: int) -> None:
    home = tmp_path / "home"
    home.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(home)], check=False)
    if mounted.returncode:
        pytest.skip("no tmpfs can be mounted here")
    try:
        said = said_by_a_load(home, dump, workers=workers)
        assert said == f"The disk of {home} is full. Make room and give the same command again: it resumes.\n"
        subprocess.run(["mount", "-o", "remount,size=20m", str(home)], check=True)
        assert load(home, dump, DATE, block_bytes=200_000).manifest["entities"] == 1199
        subprocess.run(["mount", "-o", "remount,ro", str(home)], check=True)
        with pytest.raises(StoreError, match=r"Read-only file system. Make .* writable .* or set KGEDIT_HOME"):
            load(home, dump, DATE, overwrite=True)
    finally:
        subprocess.run(["umount", str(home)], check=True)


def test_a_home_that_another_user_may_not_write_is_an_error(anybodys: Path, dump: Path) -> None:
    theirs = write_dump(anybodys / "dump.json", dump.read_bytes())
    home = anybodys / "home"
    home.mkdir()
    home.chmod(0o555)
    said = said_by_a_load(home, theirs, user=65534 if os.geteuid() == 0 else 0)
    assert said == (
        f"{home}/snapshots cannot be read or written: Permission denied. Make {home} writable for this user, or set "
        "KGEDIT_HOME to a folder that is.\n"
    )


def test_a_home_that_another_user_may_not_even_enter_is_an_error(anybodys: Path, dump: Path) -> None:
    theirs = write_dump(anybodys / "dump.json", dump.read_bytes())
    home = anybodys / "home"
    home.mkdir()
    home.chmod(0)
    said = said_by_a_load(home, theirs, user=65534 if os.geteuid() == 0 else 0)
    assert "Permission denied" in said
    assert "set KGEDIT_HOME" in said
    home.chmod(0o755)


@pytest.mark.parametrize("file", ["home", "home/snapshots", "above"])
def test_a_file_in_place_of_a_folder_is_named(tmp_path: Path, dump: Path, file: str) -> None:
    home = tmp_path / ("above/home" if file == "above" else "home")
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).touch()
    with pytest.raises(StoreError, match=f"{tmp_path / file} is not a folder. Move it, or set KGEDIT_HOME"):
        load(home, dump, DATE)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "The disk of home is full. Make room and try again."),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), "The disk of home is full. Make room and try again."),
        (OSError(errno.EIO, "Input/output error", "home/x"), "home/x cannot be read or written: Input/output error."),
        (OSError("Error writing bytes to file"), "home cannot be read or written: Error writing bytes to file."),
        (duckdb.IOException("Could not write file: No space left on device"), "The disk of home is full."),
        (duckdb.IOException('{"exception_message":"File too large","errno":"27"}'), "see 'ulimit -f'"),
        (duckdb.IOException("Cannot open file: Permission denied"), "Make home writable for this user"),
        (duckdb.IOException("Something else\nin lines"), "home cannot be read or written: Something else. Check"),
        (duckdb.OutOfMemoryException("failed to offload data block"), "set KGEDIT_STORE_MEMORY"),
    ],
)
def test_errors_of_the_system_and_of_duckdb_become_sentences(error: Exception, message: str) -> None:
    with pytest.raises(StoreError) as raised, disk_errors(Path("home"), again="try again"):
        raise error
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_duckdb_without_room_for_its_temporary_files_is_an_error(tmp_path: Path) -> None:
    rows = "SELECT range, md5(range::VARCHAR) AS text FROM range(1000000) ORDER BY text"
    with duckdb.connect() as engine:
        engine.execute("SET memory_limit = '20MB'")
        engine.execute("SET temp_directory = ?", [str(tmp_path / "spill")])
        engine.execute("SET max_temp_directory_size = '1MB'")
        with pytest.raises(StoreError, match="room for temporary files"), disk_errors(tmp_path):
            engine.execute(f"CREATE TEMP TABLE t AS {rows}")


def test_a_closed_pipe_and_other_errors_pass_through() -> None:
    for kind in (BrokenPipeError, ValueError):
        with pytest.raises(kind), disk_errors(Path("home")):
            raise kind
