"""Files that are whole or absent, and locks that end with their holder."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from kgedit.editing.editor import EditorState
from kgedit.files import append_lines, cut_half_line, exclusive_lock, read_lines, replace_file
from kgedit.graph.managed.processes import locked
from kgedit.llm.model_files import save_tensors, whole_folder
from kgedit.runs.checkpoints import Checkpoint, Checkpoints
from kgedit.store.files import replace_folder


def test_a_lock_keeps_others_out_until_its_holder_dies(tmp_path: Path) -> None:
    program = (
        "import sys, time; from pathlib import Path; from kgedit.graph.managed.processes import locked\n"
        "with locked(Path(sys.argv[1])): print('held', flush=True); time.sleep(60)"
    )
    path = tmp_path / "lock"
    holder = subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    taken = subprocess.Popen(
        [sys.executable, "-c", program.replace("time.sleep(60)", ""), str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert taken.stderr is not None
    assert b"Waiting" in taken.stderr.readline()
    assert taken.poll() is None
    holder.kill()
    holder.communicate()
    assert taken.communicate(timeout=60)[0] == b"held\n"
    with locked(path):
        pass


def test_a_lock_that_is_taken_may_be_refused_instead_of_waited_for(tmp_path: Path) -> None:
    def refuse() -> None:
        raise RuntimeError("taken")

    with (
        exclusive_lock(tmp_path / "lock", when_taken=refuse),
        pytest.raises(RuntimeError, match="taken"),
        exclusive_lock(tmp_path / "lock", when_taken=refuse),
    ):
        pass
    with exclusive_lock(tmp_path / "lock", when_taken=refuse):
        pass


def test_a_child_that_inherits_the_descriptor_holds_the_lock_too(tmp_path: Path) -> None:
    program = (
        "import subprocess, sys; from pathlib import Path; from kgedit.graph.managed.processes import locked\n"
        "with locked(Path(sys.argv[1])) as lock:\n"
        "    child = subprocess.Popen(['sleep', '60'], pass_fds=[lock])\n"
        "    print(child.pid, flush=True); child.wait()"
    )
    holder = subprocess.Popen([sys.executable, "-c", program, str(tmp_path / "lock")], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    child = int(holder.stdout.readline())
    holder.kill()
    holder.wait()
    taken = []
    with exclusive_lock(tmp_path / "lock", when_taken=lambda: (taken.append(True), os.kill(child, signal.SIGKILL))):
        assert taken == [True]


def test_a_file_is_replaced_at_once_with_the_mode_that_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "password"
    assert replace_file(path, "first", mode=0o600) == path
    assert path.stat().st_mode & 0o777 == 0o600
    replace_file(path, b"second", mode=0o600)
    assert path.read_bytes() == b"second"
    assert list(tmp_path.iterdir()) == [path]


def test_a_write_that_fails_leaves_the_old_file_and_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "report.md"
    replace_file(path, "old")
    with pytest.raises(UnicodeEncodeError):
        replace_file(path, "half of a pair: \ud800")
    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What is written to the disk and renamed, in order: ("sync" or "rename", name)."""
    calls: list[tuple[str, str]] = []
    opened: dict[int, str] = {}
    open_, fsync, replace = os.open, os.fsync, Path.replace

    def noted_open(path: str | Path, *rest: int, **more: int) -> int:
        descriptor = open_(path, *rest, **more)
        opened[descriptor] = Path(path).name
        return descriptor

    def noted_fsync(descriptor: int) -> None:
        calls.append(("sync", opened.get(descriptor, "?")))
        fsync(descriptor)

    def noted_replace(path: Path, target: Path) -> Path:
        calls.append(("rename", Path(target).name))
        return replace(path, target)

    monkeypatch.setattr(os, "open", noted_open)
    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(Path, "replace", noted_replace)
    return calls


def test_a_file_is_on_the_disk_before_it_is_renamed_and_its_name_after(
    tmp_path: Path, disk: list[tuple[str, str]]
) -> None:
    replace_file(tmp_path / "scores.json", "{}")
    (_, aside), *rest = disk
    assert re.fullmatch(r"\.scores\.json\.[0-9a-f]{16}\.aside", aside)
    assert (disk[0][0], rest) == ("sync", [("rename", "scores.json"), ("sync", tmp_path.name)])


def test_processes_of_several_machines_with_the_same_id_write_the_same_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "blocks.json"

    def interrupted() -> Iterator[str]:
        yield "[5"
        replace_file(path, "[5]")
        yield "]"

    assert replace_file(path, interrupted()).read_text(encoding="utf-8") == "[5]"
    assert list(tmp_path.iterdir()) == [path]


def write_snapshot(folder: Path) -> None:
    aside = folder.with_name(".20210104.loading")
    (aside / "deeper").mkdir(parents=True)
    for name in ("facts.parquet", "manifest.json", "deeper/more"):
        (aside / name).write_bytes(b"1")
    replace_folder(aside, folder)


def write_model(folder: Path) -> None:
    save_tensors(folder.parent / "model.safetensors", {"a": torch.zeros(1)})
    with whole_folder(folder) as partial:
        (partial / "config.json").write_text("{}")


def write_checkpoint(folder: Path) -> None:
    for name in ("answers.jsonl", "edits.jsonl"):
        (folder.parent / name).write_text("")
    state = EditorState({"a": torch.zeros(1)}, {})
    Checkpoints(folder).save(Checkpoint("t", 1, 1, state))


@pytest.mark.parametrize(
    ("write", "names"),
    [
        (write_snapshot, {"facts.parquet", "manifest.json", "more", "deeper"}),
        (write_model, {f"model.safetensors.partial-{os.getpid()}", "config.json"}),
        (write_checkpoint, {"answers.jsonl", "edits.jsonl", "state.safetensors", "state.json"}),
    ],
)
def test_a_folder_takes_its_name_after_all_its_files_are_on_the_disk(
    write: Callable[[Path], None], names: set[str], tmp_path: Path, disk: list[tuple[str, str]]
) -> None:
    write(tmp_path / "folder")
    last = max(number for number, (kind, _) in enumerate(disk) if kind == "rename")
    assert names <= {name for kind, name in disk[:last] if kind == "sync"}
    assert disk[last + 1 :] in ([("sync", tmp_path.name)], [("sync", "folder")])


@pytest.mark.parametrize("half", [0, 3, 65_536, 150_000])
@pytest.mark.parametrize("whole", [[], ["a"], ["b" * 70_000, "c"]])
def test_what_stands_behind_the_last_whole_line_is_cut_off_however_long(
    whole: list[str], half: int, tmp_path: Path
) -> None:
    path = tmp_path / "lines.jsonl"
    append_lines(path, whole)
    with path.open("ab") as file:
        file.write(b"x" * half)
    cut_half_line(path)

    assert read_lines(path) == whole
    assert path.stat().st_size == sum(len(line) + 1 for line in whole)
