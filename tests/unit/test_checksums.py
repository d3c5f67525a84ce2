"""Changed files are rejected; unchanged files are verified only once."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from kgedit import checksums
from kgedit.checksums import check_folder, checked, find_faults, read_checksums, write_checksums
from kgedit.errors import DamagedFileError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "whole" / "deeper").mkdir(parents=True)
    (tmp_path / "whole" / "a.parquet").write_bytes(b"facts" * 100)
    (tmp_path / "whole" / "deeper" / "b c.json").write_bytes(b"{}")
    (tmp_path / "whole" / ".lock").touch()
    write_checksums(tmp_path / "whole")
    return tmp_path / "whole"


def flip(path: Path, bit: int) -> None:
    content = bytearray(path.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)


def check_both(folder: Path) -> None:
    """As timesteps are checked, and as snapshots are."""
    check_folder(folder, fix="")
    checked(folder / "a.parquet", fix="")


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files that were read to be checked, in a process that has checked none yet."""
    read: list[str] = []
    sha256_of = checksums.sha256_of

    def noted(path: Path) -> str:
        read.append(path.name)
        return sha256_of(path)

    monkeypatch.setattr(checksums, "sha256_of", noted)
    monkeypatch.setattr(checksums, "_checked", {})
    return read


def test_the_systems_own_tool_reads_the_list(folder: Path) -> None:
    assert set(read_checksums(folder) or {}) == {"a.parquet", "deeper/b c.json"}
    subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=folder, check=True, capture_output=True)


@pytest.mark.parametrize("bit", [0, 1999, 3999])
def test_a_flipped_bit_is_found_wherever_it_is(folder: Path, bit: int) -> None:
    path = folder / "a.parquet"
    assert checked(path, fix="Load it again.") == path
    flip(path, bit)
    with pytest.raises(DamagedFileError, match=r"a.parquet is damaged: .* by its checksum. Load it again\."):
        checked(path, fix="Load it again.")
    assert [fault.path for fault in find_faults(folder, read_checksums(folder) or {})] == [path]


@pytest.mark.slow
def test_no_flip_in_the_list_itself_passes_in_silence(folder: Path) -> None:
    listed = (folder / "SHA256SUMS").read_bytes()
    for bit in range(8 * len(listed)):
        flip(folder / "SHA256SUMS", bit)
        with pytest.raises(DamagedFileError):
            check_both(folder)
        (folder / "SHA256SUMS").write_bytes(listed)


def test_a_missing_file_is_named_and_a_folder_without_checksums_is_read(folder: Path) -> None:
    (folder / "a.parquet").unlink()
    with pytest.raises(DamagedFileError, match=r"a.parquet is damaged: it is missing"):
        check_folder(folder, fix="")
    (folder / "SHA256SUMS").unlink()
    check_folder(folder, fix="")
    assert read_checksums(folder) is None


def test_a_file_is_read_once_in_a_process_and_again_when_it_changed(folder: Path, hashed: list[str]) -> None:
    for _ in range(3):
        checked(folder / "a.parquet", fix="")
    assert hashed == ["a.parquet"]
    os.utime(folder / "a.parquet", ns=(0, 0))
    checked(folder / "a.parquet", fix="")
    assert hashed == ["a.parquet"] * 2


def test_a_list_is_parsed_once_until_it_changes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[Path] = []

    def noted(folder: Path) -> dict[str, str] | None:
        parsed.append(folder)
        return read_checksums(folder)

    monkeypatch.setattr(checksums, "read_checksums", noted)
    for _ in range(3):
        checked(folder / "a.parquet", fix="")
    assert parsed == [folder]
    (folder / "a.parquet").write_bytes(b"other facts")
    write_checksums(folder)
    checked(folder / "a.parquet", fix="")
    assert parsed == [folder] * 2


def test_a_large_file_is_not_read_again_by_the_next_process_unless_it_changed(
    folder: Path, hashed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checksums, "LARGE", 100)
    path, cache = folder / "a.parquet", folder.parent / "verified.json"
    for _ in range(2):
        checked(path, fix="", cache=cache)
        checksums._checked.clear()  # as a new process begins
    assert hashed == ["a.parquet"]
    flip(path, 7)
    with pytest.raises(DamagedFileError):
        checked(path, fix="", cache=cache)
    flip(path, 7)
    cache.write_bytes(b'{"half')
    checked(path, fix="", cache=cache)
    assert len(hashed) == 3


def test_the_cache_of_a_home_that_cannot_be_written_is_left_out(
    folder: Path, hashed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checksums, "LARGE", 100)
    checked(folder / "a.parquet", fix="", cache=folder / "nowhere" / "verified.json")
    assert hashed == ["a.parquet"]
