"""The query files under ``cypher/``: one query a file, with a header that says what it finds, takes and returns."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kgedit.errors import GraphError, UnknownNameError
from kgedit.resources import data_folder

_PARAMETER = re.compile(r"^\$(\w+) \((\w+)(?:, default (.*?))?\): (.*)$")
_ID = re.compile(r"^[PQL]\d+$")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a query.

    Attributes:
        name: Without the dollar sign.
        kind: date (YYYY-MM-DD, sent as a day number), id, ids, integer, number, text or maps (JSON).
        default: As sent when the user gives none; None if it must be given.
        meaning: One line.
    """

    name: str
    kind: str
    default: Any
    required: bool
    meaning: str

    def read(self, text: str) -> Any:
        """A user's text as the value to send.

        Raises:
            GraphError: if it is not of the parameter's kind.
        """
        try:
            return _READERS[self.kind](text)
        except (ValueError, KeyError) as error:
            raise GraphError(f"Parameter {self.name} is of kind {self.kind}; {text!r} is not ({error}).") from error


def _date(text: str) -> int:
    digits = text.replace("-", "")
    if not re.fullmatch(r"\d{8}", digits):
        raise ValueError("give YYYY-MM-DD")
    return int(digits)


def _entity_id(text: str) -> str:
    if not _ID.match(text):
        raise ValueError("give an id such as Q30 or P6")
    return text


def _entity_ids(text: str) -> list[str]:
    return [_entity_id(part.strip()) for part in text.split(",") if part.strip()]


_READERS: dict[str, Any] = {
    "date": _date,
    "id": _entity_id,
    "ids": _entity_ids,
    "integer": int,
    "number": float,
    "text": str,
    "maps": json.loads,
}


@dataclass(frozen=True, slots=True)
class Query:
    """A reading query with its header.

    Attributes:
        name: File name without its ending.
        finds: What it finds, one or more sentences.
        parameters: In the order of the header.
        returns: Column names in order, each with its meaning.
        text: Cypher, without the header.
    """

    name: str
    finds: str
    parameters: tuple[Parameter, ...]
    returns: tuple[tuple[str, str], ...]
    text: str

    def bind(self, given: dict[str, str]) -> dict[str, Any]:
        """Users' texts and defaults as the parameters to send.

        Raises:
            GraphError: if one is unknown, missing or of the wrong kind.
        """
        known = {parameter.name: parameter for parameter in self.parameters}
        unknown = sorted(given.keys() - known.keys())
        missing = [name for name, parameter in known.items() if parameter.required and name not in given]
        if unknown or missing:
            takes = ", ".join(f"{p.name} ({p.kind})" for p in self.parameters) or "none"
            problem = f"unknown: {', '.join(unknown)}" if unknown else f"missing: {', '.join(missing)}"
            raise GraphError(f"Query {self.name}: parameters {problem}. It takes: {takes}.")
        return {n: p.read(given[n]) if n in given else p.default for n, p in known.items()}


def read_queries() -> dict[str, Query]:
    """Every reading query by name, sorted."""
    return {path.stem: _parse(path) for path in sorted((data_folder("cypher") / "read").glob("*.cypher"))}


def read_query(name: str) -> Query:
    """One reading query.

    Raises:
        UnknownNameError: with the known names.
    """
    queries = read_queries()
    if name not in queries:
        raise UnknownNameError(f"There is no query '{name}'. Known: {', '.join(queries)}.")
    return queries[name]


def write_query(name: str) -> str:
    """Text of a file under cypher/write."""
    return (data_folder("cypher") / "write" / f"{name}.cypher").read_text(encoding="utf-8")


def schema_statements() -> list[str]:
    """Constraints and indexes, in order of file name."""
    return [path.read_text(encoding="utf-8") for path in sorted((data_folder("cypher") / "schema").glob("*.cypher"))]


def _parse(path: Path) -> Query:
    """Read a query file: ``// `` lines first, in the sections Finds, Parameters, Returns."""
    header: dict[str, list[str]] = {"Finds": [], "Parameters": [], "Returns": []}
    section = ""
    body: list[str] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if body or not line.startswith("//"):
            body.append(line)
            continue
        content = line.removeprefix("//").strip()
        title, colon, rest = content.partition(":")
        if colon and title in header:
            section, content = title, rest.strip()
        if content:
            header[section].append(content)
    parameters = tuple(_parameter(path, line) for line in header["Parameters"])
    returns = tuple((name, meaning.strip()) for name, _, meaning in (line.partition(":") for line in header["Returns"]))
    return Query(path.stem, " ".join(header["Finds"]), parameters, returns, "\n".join(body).strip())


def _parameter(path: Path, line: str) -> Parameter:
    match = _PARAMETER.match(line)
    if match is None or match[2] not in _READERS:
        raise GraphError(f"{path}: this header line describes no parameter: {line}")
    default = None if match[3] is None else json.loads(match[3])
    return Parameter(match[1], match[2], default, match[3] is None, match[4])
