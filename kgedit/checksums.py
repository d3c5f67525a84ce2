"""Checksums of files written by kgedit, so that damaged files are refused instead of read.

A folder's ``SHA256SUMS`` lists its files, in the format of ``sha256sum --check``. A folder without this list was
written by an earlier version and is read unchecked. A file is checked before its first use in a process. For files of
at least LARGE bytes the result is stored for later processes, keyed by size, time of change and inode. Damage that
changes none of the three is found by ``kgedit verify``, which always reads everything.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

from kgedit.errors import DamagedFileError
from kgedit.files import replace_file
from kgedit.machine import usable_cores

SUMS = "SHA256SUMS"

LARGE = 64 * 2**20
"""Minimum size of files whose results are stored; hashing fewer bytes takes less than a tenth of a second."""

_LINE = re.compile(r"^([0-9a-f]{64})  ([^\x00-\x1f]+)$", re.MULTILINE)

_Stamp = tuple[int, int, int]  # size, time of change in ns, inode

_checked: dict[tuple[Path, str], _Stamp] = {}
"""Checks of this process: (file, expected hash) -> stamp at the time of the check."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A file that differs from what kgedit wrote.

    Attributes:
        path: Path of the file.
        reason: Description of the fault.
    """

    path: Path
    reason: str


def sha256_of(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_checksums(folder: Path, *, names: Collection[str] | None = None) -> Path:
    """Write the checksums of a folder's files, as the last step before the folder is put in place.

    Args:
        folder: Folder of the files.
        names: Files to list, if they exist; None means all except hidden ones.
    """
    listed = [(name, path) for name, path in _files(folder) if names is None or name in names]
    with ThreadPoolExecutor(usable_cores()) as pool:  # hashing releases the interpreter's lock
        sums = pool.map(sha256_of, [path for _, path in listed])
        lines = [f"{found}  {name}\n" for found, (name, _) in zip(sums, listed, strict=True)]
    return replace_file(folder / SUMS, "".join(lines), durable=False)


def read_checksums(folder: Path) -> dict[str, str] | None:
    """Read the SHA-256 hashes of a folder's files by path within the folder; None if it has no checksums.

    Raises:
        DamagedFileError: if the list itself is damaged.
    """
    try:
        text = (folder / SUMS).read_bytes().decode()
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise DamagedFileError(folder / SUMS, "it is not text", _ABOUT_LIST) from error
    lines = _LINE.findall(text)
    if not lines or "".join(map("{}  {}\n".format, *zip(*lines, strict=True))) != text:
        raise DamagedFileError(folder / SUMS, "it is not a list of checksums", _ABOUT_LIST)
    return {name: sha256 for sha256, name in lines}


@lru_cache(maxsize=8)
def _list_at(folder: Path, _stamp: _Stamp) -> Mapping[str, str]:
    """Checksums of a folder, read again only if the list's stamp changes.

    A snapshot has three files per bucket, each checked when its bucket is read. Parsing a list of 4,096 buckets takes
    longer than checking most of them."""
    return MappingProxyType(read_checksums(folder) or {})


def _stamp_of(path: Path) -> _Stamp:
    found = path.stat()
    return found.st_size, found.st_mtime_ns, found.st_ino


_ABOUT_LIST = "Check the disk. If the folder is whole, record its checksums again: kgedit verify --record"


def checked(path: Path, *, fix: str, cache: Path | None = None) -> Path:
    """Return a path after verifying the file's checksum, if its folder has checksums.

    Args:
        path: Path of the file.
        fix: Instruction for a damaged file, as a sentence for the message.
        cache: JSON file that stores results for large files; None disables storing.

    Raises:
        DamagedFileError: if the file differs from what kgedit wrote.
    """
    check_files(path.parent, [path], fix=fix, cache=cache)
    return path


def check_files(folder: Path, paths: Iterable[Path], *, fix: str, cache: Path | None = None) -> None:
    """Verify the checksums of some files of a folder, if it has checksums.

    Args:
        folder: Folder of the files.
        paths: The files.
        fix: See `checked`.
        cache: See `checked`.

    Raises:
        DamagedFileError: for the first file that is missing or differs from what kgedit wrote.
    """
    try:
        listed = _list_at(folder.absolute(), _stamp_of(folder / SUMS))
    except FileNotFoundError:
        return
    for path in paths:
        _check(path, listed.get(path.name), fix, cache)


def check_folder(folder: Path, *, fix: str, also: Mapping[str, str] | None = None) -> None:
    """Verify all files of a folder.

    Args:
        folder: Folder to verify.
        fix: Instruction for a damaged file, as a sentence for the message.
        also: Further checksums that were recorded elsewhere, by path within the folder.

    Raises:
        DamagedFileError: for the first file that is missing or differs from what kgedit wrote.
    """
    for listed in (read_checksums(folder), also):
        for name, expected in (listed or {}).items():
            _check(folder / name, expected, fix, None)


def find_faults(folder: Path, expected: Mapping[str, str]) -> Iterator[Fault]:
    """Read all listed files, including those verified before, and yield those that differ.

    Args:
        folder: Folder of the files.
        expected: SHA-256 by path within the folder.
    """
    for name, sha256 in expected.items():
        path = folder / name
        try:
            if sha256_of(path) != sha256:
                yield Fault(path, _CHANGED)
        except FileNotFoundError:
            yield Fault(path, _MISSING)
        except OSError as error:
            yield Fault(path, f"it cannot be read: {error.strerror or error}")


_CHANGED = "its content is not what kgedit wrote, by its checksum"
_MISSING = "it is missing"


@contextmanager
def decoding(path: Path, *, fix: str) -> Iterator[None]:
    """Turn errors of decoders for damaged content into one error that names the file.

    Use it only to read files written by kgedit, in which content of another shape is damage.

    Args:
        path: Path of the file.
        fix: Instruction, as a sentence for the message.

    Raises:
        DamagedFileError: instead of the decoder's error.
    """
    try:
        yield
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, EOFError, MemoryError) as error:
        raise DamagedFileError(path, f"it cannot be decoded ({_first_line(error)})", fix) from error
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in _DECODERS:
            raise
        raise DamagedFileError(path, f"it cannot be decoded ({_first_line(error)})", fix) from error


_DECODERS = ("msgspec", "pyarrow", "safetensors", "safetensors_rust", "yaml")
"""Packages whose errors mean that content cannot be decoded."""


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).partition("\n")[0]


def _check(path: Path, expected: str | None, fix: str, cache: Path | None) -> None:
    if expected is None:
        raise DamagedFileError(path, f"{path.parent / SUMS} does not list it", fix)
    try:
        stamp = _stamp_of(path)
    except FileNotFoundError as error:
        raise DamagedFileError(path, _MISSING, fix) from error
    key = (path.absolute(), expected)
    if _checked.get(key) == stamp:
        return
    kept = cache if stamp[0] >= LARGE else None
    if kept is None or _read_cache(kept).get(str(key[0])) != [*stamp, expected]:
        if sha256_of(path) != expected:
            raise DamagedFileError(path, _CHANGED, fix)
        if kept is not None:
            _add_to_cache(kept, str(key[0]), [*stamp, expected])
    _checked[key] = stamp


def _read_cache(path: Path) -> dict[str, object]:
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _add_to_cache(path: Path, name: str, entry: list[int | str]) -> None:
    # With two concurrent processes one entry may be lost and is verified again; a read-only home stores none.
    with contextlib.suppress(OSError):
        replace_file(
            path, json.dumps(_read_cache(path) | {name: entry}, indent=1, sort_keys=True) + "\n", durable=False
        )


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if path.is_file() and name.as_posix() != SUMS and not any(part.startswith(".") for part in name.parts):
            yield name.as_posix(), path
