"""Decompresses dump files: gzip and bzip2 on several cores if `rapidgzip` is installed, zstd frame by frame.

Whatever reads a file, a truncated or damaged one raises one of `BROKEN` before the end is reported.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import zlib
from pathlib import Path
from typing import IO, Any

import zstandard

from kgedit.machine import usable_cores

MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\x28\xb5\x2f\xfd": "zstd"}
SUFFIXES = {".gz": "gzip", ".bz2": "bzip2", ".zst": "zstd"}
PLAIN = "uncompressed"
BROKEN = (EOFError, OSError, zlib.error, zstandard.ZstdError)
"""Errors of a file that is truncated or damaged."""

_FEWEST_GZIP_THREADS, _MOST_GZIP_THREADS = 4, 8
"""Decoding gzip from the middle takes twice the processor time, so that few threads gain nothing. Eight decompress more
than the parsers of a machine take, and each holds some 50 MB."""


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
        return gzip.GzipFile(fileobj=raw)
    if compression == "bzip2":
        return bz2.BZ2File(raw)
    if compression == "zstd":
        return _Zstandard(raw)
    return raw


def hashed_stream(path: Path, through: HashingFile, compression: str) -> Any:
    """Stream of the content of a file, which reads at least as much of the file through a `HashingFile`."""
    if compression in ("gzip", "bzip2") and (reader := _open_in_parallel(path, compression)) is not None:
        return _Parallel(reader, through, path.stat().st_size)
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
    if cores < _FEWEST_GZIP_THREADS:
        return None
    return rapidgzip.RapidgzipFile(str(path), parallelization=min(cores, _MOST_GZIP_THREADS))


class _Parallel:
    """A reader that opens the file itself. The hash follows it, by reading the file a second time from the cache."""

    def __init__(self, reader: Any, through: HashingFile, size: int) -> None:
        self._reader = reader
        self._through = through
        self._size = size

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
        if max(self._reader.block_offsets(), default=0) < 8 * self._size - 7:
            raise EOFError("the compressed data does not reach its end marker")


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
