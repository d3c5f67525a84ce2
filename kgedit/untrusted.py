"""Checks for names and addresses from files, requests or environment variables.

A name from a file may become part of a path, and an address may become a link or be stored with a result. All code that
uses them in these ways calls a function of this module.
"""

from __future__ import annotations

import ipaddress
from urllib.parse import unquote, urlsplit

from kgedit.errors import KgeditError

_LONGEST_NAME = 255  # bytes: the limit of ext4, and no more than that of APFS and NTFS
_SEPARATORS = frozenset("/\\:")
"""Separators of folders and drives, on POSIX and Windows."""


def is_path_component(name: object) -> bool:
    """Whether a name is one component of a path, so that joining it to a folder stays in that folder.

    >>> [is_path_component(name) for name in ("20210104_20230227", "..", "a/b", "", "C:", None)]
    [True, False, False, False, False, False]
    """
    if not isinstance(name, str) or name in ("", ".", "..") or name != name.strip():
        return False
    if not name.isprintable() or _SEPARATORS & set(name):
        return False
    return len(name.encode("utf-8", "surrogatepass")) <= _LONGEST_NAME


def path_component(name: object, *, of: str, error: type[KgeditError] = KgeditError) -> str:
    """Return the name if it is one component of a path.

    Args:
        name: Name as read from a file.
        of: Source of the name, for the message: "the timestep in /data/timestep.json".
        error: Class of the error to raise.

    Raises:
        KgeditError: if it is not text, contains a separator, or names another folder.
    """
    if not is_path_component(name):
        raise error(
            f"The name of {of} is {str(name)[:80]!r}, which cannot be the name of a file or folder. Nothing was read "
            "from there or written there. Get that file from its source again."
        )
    return str(name)


def is_web_address(address: str) -> bool:
    """Whether an address may be shown as a link: http or https, with a host.

    >>> [is_web_address(one) for one in ("https://example.org/r", "javascript:alert(1)", " https://e.org", "//e.org")]
    [True, False, False, False]
    """
    if not address.isprintable() or " " in address or "\\" in address:
        return False
    try:
        parts = urlsplit(address)
        return parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return False


def without_credentials(address: str) -> str:
    """Remove user and password from an address; unchanged if it has none.

    >>> without_credentials("http://me:secret@127.0.0.1:8000/v1")
    'http://127.0.0.1:8000/v1'
    """
    return split_credentials(address)[0]


def split_credentials(address: str) -> tuple[str, tuple[str, str] | None]:
    """Split an address into the address without user and password, and the two decoded; None if it has none.

    >>> split_credentials("https://me:p%40ss@example.org/v1")
    ('https://example.org/v1', ('me', 'p@ss'))
    """
    begin = address.find("://")
    begin = 0 if begin < 0 else begin + 3
    head, rest = address[:begin], address[begin:]
    # The authority ends at the first of these; a password may contain "@", so the last one counts.
    end = min((found for mark in "/?#" if (found := rest.find(mark)) >= 0), default=len(rest))
    user_info, at, host = rest[:end].rpartition("@")
    if not at:
        return address, None
    user, _, password = user_info.partition(":")
    return f"{head}{host}{rest[end:]}", (unquote(user), unquote(password))


def is_loopback_name(host: str) -> bool:
    """Whether a host name, without port, can only be this machine.

    >>> [is_loopback_name(host) for host in ("localhost", "127.0.0.1", "[::1]", "localhost.example.org")]
    [True, True, True, False]
    """
    name = host.lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    address = ip_address_of(name)
    return address is not None and address.is_loopback


def ip_address_of(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Parse a host as an IP address; None if it is a name."""
    try:
        return ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None
