"""Turns file system errors under a home into messages with instructions."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kgedit.errors import GraphError

CANNOT_WRITE = (errno.EROFS, errno.EACCES, errno.EPERM)
"""Error codes for a folder that is read-only or another user's."""

_ANOTHER_SERVER = "or set KGEDIT_GRAPH_URI, KGEDIT_GRAPH_USER and KGEDIT_GRAPH_PASSWORD to a server that runs"


@contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Turn file system errors inside the block into GraphErrors.

    Args:
        folder: The server's folder, for the message.

    Raises:
        GraphError: in place of every OSError.
    """
    try:
        yield
    except OSError as error:
        raise GraphError(about_disk(error, folder)) from error


def about_disk(error: OSError, folder: Path) -> str:
    """Message about an error in the server's folder, with an instruction."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return about_full_disk(folder)
    if error.errno == errno.ENOENT and not os.path.lexists(folder):
        return (
            f"The folder {folder} cannot be created: there is no {error.filename}. Set KGEDIT_HOME to another folder."
        )
    if error.errno in (errno.ENOTDIR, errno.EEXIST):
        file = next((path for path in (folder, *folder.parents) if path.is_file()), folder)
        return f"{file} is a file where a folder is needed. Set KGEDIT_HOME to a folder."
    if error.errno in CANNOT_WRITE:
        return _about_permission(error, folder)
    return f"The Neo4j in {folder} cannot be used: {error}"


def about_full_disk(folder: Path) -> str:
    """Message for a full disk."""
    return f"The disk of {folder} is full. Make room, or set KGEDIT_HOME to a folder on another disk."


def _about_permission(error: OSError, folder: Path) -> str:
    if error.errno == errno.EROFS:
        return (
            f"The folder {folder} is read-only: its Neo4j can be queried here while it runs, but not started or "
            f"stopped. Start it where the folder can be written, set KGEDIT_HOME to one that you can write to, "
            f"{_ANOTHER_SERVER}."
        )
    if not os.path.lexists(folder):
        return (
            f"The folder {folder} cannot be created or seen: it is in a folder of {_owner(folder)}. Set KGEDIT_HOME "
            f"to a folder of your own, {_ANOTHER_SERVER}."
        )
    return (
        f"You may not use the Neo4j in {folder}: {error.filename or folder} belongs to {_owner(folder)}, and so "
        f"does its password. Set KGEDIT_HOME to a folder of your own, {_ANOTHER_SERVER}."
    )


def _owner(folder: Path) -> str:
    """Owner of the nearest folder that can be inspected."""
    for path in (folder, *folder.parents):
        try:
            return _user_name(path.stat().st_uid)
        except OSError:
            continue
    return "another user"


def _user_name(uid: int) -> str:
    if uid == os.getuid():
        return "you, without the permissions that are needed"
    try:
        import pwd

        return f"user {pwd.getpwuid(uid).pw_name}"
    except (ImportError, KeyError):
        return f"user {uid}"
