"""The folder that a result is written to before it is put in place: one process at a time, and nothing is left."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from kgedit.errors import StoreError
from kgedit.store.disk import disk_errors
from kgedit.store.files import replace_folder, working_folder

HOLDER = """
import sys, time
from pathlib import Path
from kgedit.store.files import working_folder

with working_folder(Path(sys.argv[1])) as aside:
    (aside / "half").write_text("half", encoding="utf-8")
    print("writing", flush=True)
    sys.stdin.read()
"""


def test_a_second_process_is_refused_and_a_killed_one_blocks_nothing(tmp_path: Path) -> None:
    target = tmp_path / "timesteps" / "timestep"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, target], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "writing\n"
        taken = pytest.raises(StoreError, match=r"Another kgedit process is writing .*timestep\. Nothing was changed")
        with taken, working_folder(target):
            pass
        assert (target.with_name(".timestep.aside") / "half").is_file()  # the first one's, untouched
    finally:
        os.kill(holder.pid, signal.SIGKILL)
        holder.communicate()
    with working_folder(target) as aside:
        assert list(aside.iterdir()) == []
        (aside / "whole").touch()
        replace_folder(aside, target)
    assert [path.name for path in target.parent.iterdir()] == ["timestep"]


def test_what_an_error_interrupted_is_deleted(tmp_path: Path) -> None:
    with suppress(ZeroDivisionError), working_folder(tmp_path / "made") as aside:
        (aside / "half").touch()
        1 / 0  # noqa: B018
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("before", ["empty", "full", "missing"])
def test_a_link_stays_and_the_folder_that_it_leads_to_is_replaced(before: str, tmp_path: Path) -> None:
    real, link = tmp_path / "disk" / "real", tmp_path / "link"
    if before != "missing":
        real.mkdir(parents=True)
    if before == "full":
        (real / "earlier").touch()
    link.symlink_to(real)
    with working_folder(link) as aside:
        (aside / "whole").touch()
        replace_folder(aside, link)
    assert link.readlink() == real
    assert [path.name for path in real.iterdir()] == ["whole"]
    made = tmp_path / "unfinished"  # not beside the folder: as of a load
    made.mkdir()
    (made / "again").touch()
    replace_folder(made, link)
    assert link.readlink() == real
    assert [path.name for path in real.iterdir()] == ["again"]
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["again", "disk", "link", "real"]


def test_a_folder_put_behind_a_link_leaves_another_writer_of_what_it_leads_to_alone(tmp_path: Path) -> None:
    real, link, made = tmp_path / "disk" / "real", tmp_path / "link", tmp_path / "unfinished"
    real.mkdir(parents=True)
    link.symlink_to(real)
    made.mkdir()
    (made / "whole").touch()
    with working_folder(real) as aside:
        (aside / "half").touch()
        replace_folder(made, link)
        assert [path.name for path in aside.iterdir()] == ["half"]
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["disk", "link", "real", "whole"]


def test_a_folder_that_does_not_fit_behind_a_link_leaves_nothing_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_aside: Path, near: Path) -> None:
        near.mkdir()
        raise OSError(errno.ENOSPC, "No space left on device")

    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk" / "real")
    monkeypatch.setattr(shutil, "move", full)
    with pytest.raises(OSError, match="No space"):
        replace_folder(tmp_path / "unfinished", tmp_path / "link")
    assert list((tmp_path / "disk").iterdir()) == []


def test_links_in_a_circle_are_an_error_of_the_disk_and_stay(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(link)
    with pytest.raises(StoreError, match="link"), disk_errors(link), working_folder(link) as aside:
        replace_folder(aside, link)
    assert [path.name for path in tmp_path.iterdir()] == ["link"]
    assert link.is_symlink()
