"""Reads dump files of any compression as blocks of whole entities, and reports broken files.

gzip is decompressed by `isal` or, on many cores, by `rapidgzip`, bzip2 by `rapidgzip`, if they are installed, and zstd
frame by frame. Whatever reads a file, a truncated or damaged one raises one of `BROKEN` before the end is reported.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import zstandard

from kgedit.errors import SourceError
from kgedit.machine import usable_cores
from kgedit.store.framing import JSON_LINES, Framing, without_mark

MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\x28\xb5\x2f\xfd": "zstd"}
SUFFIXES = {".gz": "gzip", ".bz2": "bzip2", ".zst": "zstd"}
PLAIN = "uncompressed"


def _errors_of_isal() -> tuple[type[Exception], ...]:
    try:
        from isal import igzip_lib
    except ImportError:
        return ()
    error: Any = igzip_lib.IsalError  # its stub declares an instance
    return (error,)


BROKEN: tuple[type[Exception], ...] = (EOFError, OSError, zlib.error, zstandard.ZstdError, *_errors_of_isal())
"""Errors of a file that is truncated or damaged."""

_GZIP_THREADS = 8
"""Threads that decompress gzip on a machine of as many cores or more. Decoding from the middle takes several times the
processor time that `isal` takes from the beginning, and each thread holds some 50 MB. One thread of `isal` decompresses
as much as five or more parsers take."""


class HashingFile(io.RawIOBase):
    """Passes a file through, hashing it and counting the bytes read."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw: Any = raw
        self.digest = hashlib.sha256()
        self.position = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        size: int = self._raw.readinto(buffer)
        self.digest.update(memoryview(buffer)[:size])
        self.position += size
        return size

    def read_to(self, position: int | None) -> None:
        """Read and discard up to a position; None means to the end of the file."""
        buffer = bytearray(1 << 20)
        while position is None or self.position < position:
            wanted = len(buffer) if position is None else min(len(buffer), position - self.position)
            if not self.readinto(memoryview(buffer)[:wanted]):
                return


def decompressed(raw: Any, compression: str) -> Any:
    """Stream of the content of a stream, read in this thread."""
    if compression == "gzip":
        return _gzip(raw)
    if compression == "bzip2":
        return bz2.BZ2File(raw)
    if compression == "zstd":
        return _Zstandard(raw)
    return raw


def _gzip(raw: Any) -> gzip.GzipFile:
    reader = gzip.GzipFile
    with suppress(ImportError):
        from isal.igzip import IGzipFile

        reader = IGzipFile
    return reader(fileobj=raw)


def hashed_stream(path: Path, through: HashingFile, compression: str) -> Any:
    """Stream of the content of a file, which reads at least as much of the file through a `HashingFile`."""
    if compression in ("gzip", "bzip2") and (reader := _open_in_parallel(path, compression)) is not None:
        return _Parallel(reader, through, path, compression)
    return decompressed(io.BufferedReader(through, 1 << 20), compression)


def _open_in_parallel(path: Path, compression: str) -> Any:
    """Reader of `rapidgzip`; None if it is not installed or would gain nothing."""
    try:
        import rapidgzip
    except ImportError:
        return None
    cores = usable_cores()
    if compression == "bzip2":
        return rapidgzip.IndexedBzip2File(str(path), parallelization=cores) if cores > 1 else None
    # rapidgzip takes zeros after the last member for a damaged one.
    if cores < _GZIP_THREADS or _ends_in_zeros(path):
        return None
    return rapidgzip.RapidgzipFile(str(path), parallelization=_GZIP_THREADS)


def _ends_in_zeros(path: Path) -> bool:
    """Whether more bytes at the end are zero than those of an empty gzip member, which has 9."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 10))
        return not any(file.read())


class _Parallel:
    """A reader that opens the file itself. The hash follows it, by reading the file a second time from the cache."""

    def __init__(self, reader: Any, through: HashingFile, path: Path, compression: str) -> None:
        self._reader = reader
        self._through = through
        self._path = path
        self._size = path.stat().st_size
        self._compression = compression

    def readinto(self, buffer: memoryview) -> int:
        try:
            size: int = self._reader.readinto(buffer)
            if not size:
                self._check_end()
            # Bits of the compressed file up to the current chunk.
            self._through.read_to(min(self._reader.tell_compressed() // 8, self._size))
        except (RuntimeError, ValueError) as error:
            raise OSError(str(error)) from error
        return size

    def close(self) -> None:
        self._reader.close()

    def _check_end(self) -> None:
        # rapidgzip takes a deflate block that the file does not complete for the end of the data.
        end = -(-max(self._reader.block_offsets(), default=0) // 8)
        if end < self._size and not (self._compression == "bzip2" and self._is_padding(end)):
            raise EOFError("the compressed data does not reach its end marker")

    def _is_padding(self, end: int) -> bool:
        """Whether what follows the last bzip2 stream, which was complete, is not the beginning of another one."""
        with self._path.open("rb") as file:
            file.seek(end)
            return not b"BZh".startswith(file.read(3))


class _Zstandard(io.RawIOBase):
    """Decompresses zstd frames. The package's own reader treats a truncated frame as the end of the file."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw
        self._frame: Any = None
        self._compressed = b""
        self._ready = memoryview(b"")

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
            self._ready = memoryview(self._frame.decompress(self._compressed))
            self._compressed = self._frame.unused_data
            if self._frame.eof:
                self._frame = None
        length = min(len(buffer), len(self._ready))
        buffer[:length] = self._ready[:length]
        self._ready = self._ready[length:]
        return length


