"""Disk cache of replies, one small file each, named by the hash of the request: a reply is paid for once.

A file is complete or absent, so that a kill at any moment loses no stored reply, and processes can share a folder.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from kgedit.errors import ModelError
from kgedit.files import replace_file
from kgedit.llm.remote.requests import ChatReply


class ReplyCache:
    """Replies by key.

    Args:
        folder: Folder of the cache, created when the first reply is stored.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get(self, key: str) -> ChatReply | None:
        """Return the stored reply, or None.

        Raises:
            ModelError: if the file does not contain a reply.
        """
        path = self._path(key)
        try:
            return msgspec.json.decode(path.read_bytes(), type=ChatReply)
        except FileNotFoundError:
            return None
        except msgspec.DecodeError as error:
            raise ModelError(f"{path} does not contain a model's reply: {error}. Delete it to ask again.") from error

    def add(self, key: str, reply: ChatReply) -> None:
        """Store a reply durably: once this returns, a kill cannot lose it."""
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, msgspec.json.encode(reply) + b"\n")

    def _path(self, key: str) -> Path:
        # 256 subfolders, so that none contains hundreds of thousands of files.
        return self.folder / key[:2] / f"{key}.json"
