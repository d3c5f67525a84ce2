"""Wikidata's dumps from a server's index to a checked file: what there is, room for it, and the rest of what broke off.

The one thing to know: a file gets its name only when its size and checksum are right; until then it ends in ".part",
from which the same command resumes.
"""

from __future__ import annotations

import datetime
import hashlib
import html.parser
import http.client
import re
import shutil
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urljoin

from kgedit.errors import SourceError, StoreError
from kgedit.fetching.manners import Manners, TemporaryError, get, persistently, temporary_errors
from kgedit.files import put_in_place
from kgedit.store.disk import disk_errors

DUMPS = "https://dumps.wikimedia.org/"
"""The public dumps of the Wikimedia Foundation; mirrors have the same folders."""

KINDS = {
    "json": "all.json.gz",
    "json-bz2": "all.json.bz2",
    "rdf": "all-BETA.nt.gz",
    "rdf-bz2": "all-BETA.nt.bz2",
    "truthy": "truthy-BETA.nt.gz",
    "truthy-bz2": "truthy-BETA.nt.bz2",
    "lexemes": "lexemes.json.gz",
}
"""Kind -> how its file's name ends, in wikidatawiki/entities/YYYYMMDD/."""

_ENTITIES = "wikidatawiki/entities/"
_VIEWS = "other/pageview_complete/monthly/"
_DAY = re.compile(r"(\d{8})/")
_SUM = re.compile(r"([0-9a-f]{32}|[0-9a-f]{40})[ \t]+\*?(\S+)")
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpOrder:
    """What to fetch.

    Attributes:
        day: Day of the dump; None for the latest that has a file of this kind.
        kind: A key of KINDS, or "pageviews" for the month's page views of all wikis.
        mirror: Address under which the folders of the dumps lie.
        manners: How the server is asked.
    """

    day: datetime.date | None
    kind: str = "json"
    mirror: str = DUMPS
    manners: Manners = field(default_factory=Manners)


@dataclass(frozen=True, slots=True)
class RemoteDump:
    """A file on the server: where it is, and its checksum where the server gives one."""

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
    """The days (yyyymmdd) of which the server has a folder, oldest first.

    Raises:
        SourceError: if the server does not give an index.
    """
    days = {match[1] for link in _index(order, _ENTITIES) if (match := _DAY.fullmatch(link))}
    if not days:
        raise SourceError(f"{urljoin(order.mirror, _ENTITIES)} lists no dumps. Check --mirror.")
    return sorted(days)


def find_dump(order: DumpOrder) -> RemoteDump:
    """The file that is meant.

    Raises:
        SourceError: with the days there are, if the server does not have it.
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
    progress: Callable[[int], Callable[[int, int], None]] | None = None,
) -> Path:
    """Fetch a dump into a folder; what broke off is resumed by range requests.

    Args:
        dump: The file on the server.
        folder: Where it is put, under its own name.
        manners: How the server is asked.
        overwrite: Whether a file that is there may be replaced.
        progress: Given the size in bytes, gives what is called with the bytes done, twice.

    Raises:
        SourceError: if the server goes on failing, or what came is not what its checksum says; that is thrown away.
        StoreError: if there is no room.
    """
    target, part = folder / dump.name, folder / f"{dump.name}.part"
    if target.exists() and not overwrite:
        raise SourceError(f"{target} is there already. Load it, or add --overwrite.")
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        size = _size_of(dump, manners)
        if _length(part) > size:
            part.unlink()
        _check_room(folder, size - _length(part), dump.name)
        _fetch_rest(dump, part, size, manners, progress(size) if progress else _silent)
        _check(dump, part, size)
        return put_in_place(part, target)


def _fetch_rest(dump: RemoteDump, part: Path, size: int, manners: Manners, update: Callable[[int, int], None]) -> None:
    """Fetch what is missing. While each round of attempts brings something, a failed round is no reason to give up."""
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


def _silent(done: int, counted: int) -> None:
    """Progress that nobody watches."""


def _size_of(dump: RemoteDump, manners: Manners) -> int:
    def ask() -> int:
        request = urllib.request.Request(dump.address, method="HEAD", headers={"User-Agent": manners.user_agent})
        with temporary_errors(), urllib.request.urlopen(request, timeout=manners.time_limit) as answer:
            said = answer.headers.get("Content-Length")
        if said is None or not said.isdigit() or int(said) == 0:
            raise TemporaryError("the server does not say how long the file is")
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


def _resume(dump: RemoteDump, part: Path, size: int, manners: Manners, update: Callable[[int, int], None]) -> None:
    """Fetch what is missing; a server that ignores the range begins anew."""
    have = _length(part)
    headers = {"User-Agent": manners.user_agent} | ({"Range": f"bytes={have}-"} if have else {})
    request = urllib.request.Request(dump.address, headers=headers)
    try:
        with temporary_errors(), urllib.request.urlopen(request, timeout=manners.time_limit) as answer:
            resumed = answer.status == http.client.PARTIAL_CONTENT
            if resumed and not str(answer.headers.get("Content-Range", "")).startswith(f"bytes {have}-"):
                raise TemporaryError("the server gives another range than the one asked for")
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
        raise SourceError(f"{dump.name} is not as long as the server says. It was thrown away. Fetch it again.")
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
            f"The {algorithm} of {dump.name} is {digest.hexdigest()}, and the server says {expected}. It was thrown "
            "away. Fetch it again, from another mirror if this happens twice."
        )