BLOCK_BYTES = 8 << 20
"""Size of a block of entities: it stays in a processor's cache while it is copied and cut, and a worker takes about ten
times as much memory to parse it. Part of a load's identity, because a resumed load must cut in the same places."""

_PIECE = 1 << 20
"""Some streams read into a piece of memory first, which stays small."""

_EXPANSION = {"gzip": 11, "bzip2": 16, "zstd": 12, PLAIN: 1}
"""Bytes of JSON per byte of a full dump in each compression."""

_PAGES = (b"<!doctype html", b"<html", b"<head", b"<body")


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

    @property
    def text_bytes(self) -> int:
        """Size of the decompressed file, estimated from its compression.

        Raises:
            SourceError: if the file cannot be read, or its compression does not match its name.
        """
        return self.size * _EXPANSION[self.compression()]

    def blocks(self, framing: Framing = JSON_LINES) -> Iterator[bytes]:
        """Blocks of whole entities, always cut at the same positions.

        Raises:
            SourceError: if the file is empty, truncated, or its compression does not match its name.
        """
        compression = self.compression()
        empty = True
        with self._opened() as raw:
            through = HashingFile(raw)
            with closing(hashed_stream(self.path, through, compression)) as stream:
                for block in framing.blocks(self._chunks(stream), self.path):
                    self.position = through.position
                    empty = empty and not block.strip()
                    yield block
                with self._faults_reported():
                    through.read_to(None)
            self.position, self.sha256 = through.position, through.digest.hexdigest()
        if empty:
            raise SourceError(f"{self.path} contains nothing. Download it again.")

    def head(self, size: int) -> bytes:
        """The first `size` bytes, decompressed; fewer if the file is shorter or truncated.

        Raises:
            SourceError: if the file cannot be opened, is empty, or its compression does not match its name.
        """
        compression = self.compression()
        with self._opened() as raw:
            stream = decompressed(io.BufferedReader(raw, 1 << 20), compression)
            read = bytearray()
            # Reading the whole file reports a fault and its position.
            with suppress(*BROKEN):
                while len(read) < size and (more := stream.read(min(size - len(read), 1 << 16))):
                    read += more
            return bytes(read)

    def _chunks(self, stream: Any) -> Iterator[bytes | bytearray]:
        # One buffer for all chunks: fresh memory of this size costs more than reading into it.
        buffer = bytearray(self.block_bytes)
        while True:
            with self._faults_reported():
                filled = _fill(stream, memoryview(buffer))
            if filled == len(buffer):
                yield buffer
            else:
                if filled:
                    yield buffer[:filled]
                return

    @contextmanager
    def _faults_reported(self) -> Iterator[None]:
        try:
            yield
        except BROKEN as error:
            raise SourceError(
                f"{self.path} is truncated or damaged in the block after {self.position:,} of {self.size:,} bytes "
                f"({error}). Download it again and compare its size and checksum with the publisher's."
            ) from error

    @contextmanager
    def _opened(self) -> Iterator[IO[bytes]]:
        try:
            raw = self.path.open("rb", buffering=0)
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

    def compression(self) -> str:
        """Compression of the file; its name and its content must agree."""
        with self._opened() as file:
            head = file.read(512)
        if not head:
            raise SourceError(f"{self.path} is empty. Download it again.")
        found = next((kind for magic, kind in MAGIC.items() if head.startswith(magic)), PLAIN)
        named = SUFFIXES.get(self.path.suffix.lower(), PLAIN)
        if is_page(head):
            raise self.page()
        if found != named:
            raise SourceError(
                f"The name of {self.path} says {named}, its content is {found}. Rename it or download it again."
            )
        return found


def _fill(stream: Any, buffer: memoryview) -> int:
    """Read until the buffer is full or the stream ends; returns the number of bytes read."""
    filled = 0
    while filled < len(buffer) and (size := stream.readinto(buffer[filled : filled + _PIECE])):
        filled += size
    return filled


def is_page(head: bytes) -> bool:
    """Whether a text begins like an HTML page, or like XML that is not a dump of pages."""
    text = without_mark(head).lstrip()[:2000].lower()
    if text.startswith(b"<?xml"):
        return b"<mediawiki" not in text and b"<rdf:rdf" not in text and b"?>" in text
    return text.startswith(_PAGES)
