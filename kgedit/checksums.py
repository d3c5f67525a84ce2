"""Checksums of files that kgedit wrote, so that a damaged one is refused instead of read.

A folder's ``SHA256SUMS`` lists its files, in the form that ``sha256sum --check`` reads. A folder without one was
written by an earlier version and is read unchecked. A file is checked before its first use in a process. For files of
LARGE bytes or more the result is kept for later processes, by size, time of change and inode; damage that leaves all
three alone is found by ``kgedit verify``, which always reads everything.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kgedit.errors import DamagedFileError
from kgedit.files import replace_file

SUMS = "SHA256SUMS"

LARGE = 64 * 2**20
"""Hashing fewer bytes takes less than a tenth of a second: nothing is kept for them."""

_LINE = re.compile(r"^([0-9a-f]{64})  ([^\x00-\x1f]+)$", re.MULTILINE)

_Stamp = tuple[int, int, int]  # size, time of change in ns, inode

_checked: dict[tuple[Path, str], _Stamp] = {}
"""What this process has checked: file and expected hash -> its stamp then."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A file that is not what kgedit wrote.

    Attributes:
        path: The file.
        reason: What is wrong with it.
    """

    path: Path
    reason: str


def sha256_of(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_checksums(folder: Path, *, names: Collection[str] | None = None) -> Path:
    """Write the checksums of a folder's files, as the last step before it is put in place.

    Args:
        folder: The folder.
        names: Files to list, those that exist; None for all except hidden ones.
    """
    lines = [f"{sha256_of(path)}  {name}\n" for name, path in _files(folder) if names is None or name in names]
    return replace_file(folder / SUMS, "".join(lines), durable=False)


def read_checksums(folder: Path) -> dict[str, str] | None:
    """Path within the folder -> SHA-256; None if the folder has no checksums.

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


_ABOUT_LIST = "Check the disk. If the folder is whole, record its checksums again: kgedit verify --record"


def checked(path: Path, *, fix: str, cache: Path | None = None) -> Path:
    """A file after its checksum, if its folder has any.

    Args:
        path: The file.
        fix: What to do if it is damaged, a sentence for the message.
        cache: JSON file in which results for large files are kept for later processes.

    Raises:
        DamagedFileError: if the file is not what kgedit wrote.
    """
    listed = read_checksums(path.parent)
    if listed is not None:
        _check(path, listed.get(path.name), fix, cache)
    return path


def check_folder(folder: Path, *, fix: str, also: Mapping[str, str] | None = None) -> None:
    """Check all files of a folder.

    Args:
        folder: The folder.
        fix: What to do if a file is damaged, a sentence for the message.
        also: Further checksums, by path within the folder, that were recorded elsewhere.

    Raises:
        DamagedFileError: for the first file that is missing or not what kgedit wrote.
    """
    for listed in (read_checksums(folder), also):
        for name, expected in (listed or {}).items():
            _check(folder / name, expected, fix, None)


def find_faults(folder: Path, expected: Mapping[str, str]) -> Iterator[Fault]:
    """Read all listed files, whatever was checked before, and compare.

    Args:
        folder: The folder.
        expected: Path within the folder -> SHA-256.
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
    """Turn what decoders raise for damaged content into one error that names the file.

    Only for reading a file that kgedit wrote: content of another shape is damage there.

    Args:
        path: The file.
        fix: What to do, a sentence for the message.

    Raises:
        DamagedFileError: in place of a decoder's error.
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
        found = path.stat()
    except FileNotFoundError as error:
        raise DamagedFileError(path, _MISSING, fix) from error
    stamp = (found.st_size, found.st_mtime_ns, found.st_ino)
    key = (path.absolute(), expected)
    if _checked.get(key) == stamp:
        return
    kept = cache if found.st_size >= LARGE else None
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
    # Of two processes at once one entry may be lost, and is checked again; a home that is read-only keeps none.
    with contextlib.suppress(OSError):
        replace_file(
            path, json.dumps(_read_cache(path) | {name: entry}, indent=1, sort_keys=True) + "\n", durable=False
        )


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if path.is_file() and name.as_posix() != SUMS and not any(part.startswith(".") for part in name.parts):
            yield name.as_posix(), path
