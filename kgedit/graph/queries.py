"""Query files under ``cypher/``, one query per file, and checks of queries and parameters before they run.

The header of a file has what the query finds, its parameters and its columns.

A user's own query may only read the graph. The server decides: it plans the query (EXPLAIN, which runs nothing) and
returns its type and its operators, so words in strings, comments or quoted names neither trigger a rule nor evade one.
The rules:

* its type is read-only: it does not change data, schema, users or databases;
* no operator reads a file or an address (LOAD CSV), or ends other transactions (TERMINATE TRANSACTIONS);
* no administration commands, including those that only show something (SHOW USERS, SHOW DATABASES);
* of the other SHOW commands only those about the schema, functions and procedures: settings reveal how the server is
  set up and where its files are, transactions reveal other users' queries;
* no transactions within the query (CALL { ... } IN TRANSACTIONS), which only writing needs;
* only procedures from a list of Neo4j's own that read the graph. Others clear caches or close connections, or belong to
  plugins and may do anything.

Plans do not list functions: those of a plugin (apoc.*) on an outside server are not checked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from kgedit.errors import GraphError, UnknownNameError
from kgedit.resources import data_folder
from kgedit.wikidata.ids import TWO_HOP_STOP_LIST
from kgedit.wikidata.times import day_number, not_before, read_day

_PARAMETER = re.compile(r"^\$(\w+) \((\w+)(?:, default (.*?))?\): (.*)$")
_ID = re.compile(r"[PQL][1-9]\d*")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a query.

    Attributes:
        name: Name without the dollar sign.
        kind: date (YYYY-MM-DD, sent as a day number), id, ids, integer, number, text or maps (JSON).
        default: Default value as sent; None if the parameter is required.
        meaning: Meaning, in one line.
    """

    name: str
    kind: str
    default: Any
    required: bool
    meaning: str

    def read(self, given: Any) -> Any:
        """Convert a user's text to the value to send; values of other types are unchanged. Dates become day numbers.

        Raises:
            GraphError: if a text is not of the parameter's kind.
        """
        if isinstance(given, date):
            return day_number(given)
        if not isinstance(given, str):
            return given
        text = given
        try:
            return _READERS[self.kind](text)
        except (ValueError, KeyError) as error:
            why = str(error) if self.kind == "date" else f"{text!r} is not of kind {self.kind} ({error})."
            raise GraphError(f"Parameter {self.name}: {why}") from error


_VALUE = re.compile(
    r'("?)(?:(?P<integer>-?(?:0|[1-9]\d{0,17}))|(?P<number>-?\d+\.\d+)|(?P<date>\d{4}-\d{2}-\d{2}))\1', re.ASCII
)
"""A number or a date, which is text in quotes. Numbers with leading zeros or over 18 digits are text too."""


def read_value(name: str, text: str) -> Any:
    """Convert a text to the value of a parameter of a user's own Cypher, which does not declare kinds.

    Numbers become numbers, and YYYY-MM-DD becomes the day number of the graph. Those in double quotes become text
    without the quotes; all other texts are unchanged.

    Raises:
        GraphError: if a text has the form of a date, but is none.
    """
    match = _VALUE.fullmatch(text)
    if match is None:
        return text
    if match[1]:
        return text[1:-1]
    return Parameter(name, str(match.lastgroup), None, required=True, meaning="").read(text)


def _date(text: str) -> int:
    return day_number(read_day(text))


def _written(day: int) -> str:
    return f"{day // 10000:04}-{day // 100 % 100:02}-{day % 100:02}"


def check_dates(dates: Mapping[str, int], snapshots: Sequence[int]) -> None:
    """Check that dates are those of snapshots, and that `from` is before `to`.

    Args:
        dates: Day numbers by parameter.
        snapshots: Day numbers of the graph's snapshots.

    Raises:
        GraphError: with the list of snapshots.
    """
    for day in dates.values():
        if day not in snapshots:
            loaded = ", ".join(map(_written, sorted(snapshots))) or "none"
            raise GraphError(
                f"The graph contains no snapshot of {_written(day)} (loaded: {loaded}). "
                f"Load it: kgedit load-dump PATH --date {_written(day)}"
            )
    if {"from", "to"} <= dates.keys() and dates["from"] >= dates["to"]:
        raise GraphError(not_before(_written(dates["from"]), _written(dates["to"])))


