"""Neo4j Browser for our graph: style, settings, saved queries, and a page that connects it without a pasted password.

`kgedit browse` opens Browser with ``cypher/browser/style.grass``. With a server other than kgedit's own, enter
``:style`` with the file's content, and ``:config autoComplete: false``, in Browser's command line. If several rules
match a node, the last one determines each property.

Browser takes a user from its address but no password, and connects by itself only with a connection saved in the web
storage of its own origin. Neo4j serves the first folder `browser` on its class path, so a copy of Browser's jar with
the page ``entry.html`` in it comes first there. Switching the password off instead would open the graph to every page
that the user visits, because any page may open a WebSocket to 127.0.0.1.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from urllib.parse import quote, urlsplit

from kgedit.files import replace_file
from kgedit.graph.bolt import Address
from kgedit.graph.managed.install import jar_folder, read_lock
from kgedit.graph.queries import checked_dates, read_query_file
from kgedit.resources import data_folder

_RULE = re.compile(r"(?P<selector>[\w. ]+?)\s*\{(?P<body>(?:[^{}\"]|\"[^\"]*\")*)\}")


@dataclass(frozen=True, slots=True)
class BrowserPage:
    """A page of Neo4j Browser.

    Attributes:
        url: Address of the page; a query in it is placed in the editor but not run.
        user: User name for the connection.
        password_file: File with the password of the home's own server.
        entry: File that opens the page connected, without a password to paste, and draws the query's result; None if
            the server is not the home's own.
    """

    url: str
    user: str
    password_file: Path
    entry: Path | None = None


SETTINGS = {"autoComplete": False, "maxFrames": 1, "allowCrashReports": False, "allowUserStats": False}
"""Browser's settings with which the first screen shows only the graph.

`autoComplete` off: otherwise Browser adds all other edges between the nodes of an answer, including evidence and
unchanged facts. `maxFrames` 1: an answer replaces the previous frame, including that of connecting (a pinned frame
stays). The others stop reports to hosts that the page's policy does not let it contact."""


def browser_policy(bolt: str) -> str:
    """Content security policy of Browser's page: it may contact its own server, and no other host.

    Args:
        bolt: Bolt port, which Browser contacts over HTTP and WebSocket; "*" means any.
    """
    server = " ".join(f"{scheme}://{host}:{bolt}" for scheme in ("ws", "http") for host in ("127.0.0.1", "localhost"))
    return (
        "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
        f"font-src 'self' data:; connect-src 'self' {server}; object-src 'none'; base-uri 'none'; "
        "form-action 'self'; frame-ancestors 'none'"
    )


def style_file() -> Path:
    """Path of the style sheet, in GraSS, the style language of Browser."""
    return data_folder("cypher") / "browser" / "style.grass"


def saved_query(name: str, **parameters: str | int) -> str:
    """A query of cypher/browser with its parameters filled in, for Browser's command line.

    Args:
        name: File name without extension.
        parameters: Values of all its parameters: ids and day numbers.

    Raises:
        GraphError: if a text value is not an id.
    """
    query = read_query_file(data_folder("cypher") / "browser" / f"{name}.cypher")
    text = query.text
    for parameter in query.parameters:
        value = parameters[parameter.name]
        # Browser accepts only complete queries; the values filled in have been checked to be ids or numbers.
        written = str(int(value)) if parameter.kind == "date" else f"'{parameter.read(str(value))}'"
        text = re.sub(rf"\${parameter.name}\b", written, text)
    return text


def query_around(item: str, window: Mapping[str, str], snapshots: Sequence[int]) -> str:
    """The saved query that shows an item: its changes if a window is given, else its facts.

    Args:
        item: QID.
        window: `from` and `to` as YYYY-MM-DD, or empty.
        snapshots: Day numbers of the graph's snapshots.

    Raises:
        GraphError: if the item is not an id, or a date is not that of a snapshot.
    """
    if not window:
        return saved_query("facts_of_item", item=item)
    return saved_query("changes_around_item", item=item, **checked_dates(window, snapshots))


def parse_style(grass: str) -> dict[str, dict[str, str]]:
    """Rules of a style sheet: selector -> property -> value."""
    rules = {}
    for rule in _RULE.finditer(grass):
        pairs = (line.split(":", 1) for line in rule["body"].split(";") if line.strip())
        rules[rule["selector"].strip()] = {name.strip(): value.strip().strip('"') for name, value in pairs}
    return rules


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
