"""`query`, `find` and `browse`: Cypher on the graph, items by name, and Neo4j Browser on one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgedit.errors import GraphError
from kgedit.verbs.home_folder import read_date
from kgedit.verbs.options import Day, HomeVerb, argument, flag, options, python_only

if TYPE_CHECKING:
    import pyarrow as pa

    from kgedit.graph.browser import BrowserPage


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
        """Run the query.

        Returns:
            Rows; a node or relationship is a dict of its properties.

        Raises:
            UnknownNameError: if the query does not exist.
            GraphError: if a parameter is invalid, or the query is rejected or not finished in time.
        """
        from kgedit.graph.queries import read_query
        from kgedit.graph.state import graph_scope, open_finished

        if (self.name is None) == (self.cypher is None):
            raise GraphError("Give the name of a query or cypher, and not both.")
        chosen = None if self.name is None else read_query(self.name)
        bound = dict(self.parameters or {}) if chosen is None else chosen.bind(self.parameters or {})
        with open_finished(home) as graph:
            if chosen is not None:
                chosen.check(bound, graph.snapshot_dates(), evidence=graph_scope(graph).evidence)
            text = self.cypher or "" if chosen is None else chosen.text
            return graph.read_only_query(text, bound, timeout=self.timeout, limit=self.limit)


@options
class Find(HomeVerb["pa.Table"]):
    """Find items and properties by label or alias.

    Exact matches come first, then matches in most facts.
    """

    name: str = argument(kw_only=False, help="Consecutive words of a label or an alias, in any case.")
    limit: int = flag(default=10, ge=1, group="Output", help="Maximum number of rows.")

    def run(self, home: Path) -> pa.Table:
        """Search the graph.

        Returns:
            Columns id, label, description and facts (of all snapshots that contain it).

        Raises:
            GraphError: if the name contains no word, or the graph cannot be read.
        """
        from kgedit.graph.reading import check_name, find_terms
        from kgedit.graph.state import open_finished

        check_name(self.name)
        with open_finished(home) as graph:
            if not graph.snapshot_dates():
                raise GraphError("The graph contains no snapshot. Load one: kgedit load-dump PATH --date YYYY-MM-DD")
            return find_terms(graph, self.name, limit=self.limit)


@options
class Browse(HomeVerb["BrowserPage"]):
    """Open Neo4j Browser on the loaded graph.

    Items, properties and values have different colours; edges show the property and the years: "2005–2021" has ended,
    "since 2021" continues. Without dates, --item shows its facts; with --from and --to it shows what began or ended
    between two snapshots.

    kgedit's own server needs no password in the browser that this command opens. For another server, or with the
    printed address, enter the user and the password; the query is then in the editor: press Ctrl+Enter to run it.
    """

    item: str | None = flag(
        default=None,
        kw_only=False,
        metavar="QID",
        help="Start with the neighbourhood of this item, such as Q183. Default: an item with many changes between the "
        "last two snapshots.",
    )
    older: Day | None = flag(
        "--from",
        default=None,
        complete="snapshot_dates",
        help="With --to: show what changed around it between two snapshots; date of the older one.",
    )
    newer: Day | None = flag("--to", default=None, complete="snapshot_dates", help="Date of the newer one.")

    def run(self, home: Path) -> BrowserPage:
        """Find the address of the page.

        Raises:
            GraphError: if one date is given alone or without an item, the graph lacks the item or a snapshot, or the
                server's Browser is unknown.
        """
        from kgedit.graph.browser import BrowserPage, query_around, write_entry
        from kgedit.graph.managed.server import ManagedServer
        from kgedit.graph.reading import changes_to_draw, check_item
        from kgedit.graph.state import open_finished

        if (self.older is None) != (self.newer is None) or (self.older is not None and self.item is None):
            raise GraphError("Give both dates or none, and dates only with an item.")
        if self.item is not None:
            _check_id(self.item)
        dates = self.older and self.newer
        window = {"from": str(read_date(self.older or "")), "to": str(read_date(self.newer or ""))} if dates else {}
        with open_finished(home) as graph:
            address, snapshots = graph.address, graph.snapshot_dates()
            item = self.item
            if item is None:
                item, window = changes_to_draw(graph, snapshots)
            else:
                check_item(graph, item)
            query = query_around(item, window, snapshots) if item else ""
        url = address.browser_page(query)
        if url is None:
            raise GraphError(f"kgedit knows no Browser for {address.uri}. Open the one of that server.")
        server = ManagedServer(home)
        entry = server.folder / "open-browser.html" if address.managed else None
        if entry and not write_entry(entry, address, query):
            entry = None
        return BrowserPage(url=url, user=address.user, password_file=server.password_file, entry=entry)


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
