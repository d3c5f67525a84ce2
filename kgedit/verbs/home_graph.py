"""The graph of a home: written from its store, and queried."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from kgedit.errors import GraphError
from kgedit.extras import names_extra
from kgedit.verbs.home_folder import Date, HomeFolder, Steps, read_date
from kgedit.verbs.live_progress import step_line

if TYPE_CHECKING:
    import pyarrow as pa

    from kgedit.graph.browser import BrowserPage
    from kgedit.graph.projection import GraphContent
    from kgedit.graph.status import GraphStatus
    from kgedit.store.scope import Scope


class HomeGraph(HomeFolder):
    """Part of a home that is its graph.

    Methods that need the graph start the home's own server if none is running, or use that of `KGEDIT_GRAPH_URI`.
    """

    @names_extra
    def update_graph(
        self, *, rebuild: bool = False, scope: Scope | None = None, progress: Steps | None = None
    ) -> GraphContent:
        """Update the graph to match the store, and return its content.

        Args:
            rebuild: Whether to rebuild it from scratch.
            scope: Part of the store that it contains; None means its current scope, or everything for a new graph.
            progress: Called with every step.

        Raises:
            StoreError: if the store contains no snapshot.
            GraphError: if the graph cannot be written, or has another scope.
        """
        from kgedit.graph.projection import bring_up_to_date

        report = (progress or step_line)("Writing the graph", 100, "rows")
        return bring_up_to_date(self.path, self.snapshots(), progress=report, rebuild=rebuild, scope=scope)

    @names_extra
    def empty_graph(self) -> None:
        """Remove everything from the graph; the store is kept."""
        from kgedit.graph.projection import empty_graph

        empty_graph(self.path)

    @names_extra
    def changes(self, older: Date, newer: Date, *, kinds: bool = False) -> pa.Table:
        """Compute subjects and properties whose current objects differ between two snapshots, one row each.

        The columns are those of the query `changed_edges`: subject, property and objects by id and by label.

        Args:
            older: Day of the older snapshot.
            newer: Day of the newer snapshot.
            kinds: Whether to add columns kind, kind_confidence and kind_signals (`docs/kinds-of-change.md`).

        Raises:
            GraphError: if the graph lacks a snapshot, or the dates are reversed.
            StoreError: if kinds are requested and the store lacks a snapshot.
        """
        from kgedit.graph.finishing import open_finished
        from kgedit.graph.queries import check_dates
        from kgedit.graph.reading import changed_edges
        from kgedit.wikidata.times import day_number

        window = {"from": day_number(read_date(older)), "to": day_number(read_date(newer))}
        with open_finished(self.path) as graph:
            check_dates(window, graph.snapshot_dates())
            changes = changed_edges(graph, older=window["from"], newer=window["to"])
        return self._with_kinds(changes, older, newer) if kinds else changes

    def _with_kinds(self, changes: pa.Table, older: Date, newer: Date) -> pa.Table:
        from kgedit.store.engine import select
        from kgedit.store.snapshots import open_snapshot
        from kgedit.timesteps.kinds import describe_kinds

        old, new = (open_snapshot(self.path, read_date(date)) for date in (older, newer))
        earlier = [snapshot for snapshot in self.snapshots() if snapshot.date < old.date]
        with TemporaryDirectory() as spill:
            found = describe_kinds(old, new, earlier, changes, spill=Path(spill))
        return select(
            "SELECT changes.*, kind, confidence AS kind_confidence, signals AS kind_signals "
            "FROM changes JOIN found USING (subject, property) ORDER BY subject, property",
            changes=changes,
            found=found,
        )

    @names_extra
    def query(
        self,
        name: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        *,
        cypher: str | None = None,
        limit: int | None = None,
        timeout: float = 60.0,
    ) -> list[dict[str, Any]]:
        """Run a query file, or read-only Cypher, on the graph.

        Args:
            name: Name of a query file (`kgedit query --list`).
            parameters: Parameters of the query; dates also as YYYY-MM-DD.
            cypher: Cypher to run instead of a query file.
            limit: Maximum number of rows; None means all.
            timeout: Seconds after which the server aborts the query.

        Returns:
            Rows; a node or relationship is a dict of its properties.

        Raises:
            UnknownNameError: if the query does not exist.
            GraphError: if a parameter is invalid, or the query is rejected or not finished in time.
        """
        from kgedit.graph.finishing import open_finished
        from kgedit.graph.queries import read_query
        from kgedit.graph.status import graph_scope

        if (name is None) == (cypher is None):
            raise GraphError("Give the name of a query or cypher, and not both.")
        chosen = None if name is None else read_query(name)
        bound = dict(parameters or {}) if chosen is None else chosen.bind(parameters or {})
        with open_finished(self.path) as graph:
            if chosen is not None:
                chosen.check(bound, graph.snapshot_dates(), evidence=graph_scope(graph).evidence)
            text = cypher or "" if chosen is None else chosen.text
            return graph.read_only_query(text, bound, timeout=timeout, limit=limit)

    @names_extra
    def find(self, name: str, *, limit: int = 10) -> pa.Table:
        """Find items and properties by label or alias: exact matches first, then by number of facts.

        Args:
            name: Consecutive words of a label or an alias, case-insensitive.
            limit: Maximum number of rows.

        Returns:
            Columns id, label, description and facts (of all snapshots that contain it).

        Raises:
            GraphError: if the name contains no word, or the graph cannot be read.
        """
        from kgedit.graph.finishing import open_finished
        from kgedit.graph.reading import check_name, find_terms

        check_name(name)
        with open_finished(self.path) as graph:
            return find_terms(graph, name, limit=limit)

    @names_extra
    def browser_page(
        self, item: str | None = None, *, older: Date | None = None, newer: Date | None = None
    ) -> BrowserPage:
        """Address of the Neo4j Browser page that shows the graph.

        Args:
            item: QID of an item to start from; shows its facts, or with two dates the changes around it.
            older: Day of the snapshot after which changes count.
            newer: Day of the snapshot up to which changes count.

        Raises:
            GraphError: if one date is given alone or without an item, the graph lacks the item or a snapshot, or the
                server's Browser is unknown.
        """
        from kgedit.graph.browser import BrowserPage, query_around
        from kgedit.graph.finishing import open_finished
        from kgedit.graph.managed.server import ManagedServer
        from kgedit.graph.reading import check_item

        if (older is None) != (newer is None) or (older is not None and item is None):
            raise GraphError("Give both dates or none, and dates only with an item.")
        if item is not None:
            _check_id(item)
        window = {"from": str(read_date(older)), "to": str(read_date(newer))} if older and newer else {}
        with open_finished(self.path) as graph:
            address, query = graph.address, ""
            if item is not None:
                query = query_around(item, window, graph.snapshot_dates())
                check_item(graph, item)
        url = address.browser_page(query)
        if url is None:
            raise GraphError(f"kgedit knows no Browser for {address.uri}. Open the one of that server.")
        return BrowserPage(url=url, user=address.user, password_file=ManagedServer(self.path).password_file)

    @names_extra
    def graph_status(self) -> GraphStatus:
        """Report whether the graph's server runs, its address, and the content of the graph. Starts nothing.

        Raises:
            GraphError: if a server that should answer does not.
        """
        from kgedit.graph.status import read_graph_status

        return read_graph_status(self.path)

    @names_extra
    def stop_graph(self) -> bool:
        """Stop the home's own graph server; False if none was running."""
        from kgedit.graph.managed.server import ManagedServer

        return ManagedServer(self.path).stop()


def _check_id(item: str) -> None:
    """Check the format of an id before a server is started for it.

    Raises:
        GraphError: if it is not an id.
    """
    from kgedit.graph.queries import check_id

    try:
        check_id(item)
    except ValueError as error:
        raise GraphError(f"'{item}' is not the id of an item: {error}.") from error
