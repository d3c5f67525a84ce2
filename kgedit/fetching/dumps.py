"""Finds and downloads Wikidata's dumps: server index, check of disk space, resumed transfers, checksums.

A file gets its final name only after its size and checksum are verified. Until then its name ends in ".part", and the
same command resumes the download.
"""

from __future__ import annotations

import datetime
import hashlib
import html.parser
import http.client
import re
import shutil
import urllib.error
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urljoin

from kgedit.errors import SourceError, StoreError
from kgedit.fetching.manners import Manners, TemporaryError, get, opened, persistently
from kgedit.files import put_in_place
from kgedit.progress import Advance, ignore
from kgedit.store.disk import disk_errors

DUMPS = "https://dumps.wikimedia.org/"
"""Public dumps of the Wikimedia Foundation; mirrors have the same folders."""

KINDS = {
    "json": "all.json.gz",
    "json-bz2": "all.json.bz2",
    "rdf": "all-BETA.nt.gz",
    "rdf-bz2": "all-BETA.nt.bz2",
    "truthy": "truthy-BETA.nt.gz",
    "truthy-bz2": "truthy-BETA.nt.bz2",
    "lexemes": "lexemes.json.gz",
}
"""Kind -> suffix of the file name in wikidatawiki/entities/YYYYMMDD/."""

_ENTITIES = "wikidatawiki/entities/"
_VIEWS = "other/pageview_complete/monthly/"
_DAY = re.compile(r"(\d{8})/")
_SUM = re.compile(r"([0-9a-f]{32}|[0-9a-f]{40})[ \t]+\*?(\S+)")
_CHUNK = 1 << 20  # bytes; the most that is lost when the process is killed


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpOrder:
    """Selection of a dump.

    Attributes:
        day: Day of the dump; None means the latest one that has a file of this kind.
        kind: Key of KINDS, or "pageviews" for the monthly page views of all wikis.
        mirror: Base address of the folders of the dumps.
        manners: Settings of the requests.
    """

    day: datetime.date | None
    kind: str = "json"
    mirror: str = DUMPS
    manners: Manners = field(default_factory=Manners)


@dataclass(frozen=True, slots=True)
class RemoteDump:
    """A file on the server, with its checksum if the server provides one."""

    address: str
    name: str
    checksum: str | None


class _Links(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attrs if tag == "a" and name == "href" and value]


def list_days(order: DumpOrder) -> list[str]:
    """Days (yyyymmdd) for which the server has a folder, oldest first.

    Raises:
        SourceError: if the server does not return an index.
    """
    days = {match[1] for link in _index(order, _ENTITIES) if (match := _DAY.fullmatch(link))}
    if not days:
        raise SourceError(f"{urljoin(order.mirror, _ENTITIES)} lists no dumps. Check --mirror.")
    return sorted(days)


def find_dump(order: DumpOrder) -> RemoteDump:
    """Find the ordered file on the server.

    Raises:
        SourceError: with the available days, if the server does not have it.
    """
    if order.kind == "pageviews":
        return _find_views(order)
    if order.kind not in KINDS:
        raise SourceError(f"There is no kind of dump '{order.kind}'. Known: {', '.join([*KINDS, 'pageviews'])}.")
    days = list_days(order)
    wanted = days[::-1] if order.day is None else [f"{order.day:%Y%m%d}"]
    for day in wanted:
        folder = f"{_ENTITIES}{day}/"
        name = f"wikidata-{day}-{KINDS[order.kind]}"
        links = _index(order, folder) if day in days else []
        if name in links:
            return RemoteDump(urljoin(order.mirror, folder + name), name, _checksum(order, folder, links, name))
    said = "no folder" if order.day is None else f"none of {order.day}"
    raise SourceError(f"{order.mirror} has {said} with a {order.kind} dump (days there: {', '.join(days[-8:])}).")


def _find_views(order: DumpOrder) -> RemoteDump:
    if order.day is None:
        raise SourceError("Page views are by month: give a date in it instead of 'latest'.")
    folder = f"{_VIEWS}{order.day:%Y}/{order.day:%Y-%m}/"
    name = f"pageviews-{order.day:%Y%m}-user.bz2"
    if name not in _index(order, folder):
        raise SourceError(f"{order.mirror} has no page views of {order.day:%Y-%m} ({folder}{name}).")
    return RemoteDump(urljoin(order.mirror, folder + name), name, None)


def _index(order: DumpOrder, folder: str) -> list[str]:
    address = urljoin(order.mirror, folder)
    links = _Links()
    links.feed(_text(order, address))
    return [link.rpartition("/")[2] if not link.endswith("/") else link.rstrip("/").rpartition("/")[2] + "/"
            for link in links.found]  # fmt: skip


def _text(order: DumpOrder, address: str) -> str:
    try:
        body = persistently(lambda: get(address, order.manners), of=f"Asking for {address}", manners=order.manners)
    except urllib.error.HTTPError as error:
        raise SourceError(
            f"{address} answers HTTP {error.code} {error.reason}. Check --mirror and the date."
        ) from error
    return body.decode("utf-8", "replace")


