"""Checks queries before they run: parameters that Bolt can send, and that a user's own query only reads the graph.

The server decides: it plans the query (EXPLAIN, which runs nothing) and returns its type and its operators, so words in
strings, comments or quoted names neither trigger a rule nor evade one. The rules:

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

from collections.abc import Iterator, Mapping
from typing import Any

from kgedit.errors import GraphError

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
