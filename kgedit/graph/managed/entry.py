"""A page beside Neo4j Browser that connects it, so that no password has to be pasted.

Browser takes a user from its address but no password, and connects by itself only with a connection saved in the web
storage of its own origin. Neo4j serves the first folder `browser` on its class path, so a copy of Browser's jar with
this page in it comes first there. Switching the password off instead would open the graph to every page that the user
visits, because any page may open a WebSocket to 127.0.0.1.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import zipfile
from contextlib import closing
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from urllib.parse import quote, urlsplit

from kgedit.files import replace_file
from kgedit.graph.bolt import Address
from kgedit.graph.browser import SETTINGS, parse_style, style_file
from kgedit.graph.managed.install import jar_folder, read_lock

PAGE = "entry.html"
_FILES = (PAGE, "entry.js")
_MEMBER_DATE = (1980, 1, 1, 0, 0, 0)  # the same files give the same jar


def entry_jar() -> Path | None:
    """Return Browser's jar with the page, in the user's cache; None if it is missing and cannot be written there."""
    original = jar_folder() / next(jar.name for jar in read_lock() if jar.artifact == "neo4j-browser")
    members = {name: Path(__file__).with_name(name).read_bytes() for name in _FILES}
    digest = hashlib.sha256(b"\0".join(members.values())).hexdigest()[:12]
    jar = jar_folder().parent / f"{original.stem}-entry-{digest}.jar"
    if not jar.is_file():
        aside = jar.with_name(f".{jar.name}.{os.getpid()}.aside")
        try:
            shutil.copyfile(original, aside)
            with zipfile.ZipFile(aside, "a") as archive:
                for name, content in members.items():
                    archive.writestr(zipfile.ZipInfo(f"browser/{name}", _MEMBER_DATE), content)
            aside.replace(jar)
        except OSError:
            return None
    return jar


def write_entry(path: Path, address: Address, query: str) -> bool:
    """Write a file, readable by the user only, that opens Browser connected and shows the result of a query.

    Like the page that it opens, it is local: the password is on no command line, and is sent to no other host.

    Args:
        path: File to write; its folder exists.
        address: Address of the managed server, which is running.
        query: Cypher without parameters; "" runs nothing.

    Returns:
        Whether it was written: not if the running server lacks the page, or the folder is read-only.
    """
    if address.browser_url is None or not _has_entry(address.browser_url):
        return False
    page = address.browser_page(query) or ""
    given = {
        "bolt": address.uri,
        "user": address.user,
        "password": address.password,
        "settings": {**SETTINGS, "initCmd": query},
        "style": parse_style(style_file().read_text(encoding="utf-8")),
        "search": page.removeprefix(address.browser_url),
    }
    target = f"{address.browser_url}{PAGE}#{quote(json.dumps(given), safe='')}"
    title = "<title>Neo4j Browser</title>"
    # The target is percent-encoded, so it can neither end the string nor the script.
    redirect = f"<script>location.replace({json.dumps(target)})</script>"
    try:
        replace_file(path, f'<!doctype html><meta charset="utf-8">{title}{redirect}\n', mode=0o600, durable=False)
    except OSError:  # a read-only home, whose server can still be queried
        return False
    return True


def _has_entry(browser_url: str) -> bool:
    """Whether the running server, which an older kgedit may have started, serves the page."""
    parts = urlsplit(browser_url)
    with closing(HTTPConnection(parts.hostname or "", parts.port, timeout=10)) as connection:
        try:
            connection.request("HEAD", f"{parts.path}{PAGE}")
            return connection.getresponse().status == HTTPStatus.OK
        except (OSError, HTTPException):
            return False
