"""Reads dump files of any compression as blocks of whole entities, and reports broken files."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import zstandard

from kgedit.errors import SourceError
from kgedit.store.framing import JSON_LINES, Framing, without_mark

BLOCK_BYTES = 32 << 20
"""Size of a block of entities; a worker takes about ten times as much memory to parse it. Part of a load's identity: a
resumed load must cut in the same places."""

_PAGES = (b"<!doctype html", b"<html", b"<head", b"<body")

_MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\x28\xb5\x2f\xfd": "zstd"}
_SUFFIXES = {".gz": "gzip", ".bz2": "bzip2", ".zst": "zstd"}
_PLAIN = "uncompressed"
_BROKEN = (EOFError, OSError, zlib.error, zstandard.ZstdError)


class _Hashing(io.RawIOBase):
    """Passes a file through, hashing it and counting the bytes read."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw = raw
        self.digest = hashlib.sha256()
        self.position = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._raw.read(len(buffer))
        buffer[: len(data)] = data
        self.digest.update(data)
        self.position += len(data)
        return len(data)


class _Zstandard(io.RawIOBase):
    """Decompresses zstd frames. The package's own reader treats a truncated frame as the end of the file."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw
        self._frame: Any = None
        self._compressed = b""
        self._ready = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            self._compressed = self._compressed or self._raw.read(1 << 17)
            if not self._compressed:
                if self._frame is not None:
                    raise EOFError("the last zstd frame is not complete")
                return 0
            self._frame = self._frame or zstandard.ZstdDecompressor().decompressobj()
            self._ready = self._frame.decompress(self._compressed)
            self._compressed = self._frame.unused_data
            if self._frame.eof:
                self._frame = None
        length = min(len(buffer), len(self._ready))
        buffer[:length] = self._ready[:length]
        self._ready = self._ready[length:]
        return length


@dataclass
class DumpFile:
    """A dump file, read from its beginning.

    Attributes:
        path: Path of the file.
        block_bytes: Approximate size of its blocks, uncompressed.
        size: Size on disk in bytes.
        position: Number of bytes read so far.
        sha256: Hash of the bytes read so far; that of the whole file once its blocks are exhausted.
    """

    path: Path
    block_bytes: int = BLOCK_BYTES
    size: int = field(init=False)
    position: int = field(init=False, default=0)
    sha256: str = field(init=False, default="")

    def __post_init__(self) -> None:
        try:
            is_file, self.size = self.path.is_file(), self.path.stat().st_size
        except (FileNotFoundError, NotADirectoryError):
            is_file = False
        except OSError as error:
            raise self._unopened(error) from error
        if not is_file:
            what = f"{self.path} is not a file" if self.path.exists() else f"There is no file {self.path}"
            raise SourceError(f"{what}. Give the path of a Wikidata dump (plain, .gz, .bz2, .zst).")

    def blocks(self, framing: Framing = JSON_LINES) -> Iterator[bytes]:
        """Blocks of whole entities, always cut at the same positions.

        Raises:
            SourceError: if the file is empty, truncated, or its compression does not match its name.
        """
        compression = self._compression()
        empty = True
        with self._opened() as raw:
            through = _Hashing(raw)
            stream = _decompressed(io.BufferedReader(through, 1 << 20), compression)
            for block in framing.blocks(self._chunks(stream), self.path):
                self.position = through.position
                empty = empty and not block.strip()
                yield block
            while self._read(through):
                pass
            self.position, self.sha256 = through.position, through.digest.hexdigest()
        if empty:
            raise SourceError(f"{self.path} contains nothing. Download it again.")

    def head(self, size: int) -> bytes:
        """The first `size` bytes, decompressed; fewer if the file is shorter or truncated.

        Raises:
            SourceError: if the file cannot be opened, is empty, or its compression does not match its name.
        """
        compression = self._compression()
        with self._opened() as raw:
            stream = _decompressed(io.BufferedReader(raw, 1 << 20), compression)
            read = b""
            try:
                while len(read) < size and (more := stream.read(min(size - len(read), 1 << 16))):
                    read += more
            except _BROKEN:
                # Reading the whole file reports the fault and its position.
                return read
            return read

    def _chunks(self, stream: Any) -> Iterator[bytes]:
        while data := self._read(stream):
            yield data

    def _read(self, stream: Any) -> bytes:
        try:
            return bytes(stream.read(self.block_bytes))
        except _BROKEN as error:
            raise SourceError(
                f"{self.path} is truncated or damaged in the block after {self.position:,} of {self.size:,} bytes "
                f"({error}). Download it again and compare its size and checksum with the publisher's."
            ) from error

    @contextmanager
    def _opened(self) -> Iterator[IO[bytes]]:
        try:
            raw = self.path.open("rb")
        except OSError as error:
            raise self._unopened(error) from error
        with raw:
            yield raw

    def page(self) -> SourceError:
        """Error for a file that is a page of a web server."""
        return SourceError(
            f"{self.path} is an HTML or XML page, not a dump: a server probably answered with an error page. "
            "Look at it, then download the dump again."
        )

    def _unopened(self, error: OSError) -> SourceError:
        return SourceError(f"{self.path} cannot be opened: {error.strerror}. Make it readable.")

    def _compression(self) -> str:
        """Compression of the file; its name and its content must agree."""
        with self._opened() as file:
            head = file.read(512)
        if not head:
            raise SourceError(f"{self.path} is empty. Download it again.")
        found = next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), _PLAIN)
        named = _SUFFIXES.get(self.path.suffix.lower(), _PLAIN)
        if is_page(head):
            raise self.page()
        if found != named:
            raise SourceError(
                f"The name of {self.path} says {named}, its content is {found}. Rename it or download it again."
            )
        return found


def is_page(head: bytes) -> bool:
    """Whether a text begins like an HTML page, or like XML that is not a dump of pages."""
    text = without_mark(head).lstrip()[:2000].lower()
    if text.startswith(b"<?xml"):
        return b"<mediawiki" not in text and b"<rdf:rdf" not in text and b"?>" in text
    return text.startswith(_PAGES)


def _decompressed(raw: Any, compression: str) -> Any:
    if compression == "gzip":
        return gzip.GzipFile(fileobj=raw)
    if compression == "bzip2":
        return bz2.BZ2File(raw)
    if compression == "zstd":
        return io.BufferedReader(_Zstandard(raw), 1 << 17)
    return raw
