"""Dump files as blocks of whole lines, whatever their compression; what is broken is named as such."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import zstandard

from kgedit.errors import SourceError

BLOCK_BYTES = 16 << 20
"""Size of a block of lines. Part of a load's identity: a resumed load must cut in the same places."""

_MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\x28\xb5\x2f\xfd": "zstd"}
_SUFFIXES = {".gz": "gzip", ".bz2": "bzip2", ".zst": "zstd"}


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


@dataclass
class Source:
    """A dump file that is read once, from its beginning.

    Attributes:
        path: The file.
        size: Its size on disk in bytes.
        position: Bytes of it read so far.
        sha256: Hash of it; valid once it has been read to its end.
    """

    path: Path
    size: int = field(init=False)
    _through: _Hashing = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not self.path.is_file():
            raise SourceError(
                f"There is no file {self.path}. Give the path of a Wikidata dump (.json, .gz, .bz2, .zst)."
            )
        self.size = self.path.stat().st_size

    @property
    def position(self) -> int:
        return self._through.position

    @property
    def sha256(self) -> str:
        return self._through.digest.hexdigest()

    def blocks(self) -> Iterator[bytes]:
        """Blocks of whole lines, always cut in the same places.

        Raises:
            SourceError: if the file is empty, truncated, or not what its name says.
        """
        compression = self._compression()
        with self.path.open("rb") as raw:
            self._through = _Hashing(raw)
            stream = _decompressed(io.BufferedReader(self._through, 1 << 20), compression)
            rest, last = b"", b""
            try:
                while data := stream.read(BLOCK_BYTES):
                    rest += data
                    cut = rest.rfind(b"\n") + 1
                    if cut:
                        last = rest[:cut]
                        yield last
                        rest = rest[cut:]
                if rest:
                    last = rest
                    yield rest
                while self._through.readinto(bytearray(1 << 20)):
                    pass
            except (EOFError, OSError, zlib.error, zstandard.ZstdError) as error:
                raise SourceError(
                    f"{self.path} is truncated or damaged after {self._through.position:,} of {self.size:,} bytes "
                    f"({error}). Download it again and compare its size and checksum with the publisher's."
                ) from error
            if not last.strip():
                raise SourceError(f"{self.path} holds nothing. Download it again.")
        if self._begins_an_array() and not last.rstrip().endswith(b"]"):
            raise SourceError(
                f"{self.path} begins a JSON array and does not end it: the dump is truncated. Download it again."
            )

    def _begins_an_array(self) -> bool:
        with self.path.open("rb") as raw:
            return bool(_decompressed(raw, self._compression()).read(1) == b"[")

    def _compression(self) -> str:
        with self.path.open("rb") as file:
            head = file.read(512)
        found = next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), "none")
        named = _SUFFIXES.get(self.path.suffix, "none")
        if head.lstrip()[:1] == b"<":
            raise SourceError(
                f"{self.path} is an HTML or XML page, not a JSON dump: a server probably answered with an error page. "
                "Look at it, then download the dump again."
            )
        if found != named:
            raise SourceError(f"{self.path} is named as {named} but holds {found}. Rename it or download it again.")
        return found


def _decompressed(raw: Any, compression: str) -> Any:
    if compression == "gzip":
        return gzip.GzipFile(fileobj=raw)
    if compression == "bzip2":
        return bz2.BZ2File(raw)
    if compression == "zstd":
        return io.BufferedReader(zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True))
    return raw
