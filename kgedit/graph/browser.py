"""How Neo4j Browser draws our graph: ``cypher/browser/style.grass``, handed to every Browser that connects.

With another server than kgedit's own, type ``:style`` and the file's content into Browser's command line.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from kgedit.graph.queries import read_query_file
from kgedit.resources import data_folder

_RULE = re.compile(r"(?P<selector>[\w. ]+?)\s*\{(?P<body>(?:[^{}\"]|\"[^\"]*\")*)\}")


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
