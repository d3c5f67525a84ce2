"""`query`: runs a query file, or the user's own Cypher, on the graph."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kgedit.errors import GraphError
from kgedit.verbs.options import HomeVerb, argument, flag, options, python_only


@options
class RunQuery(HomeVerb[list[dict[str, Any]]]):
    """Run a query file, or your own Cypher, on the graph.

    NAME is a query of --list. An argument that begins like Cypher (MATCH, RETURN, CALL, ...) is run as Cypher.
    """

    name: str | None = argument(
        default=None,
        kw_only=False,
        metavar="[NAME|CYPHER]",
        complete="queries",
        help="Name of a query file (`kgedit query --list`).",
    )
    parameters: Mapping[str, Any] | None = python_only(
        default=None, kw_only=False, help="Parameters of the query; dates also as YYYY-MM-DD."
    )
    cypher: str | None = flag(
        default=None, help="Your own Cypher, which may only read the graph; can also be given as the argument."
    )
    limit: int | None = flag(default=None, ge=1, group="Output", help="Maximum number of rows.")
    timeout: float = flag(
        default=60.0, ge=0.001, le=1e6, group="Machine", help="Seconds after which the server aborts the query."
    )

    def run(self, home: Path) -> list[dict[str, Any]]:
        """Run it.

        Returns:
            Rows; a node or relationship is a dict of its properties.

        Raises:
            UnknownNameError: if the query does not exist.
            GraphError: if a parameter is invalid, or the query is rejected or not finished in time.
        """
        from kgedit.graph.finishing import open_finished
        from kgedit.graph.queries import read_query
        from kgedit.graph.status import graph_scope

        if (self.name is None) == (self.cypher is None):
            raise GraphError("Give the name of a query or cypher, and not both.")
        chosen = None if self.name is None else read_query(self.name)
        bound = dict(self.parameters or {}) if chosen is None else chosen.bind(self.parameters or {})
        with open_finished(home) as graph:
            if chosen is not None:
                chosen.check(bound, graph.snapshot_dates(), evidence=graph_scope(graph).evidence)
            text = self.cypher or "" if chosen is None else chosen.text
            return graph.read_only_query(text, bound, timeout=self.timeout, limit=self.limit)