def _checksum(order: DumpOrder, folder: str, links: list[str], name: str) -> str | None:
    for algorithm in ("sha1", "md5"):
        for link in links:
            if link.endswith(f"{algorithm}sums.txt"):
                for found, named in _SUM.findall(_text(order, urljoin(order.mirror, folder + link))):
                    if named == name:
                        return f"{algorithm}:{found}"
    return None


def fetch_dump(
    dump: RemoteDump,
    folder: Path,
    *,
    manners: Manners,
    overwrite: bool = False,
    progress: Callable[[int], Advance] | None = None,
) -> Path:
    """Download a dump into a folder; interrupted downloads are resumed by range requests.

    Args:
        dump: The file on the server.
        folder: Destination folder; the file keeps its name.
        manners: Settings of the requests.
        overwrite: Whether an existing file may be replaced.
        progress: Called with the size in bytes; returns a callback that receives the bytes done, as both arguments.

    Raises:
        SourceError: if the server keeps failing, or the checksum does not match, in which case the download is deleted.
        StoreError: if there is not enough disk space.
    """
    target, part = folder / dump.name, folder / f"{dump.name}.part"
    if target.exists() and not overwrite:
        raise SourceError(f"{target} already exists. Load it, or add --overwrite.")
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        size = _size_of(dump, manners)
        if _length(part) > size:
            part.unlink()
        _check_room(folder, size - _length(part), dump.name)
        _fetch_rest(dump, part, size, manners, progress(size) if progress else ignore)
        _check(dump, part, size)
        return put_in_place(part, target)


def _fetch_rest(dump: RemoteDump, part: Path, size: int, manners: Manners, update: Advance) -> None:
    """Download the remainder. A failed round of attempts is tolerated as long as it transferred data."""
    while (before := _length(part)) < size:
        try:
            persistently(
                lambda: _resume(dump, part, size, manners, update), of=f"Fetching {dump.address}", manners=manners
            )
        except SourceError:
            if _length(part) <= before:
                raise


def _length(part: Path) -> int:
    return part.stat().st_size if part.is_file() else 0


def _size_of(dump: RemoteDump, manners: Manners) -> int:
    def ask() -> int:
        with opened(dump.address, manners, method="HEAD") as answer:
            said = answer.headers.get("Content-Length")
        if said is None or not said.isdigit() or int(said) == 0:
            raise TemporaryError("the server does not report the file's size")
        return int(said)

    try:
        return persistently(ask, of=f"Asking for the size of {dump.address}", manners=manners)
    except urllib.error.HTTPError as error:
        raise SourceError(f"{dump.address} answers HTTP {error.code} {error.reason}. Try --mirror.") from error


def _check_room(folder: Path, needed: int, name: str) -> None:
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise StoreError(
            f"{name} needs {needed / 1e9:.1f} GB more, and {folder} has {free / 1e9:.1f} GB free. Make room, or choose "
            "another folder with --to."
        )


def _resume(dump: RemoteDump, part: Path, size: int, manners: Manners, update: Advance) -> None:
    """Download the remainder; if the server ignores the range, the download restarts."""
    have = _length(part)
    headers = {"Range": f"bytes={have}-"} if have else {}
    try:
        with opened(dump.address, manners, headers=headers) as answer:
            resumed = answer.status == http.client.PARTIAL_CONTENT
            if resumed and not str(answer.headers.get("Content-Range", "")).startswith(f"bytes {have}-"):
                raise TemporaryError("the server returned another range than requested")
            with part.open("ab" if resumed else "wb") as file:
                done = have if resumed else 0
                while data := answer.read(_CHUNK):
                    file.write(data)
                    done += len(data)
                    update(done, done)
    except urllib.error.HTTPError as error:
        raise SourceError(f"{dump.address} answers HTTP {error.code} {error.reason}. Try --mirror.") from error
    if done > size:
        part.unlink()
        raise TemporaryError(f"{done:,} bytes came instead of {size:,}")
    if done < size:
        raise TemporaryError(f"the connection broke off after {done:,} of {size:,} bytes")


def _check(dump: RemoteDump, part: Path, size: int) -> None:
    if part.stat().st_size != size:
        part.unlink()
        raise SourceError(f"{dump.name} is not as long as the server reports. It was deleted. Fetch it again.")
    if dump.checksum is None:
        return
    algorithm, _, expected = dump.checksum.partition(":")
    digest = hashlib.new(algorithm, usedforsecurity=False)
    with part.open("rb") as file:
        while data := file.read(_CHUNK):
            digest.update(data)
    if digest.hexdigest() != expected:
        part.unlink()
        raise SourceError(
            f"The {algorithm} of {dump.name} is {digest.hexdigest()}, but the server reports {expected}. The file was "
            "deleted. Fetch it again, from another mirror if this happens twice."
        )
