"""Style and settings of Neo4j Browser for our graph, and its saved queries.

`kgedit browse` opens Browser with ``cypher/browser/style.grass``. With a server other than kgedit's own, enter
``:style`` with the file's content, and ``:config autoComplete: false``, in Browser's command line. If several rules
match a node, the last one determines each property.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

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