def checked_dates(texts: Mapping[str, str], snapshots: Sequence[int]) -> dict[str, int]:
    """Parse dates to day numbers and check them with `check_dates`."""
    days = {name: _date(text) for name, text in texts.items()}
    check_dates(days, snapshots)
    return days


def check_id(text: str) -> str:
    """Return the id of an item, a property or a lexeme unchanged.

    Raises:
        ValueError: if the text is not such an id.
    """
    if not _ID.fullmatch(text):
        raise ValueError("give an id such as Q30 or P6; kgedit find NAME finds it")
    return text


def _entity_ids(text: str) -> list[str]:
    return [check_id(part.strip()) for part in text.split(",") if part.strip()]


_NAMED = {"TWO_HOP_STOP_LIST": list(TWO_HOP_STOP_LIST)}
"""Defaults that headers refer to by their names in kgedit.wikidata.ids, so that they are defined once."""

_READERS: dict[str, Any] = {
    "date": _date,
    "id": check_id,
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
        name: File name without extension.
        finds: What it finds, in one or more sentences.
        parameters: Parameters in the order of the header.
        returns: Column names in order, each with its meaning.
        text: Cypher, without the header.
    """

    name: str
    finds: str
    parameters: tuple[Parameter, ...]
    returns: tuple[tuple[str, str], ...]
    text: str

    @property
    def columns(self) -> list[str]:
        """Names of the columns that it returns."""
        return [name for name, _ in self.returns]

    def bind(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Combine users' texts or values with defaults to the parameters to send.

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

    def check(self, bound: Mapping[str, Any], snapshots: Sequence[int], *, evidence: bool) -> None:
        """Check bound parameters against the content of the graph.

        Args:
            bound: Result of `bind`.
            snapshots: Day numbers of the graph's snapshots.
            evidence: Whether the graph contains the versions of statements.

        Raises:
            GraphError: if a date is not that of a snapshot, a window is reversed, or the evidence is missing.
        """
        dates = {p.name: bound[p.name] for p in self.parameters if p.kind == "date"}
        check_dates(dates, snapshots)
        if ":CLAIM" in self.text and not evidence:
            raise GraphError(
                f"The query {self.name} reads versions of statements, which this graph leaves out. "
                "Rebuild it with them: kgedit graph rebuild --evidence"
            )


def read_queries() -> dict[str, Query]:
    """All reading queries by name, sorted."""
    return {path.stem: read_query_file(path) for path in sorted((data_folder("cypher") / "read").glob("*.cypher"))}


def read_query(name: str) -> Query:
    """One reading query.

    Raises:
        UnknownNameError: with the known names.
    """
    queries = read_queries()
    if name not in queries:
        raise UnknownNameError("query", name, queries)
    return queries[name]


def write_query(name: str) -> str:
    """Text of a file under cypher/write."""
    return (data_folder("cypher") / "write" / f"{name}.cypher").read_text(encoding="utf-8")


def schema_statements(prefix: str = "") -> list[str]:
    """Constraints ("1_") and indexes ("2_"), in order of file name."""
    paths = sorted((data_folder("cypher") / "schema").glob(f"{prefix}*.cypher"))
    return [path.read_text(encoding="utf-8") for path in paths]


def schema_names() -> dict[str, str]:
    """CONSTRAINT or INDEX by name, from the file names of cypher/schema."""
    kinds = {"1": "CONSTRAINT", "2": "INDEX"}
    paths = sorted((data_folder("cypher") / "schema").glob("*.cypher"))
    return {path.stem[2:]: kinds[path.stem[0]] for path in paths}


def read_query_file(path: Path) -> Query:
    """Parse a query file, which begins with ``// `` lines in the sections Finds, Parameters, Returns."""
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
    default = None if match[3] is None else _NAMED.get(match[3]) or json.loads(match[3])
    return Parameter(match[1], match[2], default, match[3] is None, match[4])


_READING_PROCEDURES = frozenset(
    {
        "db.awaitIndex",
        "db.awaitIndexes",
        "db.index.fulltext.awaitEventuallyConsistentIndexRefresh",
        "db.index.fulltext.listAvailableAnalyzers",
        "db.index.fulltext.queryNodes",
        "db.index.fulltext.queryRelationships",
        "db.index.vector.queryNodes",
        "db.index.vector.queryRelationships",
        "db.info",
        "db.labels",
        "db.ping",
        "db.propertyKeys",
        "db.relationshipTypes",
        "db.schema.nodeTypeProperties",
        "db.schema.relTypeProperties",
        "db.schema.visualization",
        "dbms.components",
        "dbms.info",
    }
)
_REFUSED_OPERATORS = {
    "LoadCSV": "it loads a file or an address (LOAD CSV)",
    "TerminateTransactions": "it ends transactions",
    "AdministrationCommand": "it is an administration command",
    "ShowSettings": "it shows the server's settings",
    "ShowTransactions": "it shows what others ask the server",
    "TransactionApply": "it starts transactions (IN TRANSACTIONS)",
    "TransactionForeach": "it starts transactions (IN TRANSACTIONS)",
}
_SHOWING_OPERATORS = frozenset({"ShowConstraints", "ShowFunctions", "ShowIndexes", "ShowProcedures"})
"""Any other Show operator, such as of a later Neo4j, is refused."""

Plan = Mapping[str, Any]


def refuse_all_but_reading(query_type: str | None, plan: Plan | None, uri: str) -> None:
    """Refuse a query unless its plan only reads the graph.

    Args:
        query_type: Type in the summary: r, w, rw, or s for schema, administration and the server's own procedures.
        plan: Plan in the summary: operators as nested maps.
        uri: Address of the server, for the message.

    Raises:
        GraphError: if the query does more than read, or the server does not return a plan.
    """
    if plan is None:
        raise GraphError(f"The server at {uri} does not explain queries, so a query of your own cannot be checked.")
    procedures = []
    for operator, details in _operators(plan):
        if operator == "ProcedureCall":
            procedures.append(details.partition("(")[0].strip())
        elif "." in operator:  # a procedure called in the system database
            procedures.append(operator)
        elif operator in _REFUSED_OPERATORS:
            _refuse(_REFUSED_OPERATORS[operator])
        elif operator.startswith("Show") and operator not in _SHOWING_OPERATORS:
            _refuse(f"it shows what is not in the graph ({operator})")
    for name in procedures:
        if name not in _READING_PROCEDURES:
            _refuse(f"it calls {name}, which is not one of the procedures that only read the graph")
    if query_type != "r" and not (query_type == "s" and procedures):
        _refuse("it writes")


def _refuse(reason: str) -> None:
    raise GraphError(
        f"This query was not run: {reason}, and only reading is allowed here. Nothing was changed. To do it "
        f"nevertheless, use Neo4j Browser (kgedit browse)."
    )


def _operators(plan: Plan) -> Iterator[tuple[str, str]]:
    """Name and details of every operator, without the database name."""
    waiting = [plan]
    while waiting:
        operator = waiting.pop()
        name = str(operator["operatorType"]).partition("@")[0]
        yield name, str((operator.get("args") or {}).get("Details", ""))
        waiting.extend(operator.get("children") or ())


_LARGEST = 2**63 - 1


def refuse_what_bolt_cannot_carry(cypher: str, parameters: Mapping[str, Any]) -> None:
    """Refuse integers of more than 64 bits, and text that is not valid Unicode, at any depth.

    Raises:
        GraphError: with the parameter's name.
    """
    if not _is_unicode(cypher):
        raise GraphError("The query is not valid UTF-8 text. Save it, or set the terminal, as UTF-8.")
    for name, given in parameters.items():
        waiting = [given]
        while waiting:
            value = waiting.pop()
            if isinstance(value, Mapping):
                waiting.extend([*value.keys(), *value.values()])
            elif isinstance(value, (list, tuple)):
                waiting.extend(value)
            elif isinstance(value, int) and not -_LARGEST - 1 <= value <= _LARGEST:
                raise GraphError(
                    f"Parameter {name}: {_short(value)} does not fit 64 bits. Give a number between -2^63 and 2^63-1."
                )
            elif isinstance(value, str) and not _is_unicode(value):
                raise GraphError(f"Parameter {name} contains text that is not valid Unicode: {value!a:.60}")


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _short(value: int) -> str:
    # Python refuses to format integers of more than a few thousand digits.
    return str(value) if value.bit_length() < 200 else f"an integer of {value.bit_length()} bits"
