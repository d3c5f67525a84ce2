"""Dump files as blocks of whole lines, whatever their compression; what is broken is named as such."""

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
from kgedit.store.lines import BYTE_ORDER_MARK

BLOCK_BYTES = 64 << 20
"""Size of a block of lines. Part of a load's identity: a resumed load must cut in the same places."""

LONGEST_LINE = 1 << 28
"""No entity is nearly as long, and a whole dump on one line must fit in memory."""

_MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\x28\xb5\x2f\xfd": "zstd"}
_SUFFIXES = {".gz": "gzip", ".bz2": "bzip2", ".zst": "zstd"}
_PLAIN = "uncompressed"


class _Hashing(io.RawIOBase):
    """Passes a file through, hashing it and counting where it is."""

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
    """Decompresses zstd frames. The package's own reader takes a truncated frame for the end of the file."""

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
    """A dump file that is read from its beginning.

    Attributes:
        path: The file.
        block_bytes: About how long its blocks are, uncompressed.
        size: Its size on disk in bytes.
        position: Bytes of it read so far.
        sha256: Hash of what was read; of the file once its blocks are exhausted.
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
            raise SourceError(
                f"There is no file {self.path}. Give the path of a Wikidata dump (.json, .gz, .bz2, .zst)."
            )

    def blocks(self) -> Iterator[bytes]:
        """Blocks of whole lines, always cut in the same places.

        Raises:
            SourceError: if the file is empty, truncated, or not what its name says.
        """
        compression = self._compression()
        first, end = b"", b""
        with self._opened() as raw:
            through = _Hashing(raw)
            stream = _decompressed(io.BufferedReader(through, 1 << 20), compression)
            for block in self._whole_lines(stream):
                self.position = through.position
                first = first or _without_mark(block).lstrip()[:1]
                end = (end + block[-64:]).rstrip()[-64:]
                yield block
            while self._read(through):
                pass
            self.position, self.sha256 = through.position, through.digest.hexdigest()
        if not end:
            raise SourceError(f"{self.path} holds nothing. Download it again.")
        if first == b"[" and not end.endswith(b"]"):
            raise SourceError(
                f"{self.path} begins a JSON array and does not end it: the dump is truncated. Download it again."
            )

    def _whole_lines(self, stream: Any) -> Iterator[bytes]:
        rest = b""
        while data := self._read(stream):
            cut = data.rfind(b"\n") + 1
            if cut:
                yield rest + data[:cut]
                rest = data[cut:]
            elif len(rest) + len(data) > LONGEST_LINE:
                raise SourceError(
                    f"{self.path} has a line longer than {LONGEST_LINE:,} bytes. kgedit reads dumps with one entity "
                    "a line, as Wikidata publishes them. Split an array into lines: jq -c '.[]' OLD.json > NEW.json"
                )
            else:
                rest += data
        if rest:
            yield rest

    def _read(self, stream: Any) -> bytes:
        try:
            return bytes(stream.read(self.block_bytes))
        except (EOFError, OSError, zlib.error, zstandard.ZstdError) as error:
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

    def _unopened(self, error: OSError) -> SourceError:
        return SourceError(f"{self.path} cannot be opened: {error.strerror}. Make it readable.")

    def _compression(self) -> str:
        """How the file is compressed, if its name says the same."""
        with self._opened() as file:
            head = file.read(512)
        if not head:
            raise SourceError(f"{self.path} is empty. Download it again.")
        found = next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), _PLAIN)
        named = _SUFFIXES.get(self.path.suffix.lower(), _PLAIN)
        if _without_mark(head).lstrip()[:1] == b"<":
            raise SourceError(
                f"{self.path} is an HTML or XML page, not a JSON dump: a server probably answered with an error page. "
                "Look at it, then download the dump again."
            )
        if found != named:
            raise SourceError(
                f"The name of {self.path} says {named}, its content is {found}. Rename it or download it again."
            )
        return found


def _without_mark(text: bytes) -> bytes:
    return text.removeprefix(BYTE_ORDER_MARK)


def _decompressed(raw: Any, compression: str) -> Any:
    if compression == "gzip":
        return gzip.GzipFile(fileobj=raw)
    if compression == "bzip2":
        return bz2.BZ2File(raw)
    if compression == "zstd":
        return io.BufferedReader(_Zstandard(raw), 1 << 17)
    return raw
