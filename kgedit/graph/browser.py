"""How Neo4j Browser draws our graph: ``cypher/browser/style.grass``, handed to every Browser that connects.

With another server than kgedit's own, type ``:style`` and the file's content into Browser's command line, and
``:config autoComplete: false``. Of several rules that match a node, Browser lets the last one win for each property.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kgedit.graph.queries import checked_dates, read_query_file
from kgedit.resources import data_folder

_RULE = re.compile(r"(?P<selector>[\w. ]+?)\s*\{(?P<body>(?:[^{}\"]|\"[^\"]*\")*)\}")


@dataclass(frozen=True, slots=True)
class BrowserPage:
    """A page of Neo4j Browser, ready to be opened.

    Attributes:
        url: The page; a query in it stands in the editor and is not run.
        user: Who to connect as.
        password_file: File with the password of the home's own server.
    """

    url: str
    user: str
    password_file: Path


def browser_policy(bolt: str) -> str:
    """The content security policy of Browser's page: it may contact its own server, and no other host.

    Args:
        bolt: Port of Bolt, which Browser asks over HTTP and WebSocket; "*" for any.
    """
    server = " ".join(f"{scheme}://{host}:{bolt}" for scheme in ("ws", "http") for host in ("127.0.0.1", "localhost"))
    return (
        "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
        f"font-src 'self' data:; connect-src 'self' {server}; object-src 'none'; base-uri 'none'; "
        "form-action 'self'; frame-ancestors 'none'"
    )


def style_file() -> Path:
    """The style sheet, in Browser's own language, GraSS."""
    return data_folder("cypher") / "browser" / "style.grass"


def saved_query(name: str, **parameters: str | int) -> str:
    """A query of cypher/browser with its parameters written into it, ready for Browser's command line.

    Args:
        name: File name without its ending.
        parameters: Values for all of its parameters: ids and day numbers.

    Raises:
        GraphError: if a text is no id.
    """
    query = read_query_file(data_folder("cypher") / "browser" / f"{name}.cypher")
    text = query.text
    for parameter in query.parameters:
        value = parameters[parameter.name]
        # Browser takes a whole query: what is written into it has been checked to be an id or a number.
        written = str(int(value)) if parameter.kind == "date" else f"'{parameter.read(str(value))}'"
        text = re.sub(rf"\${parameter.name}\b", written, text)
    return text


def query_around(item: str, window: Mapping[str, str], snapshots: Sequence[int]) -> str:
    """The saved query that shows an item: with a window its changes, else its facts.

    Args:
        item: QID.
        window: `from` and `to` as YYYY-MM-DD, or empty.
        snapshots: Day numbers of the graph's snapshots.

    Raises:
        GraphError: if the item is no id or a date is not of a snapshot.
    """
    if not window:
        return saved_query("facts_of_item", item=item)
    return saved_query("changes_around_item", item=item, **checked_dates(window, snapshots))


def parse_style(grass: str) -> dict[str, dict[str, str]]:
    """The rules of a style sheet: selector -> property -> value."""
    rules = {}
    for rule in _RULE.finditer(grass):
        pairs = (line.split(":", 1) for line in rule["body"].split(";") if line.strip())
        rules[rule["selector"].strip()] = {name.strip(): value.strip().strip('"') for name, value in pairs}
    return rules


def style_command() -> str:
    """The command that gives Browser our style; on one line and as JSON, since a semicolon would end the command."""
    return "style " + json.dumps(parse_style(style_file().read_text(encoding="utf-8")))


def connect_commands() -> str:
    """What Browser runs when it connects, so that the first screen after a query is the graph and nothing else.

    `autoComplete` off: else Browser adds all other edges between the nodes of an answer, the evidence and the facts
    that did not change. `maxFrames` 1: an answer takes the place of the frame before it, those of connecting and of
    these commands included (a pinned frame stays). `:clear` would not do, because the frame of `:config` with all
    settings appears after it; `:use` comes later still, with one line, and chooses the default database.
    """
    return f"config autoComplete: false, maxFrames: 1; {style_command()}; use"
