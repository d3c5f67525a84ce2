"""Reads dump files of any compression as blocks of whole entities, and reports broken files."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from kgedit.errors import SourceError
from kgedit.store.compression import BROKEN, MAGIC, PLAIN, SUFFIXES, HashingFile, decompressed, hashed_stream
from kgedit.store.framing import JSON_LINES, Framing, without_mark

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
            read = b""
            try:
                while len(read) < size and (more := stream.read(min(size - len(read), 1 << 16))):
                    read += more
            except BROKEN:
                # Reading the whole file reports the fault and its position.
                return read
            return read

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
